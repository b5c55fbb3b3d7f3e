/**
 * A small D-Bus client: connects to a bus, calls methods whose arguments are texts, and receives signals. It needs no
 * library, because loading one would take longer than a whole plugin call.
 *
 * @example
 * using bus = Bus.findSystem()
 * bus?.call({ destination, path, interface: "org.fedoraproject.FirewallD1.zone", member: "addSource", args: [zone, source] })
 */
export { Bus } from "./bus.ts"
export { DbusError, type MethodCall, type Value } from "./message.ts"
