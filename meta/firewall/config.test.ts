import { expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import type { JsonObject } from "../../pkg/types/mod.ts"
import { parseFirewallConfig } from "./config.ts"
import { hostLinkOf, specOf } from "./spec.ts"

const network = { cniVersion: "1.1.0", name: "lab", type: "firewall" }

function parse(raw: JsonObject, verb: Verb = "ADD") {
  return parseFirewallConfig(network, { args: "", verb, raw: { ...network, ...raw } })
}

const defaults = {
  backend: undefined,
  iptablesAdminChainName: "CNI-ADMIN",
  firewalldZone: "trusted",
  ingressPolicy: "open",
} as const

test("without keys, or with empty ones, everything is upstream's default", () => {
  expect(parse({})).toMatchObject(defaults)
  expect(parse({ backend: "", iptablesAdminChainName: "", firewalldZone: "", ingressPolicy: "" })).toEqual(parse({}))
})

test("#48 keys count in any case", () => {
  const raw = { BACKEND: "iptables", IPTablesAdminChainName: "SITE", FirewalldZone: "home", IngressPolicy: "isolated" }
  expect(parse(raw)).toMatchObject({
    backend: "iptables",
    iptablesAdminChainName: "SITE",
    firewalldZone: "home",
    ingressPolicy: "isolated",
  })
})

test.each([
  [{ backend: "ufw" }, '"backend": expected "nftables", "iptables" or "firewalld", found "ufw"'],
  [{ ingressPolicy: "closed" }, '"ingressPolicy": expected "open", "same-bridge" or "isolated", found "closed"'],
  [{ iptablesAdminChainName: "a b" }, '"iptablesAdminChainName": expected the name of a chain'],
  [{ iptablesAdminChainName: "X".repeat(29) }, "at most 28"],
  [{ iptablesAdminChainName: "CNI-FORWARD" }, "a name that no built-in chain has"],
  [{ iptablesAdminChainName: "admit" }, "a name that no built-in chain has"],
] as const)("%j is refused, and counts as absent for DEL", (raw, says) => {
  expect(() => parse(raw)).toThrow(says)
  if (!says.includes("built-in")) expect(parse(raw, "DEL")).toEqual(parse({}))
})

test.each([
  ["backend", 'expected "nftables", "iptables" or "firewalld", found 5'],
  ["iptablesAdminChainName", "expected the name of a chain, found 5"],
  ["firewalldZone", "expected the name of a zone, found 5"],
  ["ingressPolicy", 'expected "open", "same-bridge" or "isolated", found 5'],
] as const)("%s is a text: %s", (key, says) => {
  expect(() => parse({ [key]: 5 })).toThrow(`Cannot use "${key}": ${says}`)
  expect(parse({ [key]: 5 }, "GC")).toEqual(parse({}))
})

test("the name of a chain that is refused is told with what would do", () => {
  expect(() => parse({ iptablesAdminChainName: "a b" })).toThrow(
    'Cannot use "iptablesAdminChainName": expected the name of a chain: at most 28 letters, digits, "_", "." and "-", found "a b"',
  )
})

test.each([
  ...["allow", "admin", "admit", "forward", "unmark"],
  ...["INPUT", "FORWARD", "OUTPUT", "CNI-FORWARD", "CNI-ISOLATION-STAGE-1", "CNI-ISOLATION-STAGE-2"],
])("a chain %s of the administrator's would be one of the packet filters' own", (name) => {
  expect(() => parse({ iptablesAdminChainName: name })).toThrow("a name that no built-in chain has")
})

const sandbox = "/run/netns/c1"

test.each([
  ["bridge", ["br0", "veth1", "eth0"], { bridge: "br0", port: "veth1" }],
  ["bridge with a VLAN's gateway", ["br0", "veth1", "eth0", "br0.100"], { bridge: "br0.100", port: "veth1" }],
  ["bridge and bandwidth", ["br0", "veth1", "eth0", "bwp1"], { bridge: "br0", port: "veth1" }],
  ["ptp", ["veth1", "eth0"], { bridge: "veth1", port: undefined }],
  ["ptp and bandwidth", ["veth1", "eth0", "bwp1"], { bridge: "veth1", port: undefined }],
  ["ptp in a container that comes first", ["eth0", "veth1", "bwp1"], { bridge: "veth1", port: undefined }],
  ["bridge, with the master of another port", ["br0", "given0", "eth0"], { bridge: "br0", port: "given0" }],
  ["ptp, bandwidth and a chained bridge", ["given0", "eth0", "bwp1", "br0"], { bridge: "br0", port: "given0" }],
  ["a chained bridge", ["given0", "eth0", "br0"], { bridge: "br0", port: "given0" }],
  [
    "ptp, a VLAN's interface and a bridge",
    ["given0", "eth0", "given0.7", "br0"],
    { bridge: "given0.7", port: undefined },
  ],
  ["macvlan", ["eth0"], undefined],
] as const)("the host's side of %s is known by its result", (_, names, expected) => {
  const interfaces = names.map((name) => (name === "eth0" ? { name, sandbox } : { name }))
  const masterOf = (name: string) => (name === "given0" ? "br0" : undefined)
  expect(hostLinkOf({ interfaces, ips: [], routes: [], dns: {} }, masterOf)).toEqual(expected as never)
})

test("a policy needs an interface of the host, whose name the kernel would take", () => {
  const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
  const ips = [{ address: "::ffff:10.1.0.2/112" }, { address: "10.1.0.2/16" }, { address: "fd00::2/64" }]
  const result = { interfaces: [{ name: "eth0", sandbox }], ips, routes: [], dns: {} }
  expect(() => specOf(owner, result, { ...defaults, ingressPolicy: "isolated" })).toThrow(
    'Cannot apply ingressPolicy "isolated"',
  )
  const { addresses } = specOf(owner, result, defaults)
  expect(addresses.map(({ length }) => length)).toEqual([4, 16]) // an IPv4-mapped address is an IPv4 address, and duplicates are removed
  const odd = { ...result, interfaces: [{ name: "a/b" }] }
  expect(() => specOf(owner, odd, defaults)).toThrow(
    '"prevResult.interfaces": expected names of interfaces, found "a/b"',
  )
})
