import { describe, expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import { type JsonObject, parseNetworkConfig } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseHostLocalConfig } from "./config.ts"
import { formatAddress, formatRangeSet } from "./ranges.ts"

const subnet = "10.1.0.0/24"

function parse(keys: { [key: string]: unknown }, { verb = "ADD" as Verb, args = "" } = {}) {
  const raw = { cniVersion: "1.1.0", name: "net", type: "host-local", ...keys } as JsonObject
  const lenient = verb === "DEL" || verb === "GC"
  return parseHostLocalConfig(parseNetworkConfig(raw, { lenient }), { verb, args, raw })
}

function refusal(keys: { [key: string]: unknown }, args = "") {
  const { code, message, details } = refusalOf(() => parse(keys, { args }))
  return [code, message, details]
}

test.each([
  ["/var/lib/cni/networks/net", {}],
  ["/var/lib/cni/networks/net", { dataDir: "" }],
  ["/data/net", { dataDir: "/data" }],
  ["/data/net", { DataDir: "/data/" }],
])("reservations are in %s for %j, with each verb", (directory, ipam) => {
  for (const verb of ["ADD", "CHECK", "DEL", "GC", "STATUS"] as const)
    expect(parse({ ipam: { subnet, ...ipam } }, { verb }).directory).toBe(directory)
})

test.each(["DEL", "GC"] as const)("%s reads nothing else, and takes a directory of the wrong type for none", (verb) => {
  const nothing = {
    rangeSets: [],
    requested: [],
    routes: [],
    resolvConf: undefined,
    rangesFile: undefined,
  }
  const directory = "/var/lib/cni/networks/net"
  for (const ipam of [{ subnet: "x", routes: 5, resolvConf: "/x" }, { dataDir: 5 }, 5, null])
    expect(parse({ ipam }, { verb, args: "IP=x" })).toEqual({ directory, ...nothing })
})

test("ranges, wishes, routes and resolvConf are read", () => {
  const ipam = { subnet, resolvConf: "/etc/resolv.conf", routes: [{ dst: "0.0.0.0/0", gw: "10.1.0.1" }] }
  const { rangeSets, requested, routes, resolvConf } = parse({ ipam }, { args: "IP=10.1.0.5/24" })
  expect([rangeSets.map(formatRangeSet), requested.map(formatAddress)]).toEqual([["10.1.0.1-10.1.0.254"], ["10.1.0.5"]])
  expect([routes, resolvConf]).toEqual([ipam.routes, "/etc/resolv.conf"])
  expect(parse({ ipam: { subnet, resolvConf: "" } })).toMatchObject({
    requested: [],
    routes: [],
    resolvConf: undefined,
  })
})

test.each([
  [["10.1.0.5", "10.1.0.5/24", "::ffff:10.1.0.5"], ["10.1.0.5"]],
  [
    ["10.1.0.9/8", "fd00::0:9/64"],
    ["10.1.0.9", "fd00::9"],
  ],
])("each of the wishes %j counts once, its prefix length not at all", (ips, expected) => {
  expect(parse({ ipam: { subnet }, runtimeConfig: { ips } }).requested.map(formatAddress)).toEqual(expected)
})

describe("is refused, whole:", () => {
  const wished = (text: string) => [
    7,
    `Cannot reserve the requested address "${text}": cannot understand ip: expected one like 10.1.0.5`,
    '"args.cni.ips", "runtimeConfig.ips" or CNI_ARGS requests it',
  ]

  test.each([
    ["no ipam", {}, [7, "IPAM config missing 'ipam' key", 'network "net" does not configure addresses']],
    [
      "no range",
      { ipam: {} },
      [7, "no IP ranges specified", 'set "ipam.ranges" or "ipam.rangesFile" of network "net"'],
    ],
    [
      "a wish that is not an address",
      { ipam: { subnet }, runtimeConfig: { ips: ["10.1.0.5/x"] } },
      wished("10.1.0.5/x"),
    ],
    ["a wish that is a prefix length", { ipam: { subnet }, runtimeConfig: { ips: ["/24"] } }, wished("/24")],
    ["a wish that is a number", { ipam: { subnet }, args: { cni: { ips: ["24"] } } }, wished("24")],
  ])("%s", (_, keys, expected) => {
    expect(refusal(keys)).toEqual(expected)
  })

  test("a wish in CNI_ARGS that is not an address", () => {
    expect(refusal({ ipam: { subnet } }, "IP=10.1.0")).toEqual([
      4,
      'CNI_ARGS: cannot read the value of "IP=10.1.0"',
      "expected an address such as 10.1.0.5",
    ])
  })

  test("a route that cannot be parsed", () => {
    const [code, message] = refusal({ ipam: { subnet, routes: [{ dst: "x" }] } })
    expect([code, message]).toEqual([7, expect.stringMatching(/^Cannot use "ipam\.routes": .*routes\[0\]\.dst/)])
  })
})

describe("below 0.3.0 a result has room for one address of a family:", () => {
  const sets = (...subnets: string[]) => ({ ipam: { ranges: subnets.map((each) => [{ subnet: each }]) } })
  const [a4, b4, a6, b6] = [subnet, "10.2.0.0/24", "fd00::/64", "fd01::/64"]

  test.each([
    [[a4, b4], 2, 0],
    [[a6, b6], 0, 2],
    [[a4, a6, b6], 1, 2],
    [[a4, b4, a6], 2, 1],
  ])("%j are too many", (subnets, four, six) => {
    for (const cniVersion of ["0.1.0", "0.2.0"])
      expect(refusal({ cniVersion, ...sets(...subnets) })).toEqual([
        7,
        `CNI version ${cniVersion} does not support more than 1 address per family`,
        `found ${four} IPv4 and ${six} IPv6 range sets`,
      ])
    expect(parse({ cniVersion: "0.3.0", ...sets(...subnets) }).rangeSets).toHaveLength(subnets.length)
  })

  test.each([[[a4, a6]], [[a6]], [[a4]]])("%j are not", (subnets) => {
    expect(parse({ cniVersion: "0.2.0", ...sets(...subnets) }).rangeSets).toHaveLength(subnets.length)
  })
})
