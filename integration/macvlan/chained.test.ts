import { expect, test } from "bun:test"
import {
  connect,
  expectUnchanged,
  fail,
  isAllocationTrace,
  type PluginResult,
  ping,
  succeed,
  takeSnapshot,
} from "../lab/mod.ts"
import { LanHost } from "./lan.ts"

/** Returns the result of an earlier plugin of the chain: an interface, and addresses for later plugins. */
function earlier(name = "up0"): PluginResult {
  return {
    cniVersion: "1.1.0",
    interfaces: [{ name, mac: "0a:00:00:00:00:01" }],
    ips: [
      { address: "192.0.2.50/24", gateway: "192.0.2.9", interface: 0 },
      { address: "2001:db8:2::50/64", interface: 0 },
    ],
    routes: [{ dst: "0.0.0.0/0" }],
    dns: { nameservers: ["192.0.2.53"] },
  }
}

const bare = { master: undefined, ipam: undefined }

test("master, addresses, routes and DNS are those of the earlier plugin's result", async () => {
  await using net = await LanHost.create()
  const before = await takeSnapshot(net.host)
  const { pod, attachment } = await net.attach({ ...bare, prevResult: earlier() })
  const result = await attachment.add()
  const { ips, routes, dns } = earlier()
  const own = { name: "eth0", mac: expect.any(String), mtu: 1500, sandbox: pod.path }
  expect(result).toEqual({ cniVersion: "1.1.0", interfaces: [own], ips, routes: routes ?? [], dns: dns ?? {} })
  expect(await ping(pod, "192.0.2.9")).toBe(true)
  expect(await ping(net.lan, "2001:db8:2::50")).toBe(true)
  await succeed(attachment.check(result))
  await pod.exec("ip", ["address", "del", "192.0.2.50/24", "dev", "eth0"])
  expect((await fail(attachment.check(result))).msg).toContain("expected 192.0.2.50/24")
  await attachment.del({ prevResult: result })
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
  expectUnchanged(before, await takeSnapshot(net.host), ({ line }) => /^up0 promiscuity/.test(line))
})

test("addresses of an IPAM plugin of its own go before the earlier plugin's, which stay as they are", async () => {
  await using net = await LanHost.create()
  const { attachment } = await net.attach({ master: undefined, prevResult: earlier() })
  expect((await attachment.add()).ips[0]?.address).toBe("192.0.2.100/24")
})

test("a master that is named goes before the earlier plugin's interfaces, however many there are", async () => {
  await using net = await LanHost.create()
  const { ips } = earlier()
  const prevResult = { ...earlier("nowhere0"), interfaces: [{ name: "nowhere0" }, { name: "nowhere1" }], ips }
  const { pod, attachment } = await net.attach({ ipam: {}, prevResult })
  expect((await attachment.add()).ips).toEqual(ips)
  expect(await ping(pod, "192.0.2.9")).toBe(true)
})

test("a result without addresses makes an attachment without addresses", async () => {
  await using net = await LanHost.create()
  const prevResult = { cniVersion: "1.1.0", interfaces: [{ name: "up0" }], routes: [{ dst: "0.0.0.0/0" }] }
  const { attachment } = await net.attach({ ...bare, prevResult })
  const result = await attachment.add()
  expect([result.ips, result.routes]).toEqual([undefined, undefined] as never)
})

test("linkInContainer: the earlier plugin's interface is looked for in the container", async () => {
  await using net = await LanHost.create()
  const { pod, attachment } = await net.attach({ ...bare, linkInContainer: true, prevResult: earlier("own0") })
  await connect({ namespace: pod, link: "own0", addresses: [] }, { namespace: net.lan, link: "port1", addresses: [] })
  await attachment.add()
  expect(await pod.json<object[]>("ip", ["-j", "link", "show", "eth0"])).toMatchObject([{ link: "own0" }])
})

test.each([
  ["none", { interfaces: [] }, "it has none"],
  ["several", { interfaces: [{ name: "up0" }, { name: "up1" }] }, 'it has "up0", "up1"'],
])("of %s it cannot choose the master; nothing is made then", async (_, keys, says) => {
  await using net = await LanHost.create()
  const { pod, attachment } = await net.attach({ ...bare, prevResult: { ...earlier(), ...keys } })
  const before = [await takeSnapshot(net.host), await takeSnapshot(pod)] as const
  const { code, msg, details } = await fail(attachment.run("ADD"))
  expect([code, msg]).toEqual([7, "Cannot choose the master interface: prevResult does not have exactly one interface"])
  expect(details).toContain(says)
  expectUnchanged(before[0], await takeSnapshot(net.host), isAllocationTrace)
  expectUnchanged(before[1], await takeSnapshot(pod))
})

test("STATUS cannot know what an earlier plugin will have made, and does not refuse", async () => {
  await using net = await LanHost.create()
  const { attachment } = await net.attach(bare)
  await succeed(attachment.run("STATUS"))
  expect((await fail(attachment.run("STATUS", { master: "up9" }))).code).toBe(50)
})
