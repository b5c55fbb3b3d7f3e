/** Transactions that the tests of this room compare with what `nft` makes of the same text. */
import { ifnameValue, dataTypes as types } from "./data-types.ts"
import { fields } from "./fields.ts"
import { masqueradeLayout } from "./masquerade-layout.ts"
import { planNew, skeleton } from "./masquerade-plan.ts"
import { add, create, flush, type Operation, remove } from "./rule-set.ts"
import { counter, dnatMap, match, matchBits, matchPrefix, matchSet, verdict, verdictMap } from "./statements.ts"

const owner = "net/c1/eth0"

function masqueraded(family: "ip" | "ip6", ip: Uint8Array, prefix: number): Operation[] {
  const layout = masqueradeLayout(family)
  return [...skeleton(layout, [prefix]), ...planNew(layout, [{ ip, prefix }], owner)]
}

const [tcp, port8080] = [Uint8Array.of(6), Uint8Array.of(0x1f, 0x90)]
const container = Uint8Array.of(10, 1, 0, 2)
const table = { family: "ip", name: "t" } as const
const entry = { table, name: "entry" }
const base = { type: "nat", hook: "prerouting", priority: -100, policy: "accept" } as const
const prerouting = { table, name: "prerouting", base }
const ports = { table, name: "ports", key: [types.protocol, types.port], value: [types.ipv4, types.port] }
const hosts = { table, name: "hosts", key: [types.ipv4], value: [types.ipv4] }
const links = { table, name: "links", key: [types.ifname], value: "verdict", comment: "by interface" } as const

const mapped: Operation[] = [
  create.table(table),
  create.chain(entry),
  add.chain(prerouting),
  create.set(ports),
  add.set(hosts),
  add.set(links),
  add.elements(ports, [{ key: [tcp, port8080], value: [container, Uint8Array.of(0, 80)], comment: owner }]),
  add.elements(links, [{ key: [ifnameValue("veth0")], value: { jump: "entry" }, comment: owner }]),
  add.elements(links, [{ key: [ifnameValue("veth1")], value: "drop" }]),
  add.rule({
    chain: prerouting,
    statements: [
      match(fields.destinationType, "==", Uint8Array.of(2, 0, 0, 0)),
      dnatMap([fields.protocol, fields.destinationPort], ports),
    ],
  }),
  add.rule({ chain: prerouting, statements: [dnatMap([fields.ipDestination], hosts)] }),
  add.rule({ chain: prerouting, statements: [verdictMap([fields.inputInterface], links)] }),
  add.rule({
    chain: entry,
    statements: [
      matchBits(fields.ctStatus, "dnat"),
      matchBits(fields.ctState, "established", "related"),
      counter,
      verdict("accept"),
    ],
    comment: "known",
  }),
  add.rule({
    chain: entry,
    statements: [
      match(fields.ctDirection, "==", Uint8Array.of(0)),
      match(fields.mark, "!=", Uint8Array.of(0, 0x20, 0, 0)),
      matchPrefix(fields.ipSource, "==", Uint8Array.of(10, 128, 0, 0), 9),
      matchPrefix(fields.ipDestination, "!=", Uint8Array.of(10, 0, 0, 0), 8),
      verdict("return"),
    ],
  }),
]

const bridge = { family: "bridge", name: "spoof" } as const
const ingress = {
  table: bridge,
  name: "ingress",
  base: { type: "filter", hook: "prerouting", priority: -300, policy: "accept" },
} as const
const senders = { table: bridge, name: "senders", key: [types.ifname, types.ether] }

const spoofing: Operation[] = [
  add.table(bridge),
  add.chain(ingress),
  add.set(senders),
  add.elements(senders, [{ key: [ifnameValue("veth0"), Uint8Array.of(2, 0, 0, 0, 0, 1)], comment: owner }]),
  add.rule({
    chain: ingress,
    statements: [matchSet([fields.inputInterface, fields.etherSource], "!=", senders), verdict("drop")],
  }),
]

const undone: Operation[] = [
  remove.elements(senders, [{ key: [ifnameValue("veth0"), Uint8Array.of(2, 0, 0, 0, 0, 1)], comment: owner }]),
  flush.chain(ingress),
  remove.chain(ingress),
  remove.set(senders),
  remove.table(bridge),
  flush.chain(prerouting),
  remove.elements(ports, [{ key: [tcp, port8080] }]),
  remove.table(table),
]

/** In this order: what an example removes, the ones before it have made. */
export const examples = {
  "masquerade, IPv4": masqueraded("ip", container, 16),
  "masquerade, IPv6": masqueraded("ip6", Uint8Array.fromHex("fd000000000000000000000000000002"), 60),
  "port mapping": mapped,
  "spoof check": spoofing,
  removal: undone,
} satisfies Record<string, Operation[]>
