import { describe, expect, test } from "bun:test"
import { ifnameValue } from "../../pkg/nftables/mod.ts"
import { checkDeviceHooks, checkFrames } from "./frames.ts"
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

const [PROTOCOL, IIFNAME] = [1, 6] // NFT_META_*, <linux/netfilter/nf_tables.h>
const meta = (key: number): Part => ["meta", { key }]
const is = (value: Uint8Array): Part => ["cmp", { op: 0, data: { value } }]
const arp = [meta(PROTOCOL), is(Uint8Array.of(0x08, 0x06))]
const byPort = (name: string) => [meta(IIFNAME), is(ifnameValue(name))]

const patient = {
  members: [memberOf({ type: "bridge" })],
  links: [
    linkOf(2, "cni0", { kind: "bridge", addresses: ["10.85.0.1/24"] }),
    linkOf(3, "up0"),
    linkOf(4, "veth1", { master: 2 }),
  ],
  routes: [{ dst: "0.0.0.0/0", dev: "up0", protocol: 3 }],
  attachments: [attachmentOf({ addresses: ["10.85.0.2/24"], link: linkOf(4, "veth1", { master: 2 }) })],
}

describe("at the ingress or egress of an interface", () => {
  const found = (parts: readonly Part[], base: Parameters<typeof baseOf>[1] = {}) =>
    told(
      checkDeviceHooks(
        patientOf({
          ...patient,
          filter: {
            bases: [baseOf("netdev guard c", { hook: "ingress", devices: ["veth1"], ...base })],
            rules: parts.length === 0 ? [] : [ruleOf("netdev guard c", 7, ...parts)],
          },
        }),
      ),
    )

  test("a rule that drops everything is named, and the remedy is words", () => {
    expect(found([drop])).toEqual([
      `error netdev-drop
a rule in table netdev guard, chain c, at ingress drops everything of interface "veth1": chain c, handle 7
it is asked before all other rules, and a drop is final: what containers send by the interface, or get by it, does not arrive
let frames of containers pass there, by the program that made it; "nft -a list chain netdev guard c" shows it`,
    ])
    expect(found([], { policy: "drop" })[0]).toContain(
      'at ingress drops everything of interface "veth1", by its policy\n',
    )
  })

  test.each<[number, string, Part[], Parameters<typeof baseOf>[1]?]>([
    [1, "all is dropped at the bridge", [drop], { devices: ["cni0"] }],
    [1, "all is dropped at the uplink", [drop], { devices: ["up0"], hook: "egress" }],
    [0, "all is dropped at an interface of others", [drop], { devices: ["eth9"] }],
    [0, "a kind of frames is dropped", [...arp, drop]],
    [0, "frames over a limit are dropped", [["limit", new Uint8Array(0)], drop]],
    [0, "a policy drops what is not accepted, and all is", [accept], { policy: "drop" }],
    [0, "a policy drops what is not accepted, and something is", [...arp, accept], { policy: "drop" }],
  ])("%d findings where %s", (...[count, , parts, base = {}]) => {
    expect(found(parts, base)).toHaveLength(count)
  })
})

describe("in family bridge", () => {
  const found = (parts: readonly Part[], base: Parameters<typeof baseOf>[1] = {}) =>
    checkFrames(
      patientOf({
        ...patient,
        filter: {
          bases: [baseOf("bridge guard c", base)],
          rules: parts.length === 0 ? [] : [ruleOf("bridge guard c", 3, ...parts)],
        },
      }),
    )

  test.each<[number, string, Part[], Parameters<typeof baseOf>[1]?]>([
    [1, "a policy drops all", [], { policy: "drop" }],
    [1, "a rule drops all of a port", [...byPort("veth1"), drop], { hook: "prerouting" }],
    [0, "a rule drops all of another port", [...byPort("veth2"), drop]],
    [0, "a rule drops a kind of frames of a port", [...byPort("veth1"), ...arp, drop]],
    [0, "a policy drops what is not accepted, and something is", [...arp, accept], { policy: "drop" }],
  ])("%d findings where %s", (...[count, , parts, base = {}]) => {
    expect(found(parts, base)).toHaveLength(count)
  })
})
