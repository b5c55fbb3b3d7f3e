/** Transactions for which the tests of this package compare the messages with those of `nft` for the same text. */
import { ifnameValue, dataTypes as types } from "./data-types.ts"
import { fields, prefixOf } from "./fields.ts"
import { add, type Chain, create, flush, type NamedSet, type Operation, type Rule, remove } from "./rule-set.ts"
import {
  clearMark,
  counter,
  dnatMap,
  masquerade,
  match,
  matchBits,
  matchPrefix,
  matchSet,
  setMark,
  verdict,
  verdictMap,
} from "./statements.ts"

const owner = "net/c1/eth0"

/** Masquerades packets from addresses to other networks than their own. */
export function masquerading() {
  const { ipSource, ipDestination } = fields
  const comment = "CNI: elements are commented network/containerID/ifname"
  const table = { family: "ip", name: "cni_masquerade", comment } as const
  const base = { type: "nat", hook: "postrouting", priority: 100, policy: "accept" } as const
  const chain: Chain = { table, name: "postrouting", base }
  const containers: NamedSet = { table, name: "containers", key: [types.ipv4], comment: "whose traffic is masqueraded" }
  const key = [types.ipv4, types.ipv4]
  const networks: NamedSet = { table, name: "networks_16", key, comment: "each with its own network" }
  const toNetwork: Rule = {
    chain,
    statements: [matchSet([ipSource, prefixOf(ipDestination, 16)], "==", networks), verdict("return")],
    comment: "to its own network, /16",
  }
  const toElsewhere: Rule = {
    chain,
    statements: [
      matchSet([ipSource], "==", containers),
      matchPrefix(ipDestination, "!=", Uint8Array.of(224, 0, 0, 0), 4),
      masquerade,
    ],
    comment: "from containers to everywhere else",
  }
  return { table, chain, containers, networks, toNetwork, toElsewhere }
}

const [tcp, port8080] = [Uint8Array.of(6), Uint8Array.of(0x1f, 0x90)]
const container = Uint8Array.of(10, 1, 0, 2)
const { table: ofMasquerade, chain, containers, networks, toNetwork, toElsewhere } = masquerading()

const masqueraded: Operation[] = [
  add.table(ofMasquerade),
  add.chain(chain),
  flush.chain(chain),
  add.set(containers),
  add.set(networks),
  add.rule(toNetwork),
  add.rule(toElsewhere),
  create.elements(containers, [{ key: [container], comment: owner }]),
  create.elements(networks, [{ key: [container, Uint8Array.of(10, 1, 0, 0)], comment: owner }]),
]

const table = { family: "ip", name: "t" } as const
const entry = { table, name: "entry" }
const base = { type: "nat", hook: "prerouting", priority: -100, policy: "accept" } as const
const prerouting = { table, name: "prerouting", base }
const ports = { table, name: "ports", key: [types.protocol, types.port], value: [types.ipv4, types.port] }
const hosts = { table, name: "hosts", key: [types.ipv4], value: [types.ipv4] }

const mapped: Operation[] = [
  create.table(table),
  create.chain(entry),
  add.chain(prerouting),
  create.set(ports),
  add.set(hosts),
  add.elements(ports, [{ key: [tcp, port8080], value: [container, Uint8Array.of(0, 80)], comment: owner }]),
  add.rule({
    chain: prerouting,
    statements: [
      match(fields.destinationType, "==", Uint8Array.of(2, 0, 0, 0)),
      dnatMap([fields.protocol, fields.destinationPort], ports),
    ],
  }),
  add.rule({ chain: prerouting, statements: [dnatMap([fields.ipDestination], hosts)] }),
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

const inet = { family: "inet", name: "fw" } as const
const admitted = { table: inet, name: "admitted", key: [types.ipv6] }
const within = { table: inet, name: "within", key: [types.ifname, types.ifname], verdicts: true } as const
const links = (name: string) => [ifnameValue(name), ifnameValue(name)]
const allow = { table: inet, name: "allow" }
const forward = {
  table: inet,
  name: "forward",
  base: { type: "filter", hook: "forward", priority: -10, policy: "accept" },
} as const

const policies: Operation[] = [
  add.table(inet),
  add.chain(allow),
  add.chain(forward),
  add.set(admitted),
  add.set(within),
  create.elements(within, [{ key: links("br0"), verdict: "drop", comment: owner }]),
  add.rule({ chain: allow, statements: [setMark(0x1000), verdict("accept")] }),
  create.elements(within, [{ key: links("br1"), verdict: { goto: "allow" } }]),
  add.rule({ chain: allow, statements: [clearMark(0x1000)], comment: "afterwards" }),
  add.rule({
    chain: forward,
    statements: [verdictMap([fields.inputInterface, fields.outputInterface], within)],
  }),
  add.rule({
    chain: forward,
    statements: [
      match(fields.family, "==", Uint8Array.of(10)),
      matchSet([fields.ip6Source], "==", admitted),
      verdict({ goto: "allow" }),
    ],
  }),
  remove.elements(within, [{ key: links("br0"), verdict: "drop", comment: owner }]),
  remove.table(inet),
]

/** The order matters: some examples remove objects of earlier ones. */
export const examples = {
  masquerade: masqueraded,
  "port mapping": mapped,
  "spoof check": spoofing,
  removal: undone,
  policies,
} satisfies Record<string, Operation[]>
