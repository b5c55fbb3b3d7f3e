import { describe, expect, test } from "bun:test"
import {
  type ContainerNamespace,
  expectUnchanged,
  fail,
  type PluginResult,
  pingOnce,
  succeed,
  takeSnapshot,
  waitFor,
} from "../lab/mod.ts"
import { flag, leavesBy, routesOf, rulesOf, sources, twoNetworks } from "./sbr-lab.ts"

test("what has an interface's source leaves by it, and everything else as before", async () => {
  const { host, pod, prevResult, sbr } = await twoNetworks()
  await using _ = host
  expect(await leavesBy(pod, "10.2.0.2")).toBe("eth0")
  expect(await sbr.add()).toEqual(prevResult)
  expect(await rulesOf(pod)).toEqual(["10.2.0.2 100", "fd00:2::2 101"])
  for (const source of sources) expect(await leavesBy(pod, source)).toBe("net1")
  for (const source of ["10.1.0.2", "fd00:1::2"]) expect(await leavesBy(pod, source)).toBe("eth0")
  expect(await routesOf(pod, "-4", "main")).toEqual(["10.1.0.0/16 eth0", "default eth0"])
  expect(await routesOf(pod, "-6", "main")).toEqual([
    "default eth0",
    "fd00:1::/64 eth0",
    "fe80::/64 eth0",
    "fe80::/64 net1",
  ])
  expect(await routesOf(pod, "-4", "100")).toEqual(["10.2.0.0/16 net1", "default net1"])
  expect(await routesOf(pod, "-6", "101")).toEqual(["default net1", "fd00:2::/64 net1", "fe80::/64 net1"])
  for (const gateway of ["10.2.0.1", "fd00:2::1"]) await waitFor(() => pingOnce(pod, gateway), `${gateway} to answer`)
  await succeed(sbr.check(prevResult))
})

test("addSourceHints: the networks stay in main, with their source", async () => {
  const { host, pod, sbr } = await twoNetworks({ addSourceHints: true })
  await using _ = host
  await sbr.add()
  const { stdout } = await pod.exec("ip", ["route", "show", "table", "main", "dev", "net1"])
  expect(stdout.trim()).toBe("10.2.0.0/16 proto 67 scope link src 10.2.0.2")
  expect(await routesOf(pod, "-6", "main")).toContain("fd00:2::/64 net1")
  for (const source of sources) expect(await leavesBy(pod, source)).toBe("net1")
})

test("gateways of the configuration go before the result's", async () => {
  const { host, pod, sbr } = await twoNetworks({ gateways: ["10.2.0.99", "fd00:2::99"] })
  await using _ = host
  await sbr.add()
  for (const [table, gateway] of [
    ["100", "10.2.0.99"],
    ["101", "fd00:2::99"],
  ] as const) {
    const [route] = await pod.json<{ gateway: string }[]>("ip", [
      "-j",
      flag(gateway),
      "route",
      "show",
      "default",
      "table",
      table,
    ])
    expect(route?.gateway).toBe(gateway)
  }
})

test.each<[string, object, string[][]]>([
  ["a default route by another gateway than the configuration's", { gateways: ["10.2.0.99", "fd00:2::99"] }, []],
  [
    "routes by gateways that are in no network of an address",
    {},
    [
      ["route", "add", "10.60.0.0/16", "via", "192.0.2.1", "dev", "net1", "onlink", "proto", "static"],
      ["-6", "route", "add", "2001:db8:60::/48", "via", "2001:db8::1", "dev", "net1", "onlink", "metric", "7"],
    ],
  ],
])("%s: no packet takes them after ADD, and DEL puts them back", async (_, keys, commands) => {
  const { host, pod, prevResult, sbr } = await twoNetworks(keys)
  await using _host = host
  for (const command of commands) await pod.exec("ip", command)
  const before = await takeSnapshot(pod)
  for (const without of [{}, { prevResult: undefined, gateways: undefined }]) {
    await sbr.add()
    await succeed(sbr.check(prevResult))
    for (const family of ["-4", "-6"]) {
      const shown = await routesOf(pod, family, "main")
      expect(shown.filter((route) => route.endsWith(" net1") && !route.startsWith("fe80"))).toEqual([])
    }
    expect(await routesOf(pod, "-4", "100")).toEqual(["10.2.0.0/16 net1", "default net1"])
    expect(await routesOf(pod, "-6", "101")).toEqual(["default net1", "fd00:2::/64 net1", "fe80::/64 net1"])
    await sbr.del(without)
    expectUnchanged(before, await takeSnapshot(pod))
  }
})

test("with a table of the configuration there are rules alone", async () => {
  const { host, pod, prevResult, sbr } = await twoNetworks({ table: 5000 })
  await using _ = host
  const before = await routesOf(pod, "-4", "main")
  await sbr.add()
  expect(await rulesOf(pod)).toEqual(["10.2.0.2 5000", "fd00:2::2 5000"])
  expect(await routesOf(pod, "-4", "main")).toEqual(before)
  await succeed(sbr.check(prevResult))
  await sbr.del()
  expect(await rulesOf(pod)).toEqual([])
})

test("tables that a rule leads to, or that have a route, are not free", async () => {
  const { host, pod, sbr } = await twoNetworks()
  await using _ = host
  await pod.exec("ip", ["rule", "add", "from", "203.0.113.1", "lookup", "100"])
  await pod.exec("ip", ["-6", "route", "add", "2001:db8:9::/48", "dev", "eth0", "table", "102"])
  await sbr.add()
  expect((await rulesOf(pod)).sort()).toEqual(["10.2.0.2 101", "203.0.113.1 100", "fd00:2::2 103"])
})

