import { mac } from "../netlink/mod.ts"
import { dataTypes, ifnameValue } from "./data-types.ts"
import { fields } from "./fields.ts"
import type { Chain, Element, NamedSet, Rule, Table } from "./rule-set.ts"
import { matchSet, verdict } from "./statements.ts"

/** The port of a bridge on which a container's frames come in, and the only MAC that they may come from. */
export interface GuardedPort {
  /** The name of the host's end of the pair. */
  port: string
  /** "0a:00:00:00:00:01" */
  mac: string
}

const table: Table = {
  family: "bridge",
  name: "cni_spoofcheck",
  comment: "CNI: elements are commented network/containerID/ifname",
}

const chain: Chain = {
  table,
  name: "prerouting",
  base: { type: "filter", hook: "prerouting", priority: -300, policy: "accept" },
}

/** The ports that are looked at: whatever else is a port of a bridge may send what it likes. */
const guarded: NamedSet = { table, name: "guarded", key: [dataTypes.ifname], comment: "ports of containers" }

/** What may come in by them. */
const allowed: NamedSet = {
  table,
  name: "allowed",
  key: [dataTypes.ifname, dataTypes.ether],
  comment: "the source MAC of each",
}

const rule: Rule = {
  chain,
  statements: [
    matchSet([fields.inputInterface], "==", guarded),
    matchSet([fields.inputInterface, fields.etherSource], "!=", allowed),
    verdict("drop"),
  ],
  comment: "frames from another MAC than the container's",
}

/** The objects that guard the ports of a namespace's bridges: one rule for all of them, and sets for it to look into. */
export const spoofCheckLayout = { table, chain, guarded, allowed, rule } as const

/** The element of `guarded` for a port. */
export function guardedElement({ port }: GuardedPort, comment: string): Element {
  return { key: [ifnameValue(port)], comment }
}

/** The element of `allowed` for a port. */
export function allowedElement(port: GuardedPort, comment: string): Element {
  return { key: [ifnameValue(port.port), mac.encode(port.mac)], comment }
}
