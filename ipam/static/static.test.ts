import { describe, expect, test } from "bun:test"
import { serve } from "../../pkg/skel/mod.ts"
import { staticIpam } from "./main.ts"

function call(config: object, options: { verb?: string; args?: string; version?: string } = {}) {
  const { verb = "ADD", args = "", version = "1.1.0" } = options
  const env = {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: "abc",
    CNI_NETNS: "/proc/self/ns/none",
    CNI_IFNAME: "eth0",
    CNI_ARGS: args,
    CNI_PATH: "/opt/cni/bin",
  }
  const input = new TextEncoder().encode(JSON.stringify({ cniVersion: version, name: "net", type: "ptp", ...config }))
  const { stdout, exitCode } = serve(staticIpam, { env, stdin: () => input, log: () => {} })
  return { exitCode, answer: stdout === "" ? undefined : JSON.parse(stdout) }
}

const two = { ipam: { addresses: [{ address: "10.1.2.3/24", gateway: "10.1.2.1" }, { address: "fd00::3/64" }] } }

describe("ADD", () => {
  test("answers the configured addresses, host parts and gateways included", () => {
    expect(call(two).answer.ips).toEqual([{ address: "10.1.2.3/24", gateway: "10.1.2.1" }, { address: "fd00::3/64" }])
  })

  test("answers routes and dns as they are written, equal routes for multipath included", () => {
    const routes = [
      { dst: "0.0.0.0/0", gw: "10.1.2.1", mtu: 1400, advmss: 1360, priority: 7, table: 100, scope: 253 },
      { dst: "10.9.0.0/16", gw: "10.1.2.4" },
      { dst: "10.9.0.0/16", gw: "10.1.2.4" },
    ]
    const dns = { nameservers: ["10.1.2.53"], domain: "a.example", search: ["b.example"], options: ["ndots:2"] }
    const { answer } = call({ ipam: { ...two.ipam, routes, dns } })
    expect(answer.routes).toEqual(routes)
    expect(answer.dns).toEqual(dns)
  })

  test("reads keys in any case", () => {
    const { answer } = call({ IPAM: { Addresses: [{ Address: "10.1.2.3/24", GATEWAY: "10.1.2.1" }] } })
    expect(answer.ips).toEqual([{ address: "10.1.2.3/24", gateway: "10.1.2.1" }])
  })

  test("appends the addresses of CNI_ARGS, with the gateways that lie in their subnets", () => {
    const args = "IP=10.9.0.5/16, fd09::5/64;GATEWAY=10.9.0.1,fd09::1,10.1.2.254;IgnoreUnknown=1;K8S_POD_NAME=x"
    expect(call(two, { args }).answer.ips).toEqual([
      { address: "10.1.2.3/24", gateway: "10.1.2.1" },
      { address: "fd00::3/64" },
      { address: "10.9.0.5/16", gateway: "10.9.0.1" },
      { address: "fd09::5/64", gateway: "fd09::1" },
    ])
  })

  test("#47 takes the addresses of args.cni.ips instead of all others, CNI_ARGS included, and those of runtimeConfig.ips before these", () => {
    const hints = { ...two, args: { cni: { ips: ["10.3.0.3/24"] } } }
    for (const args of ["IP=10.9.0.5/16", "IP=nonsense", "IP=10.9.0.5/16;GATEWAY=nonsense"]) {
      expect(call(hints, { args }).answer.ips).toEqual([{ address: "10.3.0.3/24" }])
    }
    const wish = { ...hints, runtimeConfig: { ips: ["10.4.0.4/24", "fd04::4/64"] } }
    expect(call(wish).answer.ips).toEqual([{ address: "10.4.0.4/24" }, { address: "fd04::4/64" }])
    expect(call({ ...two, runtimeConfig: { ips: [] } }).answer.ips).toHaveLength(2)
  })

  const placeholders = [[{ gateway: "10.1.2.1" }], [{}], [null], ["dummy"], [{ address: "dummy" }], {}, null, "dummy"]
  test.each(placeholders)("does not look at ipam.addresses that the runtime replaces: %j", (addresses) => {
    const ipam = { addresses, dns: { nameservers: ["10.1.2.53"] } }
    for (const wish of [{ args: { cni: { ips: ["10.3.0.3/24"] } } }, { runtimeConfig: { ips: ["10.3.0.3/24"] } }]) {
      const { answer } = call({ ipam, ...wish })
      expect(answer).toMatchObject({ ips: [{ address: "10.3.0.3/24" }], dns: ipam.dns })
      expect(call({ ipam, ...wish, prevResult: answer }, { verb: "CHECK" }).exitCode).toBe(0)
    }
    expect(call({ ipam, capabilities: { ips: true } }, { verb: "STATUS" }).exitCode).toBe(0)
  })

  test("gives an address without a prefix length that of the configured network which holds it", () => {
    expect(call(two, { args: "IP=10.1.2.100,fd00::64;GATEWAY=10.1.2.1" }).answer.ips.slice(2)).toEqual([
      { address: "10.1.2.100/24", gateway: "10.1.2.1" },
      { address: "fd00::64/64" },
    ])
    const ips = ["10.1.2.100", "fd00::64", "10.9.0.5/16"]
    const wanted = [{ address: "10.1.2.100/24" }, { address: "fd00::64/64" }, { address: "10.9.0.5/16" }]
    expect(call({ ...two, runtimeConfig: { ips } }).answer.ips).toEqual(wanted)
    expect(call({ ...two, args: { cni: { ips } } }).answer.ips).toEqual(wanted)
  })

  test("without any address answers a result without addresses, where the version can hold it", () => {
    const { exitCode, answer } = call({ ipam: {} })
    expect(exitCode).toBe(0)
    expect(answer.ips ?? []).toEqual([])
    expect(call({ ipam: {} }, { version: "0.2.0" }).answer).toMatchObject({
      code: 1,
      msg: "cannot convert: no valid IP addresses",
    })
  })
})

