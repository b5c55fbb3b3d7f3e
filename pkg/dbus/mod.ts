/**
 * A small client of D-Bus: connects to a bus, calls methods whose arguments are texts, and hears signals. A library costs a plugin more than
 * the whole call.
 *
 * @example
 * using bus = Bus.findSystem()
 * bus?.call({ destination, path, interface: "org.fedoraproject.FirewallD1.zone", member: "addSource", args: [zone, source] })
 */
export { Bus } from "./bus.ts"
export { DbusError, type MethodCall, type Value } from "./message.ts"
