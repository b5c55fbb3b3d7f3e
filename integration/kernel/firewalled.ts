import { expect } from "bun:test"
import { firewall } from "../../meta/firewall/main.ts"
import type { Namespace } from "../lab/mod.ts"
import { type Answer, callPlugin, type ProcessCall } from "./in-process.ts"

/** An attachment; number 2 is container "c2" with port "veth2", 10.1.0.2 and fd00:1::2 on bridge "br1" of "net1". */
export interface Firewalled {
  number: number
  policy?: "open" | "same-bridge" | "isolated" | undefined
  name?: string
  bridge?: string
  keys?: object
}

/** The configuration of firewall for it. */
export function configOf({ number, policy = "open", name = "net1", bridge = "br1", keys = {} }: Firewalled) {
  const interfaces = [{ name: bridge }, { name: `veth${number}` }, { name: "eth0", sandbox: "/run/netns/c" }]
  const ips = [`10.1.0.${number}/16`, `fd00:1::${number}/64`].map((address) => ({ address, interface: 2 }))
  const common = { cniVersion: "1.1.0", name, type: "firewall", backend: "nftables", ingressPolicy: policy }
  return { ...common, prevResult: { cniVersion: "1.1.0", interfaces, ips }, ...keys }
}

/** A host, and the namespace that stands for all containers: firewall does not look into it. */
export interface Place {
  readonly host: Namespace
  readonly pod: Namespace
}

/** Calls firewall for an attachment. */
export function callFirewall(
  { host, pod }: Place,
  verb: ProcessCall["verb"],
  spec: Firewalled,
  more: Partial<ProcessCall> = {},
): Answer {
  return callPlugin(host, firewall, { verb, config: configOf(spec), pod, containerId: `c${spec.number}`, ...more })
}

/** Calls it for each, which has to succeed without a line in the log. */
export function succeedAll(place: Place, verb: ProcessCall["verb"], ...specs: readonly Firewalled[]): void {
  for (const spec of specs) expect(callFirewall(place, verb, spec)).toMatchObject({ exitCode: 0, log: [] })
}