describe("a configuration is refused with code 7, in upstream's words, for", () => {
  test.each([
    ["no ipam", {}, "IPAM config missing 'ipam' key"],
    [
      "an address without prefix",
      { ipam: { addresses: [{ address: "10.1.2.3" }] } },
      "the 'address' field is expected to be in CIDR notation, got: '10.1.2.3'",
    ],
    [
      "no address",
      { ipam: { addresses: [{ gateway: "10.1.2.1" }] } },
      'Cannot use "ipam.addresses[0].address": expected a text, found nothing',
    ],
    [
      "a bad gateway",
      { ipam: { addresses: [{ address: "10.1.2.3/24", gateway: "x" }] } },
      'the gateway "x" of 10.1.2.3/24',
    ],
    [
      "a wish without prefix",
      { ipam: {}, runtimeConfig: { ips: ["10.1.2.3"] } },
      "an entry in the 'ips' field is NOT in CIDR notation, got: '10.1.2.3'",
    ],
    [
      "an address twice",
      { ipam: { addresses: [{ address: "fd00::1/64" }, { address: "fd00:0::1/64" }] } },
      "fd00::1/64 twice",
    ],
    ["wishes that are no list", { ipam: {}, runtimeConfig: { ips: 5 } }, "a list of addresses with a prefix length"],
    ["hints that are no list", { ipam: {}, args: { cni: { ips: "x" } } }, "a list of addresses with a prefix length"],
    ["a bad route", { ipam: { routes: [{ dst: "10.0.0.0" }] } }, "routes[0].dst"],
    ["bad dns", { ipam: { dns: { nameservers: "10.0.0.1" } } }, "dns.nameservers"],
  ])("%s", (_, config, message) => {
    const { exitCode, answer } = call(config)
    expect(exitCode).toBe(1)
    expect(answer.code).toBe(7)
    expect(answer.msg).toContain(message)
    expect(answer.details ?? "").toMatch(/^$|^network "net" |^no network of /)
  })

  test("two addresses of a family below 0.3.0, and no ipam: others compare these whole", () => {
    const ipam = { addresses: [{ address: "10.1.2.3/24" }, { address: "10.1.3.3/24" }] }
    expect(call({ ipam }, { version: "0.2.0" }).answer).toMatchObject({
      msg: "CNI version 0.2.0 does not support more than 1 address per family",
      details: "found 2 IPv4 and 0 IPv6 addresses",
    })
    expect(call({}).answer).toMatchObject({
      msg: "IPAM config missing 'ipam' key",
      details: expect.stringMatching("network"),
    })
    expect(call(two, { version: "0.2.0" }).answer.ip4.ip).toBe("10.1.2.3/24")
  })
})