describe("DEL", () => {
  const nothing = async () => {}
  test.each<[string, object, (pod: ContainerNamespace) => Promise<unknown>]>([
    ["", {}, nothing],
    ["without prevResult", { prevResult: undefined }, nothing],
    ["with a broken configuration", { gateways: "many", table: "x", addSourceHints: 3 }, nothing],
    [
      "after the addresses were taken off",
      {},
      (pod) => pod.exec("ip", ["address", "flush", "dev", "net1", "scope", "global"]),
    ],
  ])("%s takes the rules and tables back, and a second one succeeds", async (_, keys, happens) => {
    const { host, pod, sbr } = await twoNetworks()
    await using _host = host
    await sbr.add()
    await happens(pod)
    for (let time = 0; time < 2; time++) {
      await sbr.del(keys)
      expect(await rulesOf(pod)).toEqual([])
      for (const table of ["100", "101"]) {
        for (const family of ["-4", "-6"]) expect(await routesOf(pod, family, table)).toEqual([])
      }
    }
  })

  test("puts the routes back: the container is as it was, and ADD can be done again", async () => {
    const { host, pod, prevResult, sbr } = await twoNetworks()
    await using _ = host
    const before = await takeSnapshot(pod)
    for (let time = 0; time < 2; time++) {
      await sbr.add()
      await succeed(sbr.check(prevResult))
      await sbr.del()
      expectUnchanged(before, await takeSnapshot(pod))
    }
  })

  test("after the interface no longer exists removes the rules, by prevResult or by their mark", async () => {
    for (const keys of [{}, { prevResult: undefined }]) {
      const { host, pod, sbr } = await twoNetworks()
      await using _ = host
      await sbr.add()
      await pod.exec("ip", ["link", "del", "net1"])
      await sbr.del(keys)
      expect(await rulesOf(pod)).toEqual([])
    }
  })

  test("after the namespace no longer exists succeeds, and makes no file at its path", async () => {
    const { host, pod, sbr } = await twoNetworks()
    await using _ = host
    await sbr.add()
    await host.removeContainer(pod)
    await sbr.del()
    expect((await host.tryExec("ls", [pod.path])).exitCode).not.toBe(0)
    await sbr.del({}, { netns: "" })
  })

  test("leaves the rules of other interfaces, and of other programs", async () => {
    const { host, pod, sbr } = await twoNetworks()
    await using _ = host
    await pod.exec("ip", ["rule", "add", "from", "10.1.0.2", "lookup", "200"])
    await pod.exec("ip", ["rule", "add", "from", "203.0.113.1", "lookup", "201"])
    await sbr.add()
    await sbr.del()
    expect((await rulesOf(pod)).sort()).toEqual(["10.1.0.2 200", "203.0.113.1 201"])
  })
})

describe("CHECK names it when", () => {
  test.each<[string, string[], string]>([
    [
      "a rule no longer exists",
      ["rule", "del", "from", "10.2.0.2"],
      "Check of rules failed: expected from 10.2.0.2 lookup",
    ],
    [
      "the default route no longer exists",
      ["-6", "route", "del", "default", "table", "101"],
      "expected a default route dev net1",
    ],
    ["the interface no longer exists", ["link", "del", "net1"], "there is no such interface"],
  ])("%s", async (_, damage, says) => {
    const { host, pod, prevResult, sbr } = await twoNetworks()
    await using _host = host
    await sbr.add()
    await pod.exec("ip", damage)
    expect((await fail(sbr.check(prevResult))).msg).toContain(says)
  })
})

describe("a failed ADD leaves nothing", () => {
  test.each<[string, object, string, (pod: ContainerNamespace, result: PluginResult) => Promise<unknown>]>([
    ["there is no prevResult", { prevResult: undefined }, "must be called as chained plugin", async () => {}],
    [
      "two gateways are of one family",
      { gateways: ["10.2.0.1", "10.2.0.9"] },
      "multiple IPv4 addresses",
      async () => {},
    ],
    ["there are three gateways", { gateways: ["10.2.0.1", "10.2.0.9", "::1"] }, "more than 2 entries", async () => {}],
    ["a gateway is no address", { gateways: ["10.2.0.1/16"] }, 'Cannot use "gateways"', async () => {}],
    ["a gateway cannot be reached", { gateways: ["198.51.100.1"] }, "198.51.100.1", async () => {}],
    [
      "the interface no longer exists",
      {},
      "there is no such interface",
      (pod) => pod.exec("ip", ["link", "del", "net1"]),
    ],
  ])("when %s", async (_, keys, says, setUp) => {
    const { host, pod, prevResult, sbr } = await twoNetworks(keys)
    await using _host = host
    await setUp(pod, prevResult)
    const before = await takeSnapshot(pod)
    const { msg, details } = await fail(sbr.run("ADD"))
    expect(`${msg}; ${details}`).toContain(says)
    expectUnchanged(before, await takeSnapshot(pod))
  })

  test("when none of the addresses is the interface's", async () => {
    const { host, pod, prevResult, sbr } = await twoNetworks()
    await using _ = host
    const before = await takeSnapshot(pod)
    const ips = prevResult.ips.map((ip) => ({ ...ip, interface: 0 }))
    expect((await fail(sbr.run("ADD", { prevResult: { ...prevResult, ips } }))).msg).toContain(
      "No IP addresses supplied on interface: net1",
    )
    expectUnchanged(before, await takeSnapshot(pod))
  })
})
