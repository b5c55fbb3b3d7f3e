/** Tests the comparisons of `cni diff` in this process, whose thread enters the host's namespace. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { Netns } from "../../../pkg/netns/mod.ts"
import type { Result } from "../../../pkg/types/mod.ts"
import { compareGateways, compareRules, compareWithKernel, type Difference } from "../../../tools/diff/mod.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create()
  pod = await host.addContainer()
  const lines = [
    "link add br0 type bridge",
    "link set br0 address 02:00:00:00:00:0b",
    "address add 10.1.0.1/16 dev br0",
  ]
  await host.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
  const inside = [
    "link add eth0 address 02:00:00:00:00:0a type veth peer name far",
    "link set eth0 addrgenmode none",
    "link set far up",
    "link set eth0 up mtu 1400",
    "address add 10.1.0.2/16 dev eth0",
    "address add fd00::2/64 dev eth0 nodad",
    "route add default via 10.1.0.1",
    "route add 10.9.0.0/16 dev eth0",
    "route add 10.8.0.0/16 via 10.1.0.1 table 77",
  ]
  await pod.exec("ip", ["-batch", "-"], { input: `${inside.join("\n")}\n` })
})
afterAll(() => host[Symbol.asyncDispose]())

function onHost<T extends readonly Difference[]>(compare: () => T): string[] {
  using namespace = Netns.open(host.path)
  const found = namespace.run(compare as () => readonly Difference[])
  return found.map(({ what, expected, found }) => `${what}: ${expected}, ${found}`)
}

const whole = (): Result => ({
  interfaces: [
    { name: "br0", mac: "02:00:00:00:00:0B" },
    { name: "eth0", mac: "02:00:00:00:00:0a", mtu: 1400, sandbox: pod.path },
  ],
  ips: [
    { address: "10.1.0.2/16", gateway: "10.1.0.1", interface: 1 },
    { address: "fd00:0::2/64", interface: 1 },
  ],
  routes: [{ dst: "0.0.0.0/0", gw: "10.1.0.1" }, { dst: "10.9.0.0/16" }, { dst: "10.8.0.0/16", table: 77 }],
  dns: {},
})
const differences = (change: (result: Result) => unknown = () => {}) => {
  const result = structuredClone(whole())
  change(result)
  return onHost(() => compareWithKernel(result, pod.path))
}
const first = (list: Result["ips"] | Result["interfaces"]) => (list as object[])[1] as never

test("nothing differs from what was made", () => {
  expect(differences()).toEqual([])
})

test.each<[string, (result: Result) => unknown, string[]]>([
  [
    "a MAC, in any case",
    ({ interfaces }) => Object.assign(first(interfaces), { mac: "02:00:00:00:00:0F" }),
    ["MAC of eth0: 02:00:00:00:00:0f, 02:00:00:00:00:0a"],
  ],
  ["an MTU", ({ interfaces }) => Object.assign(first(interfaces), { mtu: 1500 }), ["MTU of eth0: 1500, 1400"]],
  [
    "an interface of the host",
    ({ interfaces }) => interfaces.push({ name: "br9" }),
    ["interface br9 on the host: there, nothing"],
  ],
  [
    "one of the container",
    ({ interfaces }) => interfaces.push({ name: "br0", sandbox: "/x" }),
    ["interface br0 in the container: there, nothing"],
  ],
  [
    "the state of one with an address",
    ({ ips }) => ips.push({ address: "10.1.0.1/16", interface: 0 }),
    ["state of br0: up, down"],
  ],
  [
    "an address that is missing",
    ({ ips }) => ips.push({ address: "10.1.0.3/16", interface: 1 }),
    ["address of eth0: 10.1.0.3/16, nothing"],
  ],
  ["an address too many", ({ ips }) => ips.splice(1), ["address of eth0: nothing, fd00::2/64"]],
  [
    "a prefix length",
    ({ ips }) => Object.assign(first(ips), { address: "fd00::2/65" }),
    ["address of eth0: fd00::2/65, nothing", "address of eth0: nothing, fd00::2/64"],
  ],
  ["a route", ({ routes }) => routes.push({ dst: "10.7.0.0/16" }), ["route 10.7.0.0/16: there, nothing"]],
  [
    "the gateway of a route",
    ({ routes }) => routes.push({ dst: "10.9.0.0/16", gw: "10.1.0.9" }),
    ["route 10.9.0.0/16: via 10.1.0.9, without a gateway"],
  ],
  [
    "the table of a route",
    ({ routes }) => routes.push({ dst: "10.9.0.0/16", table: 77 }),
    ["route 10.9.0.0/16: there, nothing"],
  ],
  [
    "the gateway of the default route",
    ({ routes, ips }) => {
      routes[0] = { dst: "0.0.0.0/0", gw: "10.1.0.9" }
      Object.assign(ips[0] as object, { gateway: "10.1.0.9" })
    },
    ["route default: via 10.1.0.9, via 10.1.0.1"],
  ],
  [
    "no default route of ADD's",
    ({ routes, ips }) => Object.assign(ips[0] as object, { gateway: undefined }) && routes.shift(),
    ["route default: nothing, via 10.1.0.1"],
  ],
])("what differs is named: %s", (_, change, expected) => {
  expect(differences(change)).toEqual(expected)
})

test("a namespace that no longer exists is all that is said", () => {
  expect(onHost(() => compareWithKernel(whole(), "/run/netns/not-there"))).toEqual([
    "namespace /run/netns/not-there: there, gone",
  ])
})

test("gateways are addresses of the host's", () => {
  const ips = [
    { address: "10.1.0.2/16", gateway: "10.1.0.1" },
    { address: "10.2.0.2/16", gateway: "10.2.0.1" },
    { address: "10.2.0.3/16", gateway: "10.2.0.1" },
  ]
  expect(onHost(() => compareGateways({ ...whole(), ips }))).toEqual(["gateway on the host: 10.2.0.1, nothing"])
})

test("rules that a configuration asks for are there for the attachment, of either suite", async () => {
  const attachment = { containerId: "c1", ifName: "eth0", netns: "", args: [], capabilityArgs: {} }
  const plugins = (raw: object) => [{ type: "bridge", raw }] as never
  const found = (raw: object) => onHost(() => compareRules(plugins(raw), "lab", attachment))
  expect(found({})).toEqual([])
  expect(found({ ipMasq: true, macspoofchk: true })).toEqual([
    "masquerade of lab/c1/eth0: rules, nothing",
    "check of source MACs of lab/c1/eth0: rules, nothing",
  ])
  const of = (owner: string) =>
    `table ip cni_masquerade { set containers { type ipv4_addr; elements = { 10.1.0.2 comment "${owner}" }; }; }\n`
  await host.exec("nft", ["-f", "-"], { input: of("lab/c2/eth0") })
  expect(found({ IPMasq: true })).toHaveLength(1)
  await host.exec("nft", ["-f", "-"], { input: `flush ruleset; ${of("lab/c1/eth0")}` })
  expect(found({ ipMasq: true })).toEqual([])
  expect(found({ macspoofchk: true })).toHaveLength(1)
})