test.each([
  ["IP=10.9.2.3", "the 'ip' field is expected to be in CIDR notation, got: '10.9.2.3'"],
  ["IP=10.1.2.3/24;GATEWAY=nowhere", "invalid gateway address: nowhere"],
  ["MAC=02:00:00:00:00:01", "unknown args"],
])("CNI_ARGS %s are refused with code 4", (args, message) => {
  const { answer } = call(two, { args })
  expect(answer.code).toBe(4)
  expect(answer.msg).toContain(message)
})

describe("CHECK", () => {
  const check = (ips: object[] | undefined) =>
    call({ ...two, ...(ips && { prevResult: { cniVersion: "1.1.0", ips } }) }, { verb: "CHECK" })

  test("accepts a result that has the configured addresses, and more", () => {
    const others = [{ address: "10.8.0.8/24" }]
    const { exitCode } = check([
      ...others,
      { address: "fd00:0:0::3/64", gateway: "fd00::1" },
      { address: "10.1.2.3/24", gateway: "10.1.2.1" },
    ])
    expect(exitCode).toBe(0)
  })

  test.each([
    ["is missing", [{ address: "10.1.2.3/24", gateway: "10.1.2.1" }], "addr fd00::3/64 on interface eth0"],
    [
      "has another gateway",
      [{ address: "10.1.2.3/24", gateway: "10.1.2.9" }, { address: "fd00::3/64" }],
      "10.1.2.3/24 via 10.1.2.1",
    ],
    [
      "has lost its gateway",
      [{ address: "10.1.2.3/24" }, { address: "fd00::3/64" }],
      "addr 10.1.2.3/24 via 10.1.2.1 on interface eth0",
    ],
    ["has another prefix", [{ address: "10.1.2.3/16", gateway: "10.1.2.1" }, { address: "fd00::3/64" }], "10.1.2.3/24"],
  ])("names a configured address that %s, and what was found", (_, ips, message) => {
    const { answer } = check(ips)
    expect(answer.msg).toStartWith("static: Failed to match addr ")
    expect(answer.msg).toContain(message)
    expect(answer.details).toContain("10.1.2.3/")
  })

  test("says that there is none where the result has no address", () => {
    expect(check([]).answer.details).toBe("the result of ADD has no address")
  })

  test("needs the previous result", () => {
    expect(check(undefined).answer).toMatchObject({
      code: 7,
      msg: "Required prevResult missing",
      details: "CHECK compares the configured addresses with the result of ADD",
    })
  })
})

test("DEL succeeds with every configuration", () => {
  for (const config of [{}, { ipam: 5 }, { ipam: { addresses: "none" } }]) {
    expect(call(config, { verb: "DEL", args: "broken" })).toEqual({ exitCode: 0, answer: undefined })
  }
})

test("STATUS says what is wrong with the configuration; GC needs none", () => {
  expect(call(two, { verb: "STATUS" }).exitCode).toBe(0)
  expect(call({ ipam: { addresses: [{ address: "x" }] } }, { verb: "STATUS" }).answer.code).toBe(7)
  expect(call({ ipam: 5, "cni.dev/valid-attachments": [] }, { verb: "GC" }).exitCode).toBe(0)
})

test("thousands of addresses take time in proportion to their number, in ADD and CHECK", () => {
  const ips = Array.from({ length: 10_000 }, (_, at) => `10.${at >> 8}.${at & 255}.2/24`)
  const config = { runtimeConfig: { ips }, ipam: {} }
  const prevResult = { cniVersion: "1.1.0", ips: ips.map((address) => ({ address })) }
  const before = process.cpuUsage()
  expect(call(config).answer.ips).toHaveLength(10_000)
  expect(call({ ...config, prevResult }, { verb: "CHECK" }).exitCode).toBe(0)
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(1)
  const less = { ...prevResult, ips: prevResult.ips.slice(1) }
  expect(call({ ...config, prevResult: less }, { verb: "CHECK" }).answer.msg).toContain("addr 10.0.0.2/24 on")
  const twice = call({ ...config, runtimeConfig: { ips: [...ips, "10.39.15.2/24"] } })
  expect(twice.answer.msg).toBe("Cannot use the address 10.39.15.2/24 twice")
})
