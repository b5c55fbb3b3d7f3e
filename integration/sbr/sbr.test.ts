import { expect, test } from "bun:test"
import { expectUnchanged, pingOnce, succeed, takeSnapshot, waitFor } from "../lab/mod.ts"
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

test("DEL after the namespace no longer exists succeeds, and makes no file at its path", async () => {
  const { host, pod, sbr } = await twoNetworks()
  await using _ = host
  await sbr.add()
  await host.removeContainer(pod)
  await sbr.del()
  expect((await host.tryExec("ls", [pod.path])).exitCode).not.toBe(0)
  await sbr.del({}, { netns: "" })
})
