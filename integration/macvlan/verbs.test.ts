import { describe, expect, test } from "bun:test"
import {
  type ContainerNamespace,
  expectUnchanged,
  fail,
  type HostNamespace,
  isAllocationTrace,
  listNamespaces,
  succeed,
  takeSnapshot,
} from "../lab/mod.ts"
import { LanHost } from "./lan.ts"

type Links = { ifname: string }[]
const linksOf = async (pod: ContainerNamespace) =>
  (await pod.json<Links>("ip", ["-j", "link"])).map(({ ifname }) => ifname)

const nothing = async () => {}

describe("DEL", () => {
  const ways: [string, object, object, (host: HostNamespace, pod: ContainerNamespace) => Promise<unknown>][] = [
    [
      "after the master no longer exists, and the interface with it",
      {},
      {},
      (host) => host.exec("ip", ["link", "del", "up0"]),
    ],
    ["after the alias was taken off", {}, {}, (_, pod) => pod.exec("ip", ["link", "set", "eth0", "alias", ""])],
    ["without a master, where there is no default route", { master: undefined }, {}, nothing],
  ]

  test.each(ways)("%s takes back interface and lease, and a second one succeeds", async (_, keys, call, happens) => {
    await using net = await LanHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    await happens(net.host, pod)
    for (let time = 0; time < 2; time++) {
      await attachment.del(keys, call)
      if ((await listNamespaces(pod.name)).length > 0) expect(await linksOf(pod)).toEqual(["lo"])
      expect((await net.host.exec("ls", ["/var/lib/cni/networks/lan"])).stdout).not.toContain("192.0.2.100")
    }
  })

  test("leaves an interface of that name that is of another kind", async () => {
    await using net = await LanHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    await pod.exec("ip", ["link", "del", "eth0"])
    await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
    const before = await takeSnapshot(pod)
    await attachment.del()
    expectUnchanged(before, await takeSnapshot(pod))
  })
})

describe("CHECK", () => {
  test.each<[string, (net: LanHost, pod: ContainerNamespace) => Promise<unknown>, string]>([
    [
      "the mode is another",
      (_, pod) => pod.exec("ip", ["link", "set", "eth0", "type", "macvlan", "mode", "private"]),
      'mode of "eth0" failed: expected "bridge", found "private"',
    ],
  ])("names it when %s", async (_, damage, says) => {
    await using net = await LanHost.create()
    const { pod, attachment } = await net.attach()
    const result = await attachment.add()
    await succeed(attachment.check(result))
    await damage(net, pod)
    const { msg, details } = await fail(attachment.check(result))
    expect(`${msg}; ${details}`).toContain(says)
  })

  test("names it when the master is another", async () => {
    await using net = await LanHost.create()
    const { attachment } = await net.attach()
    const result = await attachment.add()
    await net.host.exec("ip", ["link", "add", "br9", "type", "bridge"])
    const { msg } = await fail(attachment.check(result, { master: "br9" }))
    expect(msg).toContain('master of "eth0" failed: expected "br9"')
  })

  test("needs no default route when the configuration names no master", async () => {
    await using net = await LanHost.create()
    await net.host.exec("ip", ["route", "add", "default", "via", "192.0.2.9"])
    const { attachment } = await net.attach({ master: undefined })
    const result = await attachment.add()
    await net.host.exec("ip", ["route", "del", "default"])
    await succeed(attachment.check(result))
  })
})

describe("a failed ADD leaves nothing", () => {
  test.each<[string, object, string, boolean, (net: LanHost, pod: ContainerNamespace) => Promise<unknown>]>([
    ["the master does not exist", { master: "up9" }, 'Cannot find the master interface "up9"', true, nothing],
    ["there is no default route", { master: undefined }, "there is no default route", true, nothing],
    ["the mode is unknown", { mode: "l2" }, 'Cannot use "mode"', true, nothing],
    ["the MTU is larger than the master's", { mtu: 9000 }, "invalid MTU 9000", true, nothing],
    [
      "the master is a port of a bridge",
      {},
      'Cannot create macvlan "eth0" on "up0"',
      false,
      async ({ host }) => {
        await host.exec("ip", ["link", "add", "br9", "type", "bridge"])
        await host.exec("ip", ["link", "set", "up0", "master", "br9"])
      },
    ],
    ["the master is the loopback interface", { master: "lo" }, 'Cannot create macvlan "eth0" on "lo"', false, nothing],
    ["the MAC is a group's", { mac: "01:00:5e:00:00:01" }, 'Cannot use "mac"', true, nothing],
  ])("when %s", async (_, keys, says, everyAdd, setUp) => {
    await using net = await LanHost.create()
    const { pod, attachment } = await net.attach(keys)
    await setUp(net, pod)
    const [host, inside] = [await takeSnapshot(net.host), await takeSnapshot(pod)]
    const { code, msg, details } = await fail(attachment.run("ADD"))
    expect(`${msg}; ${details}`).toContain(says)
    expectUnchanged(host, await takeSnapshot(net.host), isAllocationTrace)
    expectUnchanged(inside, await takeSnapshot(pod))
    const status = await attachment.run("STATUS")
    if (everyAdd) expect((await fail(Promise.resolve(status))).msg).toContain(says)
    else expect(status).toMatchObject({ exitCode: 0 })
    if (everyAdd) expect([7, 50]).toContain(code)
  })
})
