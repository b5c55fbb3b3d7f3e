import { expect, test } from "bun:test"
import { ifnameValue } from "../../pkg/nftables/mod.ts"
import { checkOtherHooks } from "./other-hooks.ts"
import {
  accept,
  attachmentOf,
  baseOf,
  drop,
  linkOf,
  memberOf,
  type Part,
  patientOf,
  ruleOf,
  told,
} from "./testing/patients.ts"

const [IIFNAME, NFPROTO, L4PROTO] = [6, 15, 16] // NFT_META_*, <linux/netfilter/nf_tables.h>
const NEQ = 1 // NFT_CMP_NEQ
const meta = (key: number): Part => ["meta", { key }]
const is = (value: Uint8Array, op?: number): Part => ["cmp", { ...(op === undefined ? {} : { op }), data: { value } }]
const payload: Part = ["payload", {}]
const notrack: Part = ["notrack", new Uint8Array(0)]
const byBridge = [meta(IIFNAME), is(ifnameValue("cni0"))]
const fromNetwork = [payload, is(Uint8Array.of(10, 85, 0))]
const base = baseOf("ip raw PREROUTING", { hook: "prerouting", priority: -300 })

const found = (parts: readonly Part[], bases = [base]) =>
  told(
    checkOtherHooks(
      patientOf({
        filter: { bases, rules: [ruleOf("ip raw PREROUTING", 7, ...parts)] },
        links: [linkOf(2, "cni0", { kind: "bridge" })],
        members: [memberOf({ type: "bridge" })],
        attachments: [attachmentOf({ addresses: ["10.85.0.2/24"] })],
      }),
    ),
  )

test("a rule that drops all packets of containers before routing is named with the command that deletes it", () => {
  for (const parts of [
    byBridge,
    fromNetwork,
    [...byBridge, ...fromNetwork],
    [meta(NFPROTO), is(Uint8Array.of(2)), ...fromNetwork],
  ])
    expect(found([...parts, drop])).toEqual([
      `error forward-drop-rule
a rule in table ip raw, chain PREROUTING drops packets of containers: chain PREROUTING, handle 7
it is asked before or after routing, and a drop is final: containers reach nothing by the host
nft delete rule ip raw PREROUTING handle 7`,
    ])
})

test("so is a rule that keeps them out of connection tracking", () => {
  expect(found([...byBridge, notrack])[0]).toStartWith("error not-tracked\n")
  expect(found([...byBridge, accept])).toEqual([])
})

test.each<[string, readonly Part[]]>([
  ["about one protocol or port", [...byBridge, meta(L4PROTO), is(Uint8Array.of(6)), drop]],
  [
    "about what comes by another interface in the name of containers",
    [meta(IIFNAME), is(ifnameValue("cni0"), NEQ), ...fromNetwork, drop],
  ],
  ["about another interface", [meta(IIFNAME), is(ifnameValue("eth0")), drop]],
  ["that asks for a set", [...byBridge, ["lookup", {}], drop]],
  ["about all packets", [drop]],
])("a rule %s is no fault", (_, parts) => {
  expect(found(parts)).toEqual([])
})

test("other hooks, families and tables of this suite are not looked at", () => {
  const rule = [...byBridge, drop]
  expect(found(rule, [{ ...base, hook: "input" }])).toEqual([])
  expect(found(rule, [{ ...base, type: "nat" }])).toEqual([])
  expect(found(rule, [{ ...base, hook: "postrouting" }])).toHaveLength(1)
})
