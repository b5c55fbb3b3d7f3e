import { describe, expect, test } from "bun:test"
import { extensionAttributes } from "../../pkg/nftables/mod.ts"
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

const [PROTOCOL, IIFTYPE, NFPROTO] = [1, 8, 15] // NFT_META_*, <linux/netfilter/nf_tables.h>
const meta = (key: number): Part => ["meta", { key }]
const payload = (base: number, offset: number): Part => ["payload", { base, offset }]
const is = (...value: number[]): Part => ["cmp", { op: 0, data: { value: Uint8Array.from(value) } }]
const isNot = (...value: number[]): Part => ["cmp", { op: 1, data: { value: Uint8Array.from(value) } }]
const [LINK, NETWORK, TRANSPORT] = [0, 1, 2]

const patient = {
  members: [memberOf({ type: "bridge" })],
  links: [linkOf(2, "cni0", { kind: "bridge", addresses: ["10.85.0.1/24"] }), linkOf(3, "up0")],
  routes: [{ dst: "0.0.0.0/0", dev: "up0", protocol: 3 }],
  attachments: [attachmentOf({ addresses: ["10.85.0.2/24"], link: linkOf(4, "veth1", { master: 2 }) })],
}

/** As `nft --debug=netlink` shows the rules of `nft add rule netdev …`. */
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
  const ip = [meta(PROTOCOL), is(0x08, 0x00)]
  const from = [...ip, payload(NETWORK, 12), is(10, 85, 0)]

  test("a rule that drops what a container sends is named with the command that deletes it", () => {
    expect(found([...from, drop])).toEqual([
      `error netdev-drop
a rule in table netdev guard, chain c, at ingress of "veth1", drops packets of containers: chain c, handle 7
it is asked before all other rules, and a drop is final: what containers send by the interface, or get by it, does not arrive
nft delete rule netdev guard c handle 7`,
    ])
    expect(found([], { policy: "drop" }).join()).toEndWith("\nnft add chain netdev guard c '{ policy accept; }'")
  })

  test.each<[number, string, Part[], Parameters<typeof baseOf>[1]?]>([
    [1, "all is dropped", [drop]],
    [1, "all is dropped at the bridge", [drop], { devices: ["cni0"] }],
    [1, "all is dropped at the uplink", [drop], { devices: ["up0"] }],
    [0, "all is dropped at an interface of others", [drop], { devices: ["eth9"] }],
    [1, "all of IP is dropped", [...ip, drop]],
    [1, "ARP is dropped", [meta(IIFTYPE), is(1, 0), payload(LINK, 12), is(0x08, 0x06), drop]],
    [0, "IPv6 is dropped, which no container has", [meta(PROTOCOL), is(0x86, 0xdd), drop]],
    [
      1,
      "a container's address is dropped in family inet",
      [meta(NFPROTO), is(2), payload(NETWORK, 16), is(10, 85, 0, 2), drop],
    ],
    [0, "the gateway's address may not be sent from", [...ip, payload(NETWORK, 12), is(10, 85, 0, 1), drop]],
    [1, "the gateway may not be sent to", [...ip, payload(NETWORK, 16), is(10, 85, 0, 1), drop]],
    [0, "another address than the container's is dropped", [...ip, payload(NETWORK, 12), isNot(10, 85, 0, 2), drop]],
    [0, "a port is dropped that reads like an address", [...ip, payload(TRANSPORT, 2), is(10, 85), drop]],
    [0, "a container's port is dropped", [...from, payload(TRANSPORT, 2), is(0, 25), drop]],
    [0, "packets with a container's address are dropped at the uplink", [...from, drop], { devices: ["up0"] }],
    [0, "what is dropped is not known", [...from, ["limit", new Uint8Array(0)], drop]],
    [0, "a policy drops what is not accepted, and all is", [accept], { policy: "drop" }],
    [0, "it accepts", [...from, accept]],
  ])("%d findings where %s", (...[count, , parts, base = {}]) => {
    expect(found(parts, base)).toHaveLength(count)
  })
})

/** struct ebt_ip_info and ebt_arp_info, <linux/netfilter_bridge/ebt_ip.h>, ebt_arp.h, as ebtables-nft hands them to the kernel. */
describe("addresses that ebtables matches", () => {
  const match = (name: string, info: string): Part => [
    "match",
    extensionAttributes.encode({ name, revision: 0, info: Uint8Array.fromHex(info.replaceAll(" ", "")) }),
  ]
  const found = (...parts: Part[]) => {
    const one = patient.attachments[0] ?? expect.unreachable()
    const lists = { links: [], addresses: [], rules: [], routes: [], neighbours: [], routesTo: new Map() }
    const inside = { path: "/n", inode: 1n, ...lists, filter: undefined }
    return checkFrames(
      patientOf({
        ...patient,
        attachments: [{ ...one, netns: "/n", result: { interfaces: [], ips: [], routes: [], dns: {} } as never }],
        insides: new Map([["/n", { ...inside, settings: new Map(), notWhole: [] }]]),
        filter: {
          bases: [baseOf("bridge filter FORWARD", {})],
          rules: [ruleOf("bridge filter FORWARD", 3, payload(LINK, 12), ...parts, drop)],
        },
      }),
    )
  }
  const ip = is(0x08, 0x00)
  const NONE = "00000000"
  test.each<[number, string, Part, Part]>([
    [1, "a source", ip, match("ip", `0a550000 ${NONE} ffffff00 ${NONE} 00 00 01 00 ${NONE} ${NONE}`)],
    [1, "a destination", ip, match("ip", `${NONE} 0a550002 ${NONE} ffffffff 00 00 02 00 ${NONE} ${NONE}`)],
    [0, "another source", ip, match("ip", `0a560000 ${NONE} ffffff00 ${NONE} 00 00 01 00 ${NONE} ${NONE}`)],
    [0, "any but this source", ip, match("ip", `0a550000 ${NONE} ffffff00 ${NONE} 00 00 01 01 ${NONE} ${NONE}`)],
    [0, "a source and a protocol", ip, match("ip", `0a550000 ${NONE} ffffff00 ${NONE} 00 06 09 00 ${NONE} ${NONE}`)],
    [0, "a struct that was cut off", ip, match("ip", `0a550000 ${NONE} ffffff00`)],
    [0, "a match that is not known", ip, match("among", "00")],
    [
      1,
      "a target of ARP",
      is(0x08, 0x06),
      match("arp", `0000 0000 0100 0000 ${NONE} ${NONE} 0a550002 ffffffff ${"00".repeat(24)} 11 00 0000`),
    ],
  ])("%d findings for %s", (count, _, kind, matching) => {
    expect(found(kind, matching)).toHaveLength(count)
  })
})
