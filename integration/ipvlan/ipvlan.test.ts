import { expect, test } from "bun:test"
import {
  answering,
  type ContainerNamespace,
  expectUnchanged,
  fail,
  isAllocationTrace,
  listNamespaces,
  type Namespace,
  ping,
  record,
  succeed,
  takeSnapshot,
  testWith,
  waitFor,
} from "../lab/mod.ts"
import { LanHost } from "../macvlan/lan.ts"

const type = "ipvlan"

interface Shown {
  address: string
  mtu: number
  ifalias?: string
  linkinfo: { info_kind: string; info_data: object }
}

async function shown(pod: Namespace): Promise<Shown> {
  const [link] = await pod.json<[Shown]>("ip", ["-d", "-j", "link", "show", "eth0"])
  return link
}

const lan = ["192.0.2.9", "2001:db8:2::9"]
const [first, second] = [
  ["192.0.2.100", "2001:db8:2::100"],
  ["192.0.2.101", "2001:db8:2::101"],
] as const

const modes: [mode: string, flag: string, keys: object, neighbour: readonly string[]][] = [
  ["l2", "bridge", {}, second],
  ["l2", "private", { mode: "l2", flag: "private" }, []],
  ["l3", "bridge", { mode: "l3", flag: "" }, second],
  ["l3s", "vepa", { mode: "l3s", flag: "vepa" }, []],
]

for (const [mode, flag, keys, neighbour] of modes) {
  const whom = neighbour.length > 0 ? "and so is" : "and not"
  testWith(["ipvlan"], `mode ${mode}, ${flag}: the network is reached, ${whom} the neighbour`, async () => {
    await using net = await LanHost.create()
    const [a, b] = [await net.attach({ type, ...keys }), await net.attach({ type, ...keys })]
    const [{ address: mac }] = await net.host.json<[Shown]>("ip", ["-j", "link", "show", "up0"])
    const result = await a.attachment.add()
    expect(result.interfaces).toEqual([{ name: "eth0", mac, mtu: 1500, sandbox: a.pod.path }])
    await b.attachment.add()
    const { linkinfo, ifalias } = await shown(a.pod)
    expect([linkinfo, ifalias]).toMatchObject([
      { info_kind: "ipvlan", info_data: { mode, [flag]: true } },
      `lan/${a.pod.name}/eth0`,
    ])
    // In modes other than l2 the master does not answer ARP for the containers, so other machines need routes through
    // the host.
    if (mode !== "l2") {
      for (const [ip, via] of [...first, ...second].map((ip) => [
        ip,
        ip.includes(":") ? "2001:db8:2::1" : "192.0.2.1",
      ])) {
        await net.lan.exec("ip", ["route", "add", ip ?? "", "via", via ?? ""])
      }
    }
    expect(await answering(a.pod, [...lan, ...second], [...lan, ...neighbour])).toEqual([...lan, ...neighbour])
    const both = [...first, ...second]
    expect(await answering(net.lan, both, both)).toEqual(both)
    await succeed(a.attachment.check(result))
  })
}

testWith(
  ["ipvlan", "dummy"],
  "neighbors are told at once who has an address of ipvlan now, of both families",
  async () => {
    await using net = await LanHost.create()
    await net.host.exec("ip", ["link", "add", "wire0", "up", "type", "dummy"])
    await using recording = await record(net.host, "wire0")
    const { attachment } = await net.attach({ type, master: "wire0" })
    const mac = (await attachment.add()).interfaces[0]?.mac?.replaceAll(":", "")
    // ARP for its own address, 192.0.2.100; a neighbor advertisement, 136, for 2001:db8:2::100
    const gratuitous = `ffffffffffff${mac}08060001080006040001${mac}c0000264000000000000c0000264`
    const unsolicited = new RegExp(`^333300000001${mac}86dd.{12}3aff.{64}8800.{12}20010db8000200000000000000000100`)
    await waitFor(async () => recording.frames.includes(gratuitous), "the gratuitous ARP")
    await waitFor(
      async () => recording.frames.some((frame) => unsolicited.test(frame)),
      "the unsolicited advertisement",
    )
  },
)

testWith(["ipvlan"], "an ipvlan takes master and addresses from the earlier plugin's result", async () => {
  await using net = await LanHost.create()
  const ips = [{ address: "192.0.2.50/24", gateway: "192.0.2.9", interface: 0 }]
  const prevResult = { cniVersion: "1.1.0", interfaces: [{ name: "up0" }], ips, routes: [{ dst: "0.0.0.0/0" }] }
  const { pod, attachment } = await net.attach({ type, master: undefined, ipam: undefined, prevResult })
  const result = await attachment.add()
  expect(result).toMatchObject({ interfaces: [{ name: "eth0", sandbox: pod.path }], ips })
  expect(await ping(pod, "192.0.2.9")).toBe(true)
  await succeed(attachment.check(result))
  await attachment.del({ prevResult: result })
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
})

testWith(
  ["ipvlan"],
  "an ipvlan on a master in the container, without addresses, is up with its MTU until DEL",
  async () => {
    await using net = await LanHost.create()
    const { pod, attachment } = await net.attach({ type, linkInContainer: true, master: "own0", ipam: {}, mtu: 1300 })
    await pod.exec("ip", ["link", "add", "own0", "type", "veth", "peer", "name", "own1"])
    const result = await attachment.add()
    expect(result.ips).toBeUndefined()
    const flags = expect.arrayContaining(["UP"])
    expect(await pod.json<object[]>("ip", ["-j", "link", "show", "eth0"])).toMatchObject([
      { link: "own0", mtu: 1300, flags },
    ])
    await succeed(attachment.check(result))
    await attachment.del()
    expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(3)
  },
)

testWith(["ipvlan"], "CHECK of an ipvlan names what is not as ADD made it", async () => {
  await using net = await LanHost.create()
  const { pod, attachment } = await net.attach({ type })
  const result = await attachment.add()
  const says = async (keys: object = {}) => (await fail(attachment.check(result, keys))).msg
  expect(await says({ mode: "l3" })).toContain('mode of "eth0" failed: expected "l3", found "l2"')
  expect(await says({ flag: "vepa" })).toContain('flag of "eth0" failed: expected "vepa", found "bridge"')
  expect(await says({ master: "lo" })).toContain('master of "eth0" failed: expected "lo"')
  // Mode and flag are properties of the master, so the last ADD sets them for all its containers.
  await (await net.attach({ type, mode: "l3s", flag: "private" })).attachment.add()
  expect(await says()).toContain('mode of "eth0" failed: expected "l2", found "l3s"')
  await pod.exec("ip", ["link", "set", "eth0", "mtu", "1400"])
  expect(await says()).toContain("expected 1500, found 1400")
  await pod.exec("ip", ["link", "del", "eth0"])
  expect(await says()).toContain("expected a ipvlan, found none")
})

testWith(["ipvlan"], "DEL of an ipvlan leaves nothing after each fault, without its master", async () => {
  await using net = await LanHost.create()
  const ways: [object, (pod: ContainerNamespace) => Promise<unknown>][] = [
    [{ master: undefined }, async () => {}],
    [{ linkInContainer: true, master: undefined }, async (pod) => net.host.removeContainer(pod)],
    [{}, (pod) => pod.exec("ip", ["link", "set", "eth0", "alias", ""])],
    [{}, (pod) => pod.exec("ip", ["link", "set", "eth0", "name", "net0"])],
  ]
  for (const [keys, happens] of ways) {
    const { pod, attachment } = await net.attach({ type })
    await attachment.add()
    await pod.exec("ip", ["link", "set", "eth0", "down"])
    await happens(pod)
    for (const _ of ["once", "twice"]) await attachment.del(keys)
    expect((await net.host.exec("ls", ["/var/lib/cni/networks/lan"])).stdout).not.toMatch(/^192/m)
    if ((await listNamespaces(pod.name)).length === 0) continue
    expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
  }
})

testWith(["ipvlan", "macvlan"], "an ADD of ipvlan that fails leaves nothing, and says why", async () => {
  await using net = await LanHost.create()
  const held = await net.attach({ type, ipam: { type: "static", addresses: [{ address: "192.0.2.50/24" }] } })
  await held.attachment.add()
  const refused = async (keys: object) => {
    const { pod, attachment } = await net.attach(keys)
    const { msg, details } = await fail(attachment.run("ADD"))
    expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
    return `${msg}; ${details}`
  }
  const before = await takeSnapshot(net.host)
  expect(await refused({ ...held.attachment.config })).toMatch(/Cannot add address 192.0.2.50\/24.*EADDRINUSE/)
  expectUnchanged(before, await takeSnapshot(net.host), isAllocationTrace)
  expect(await refused({ type: "macvlan" })).toContain('"up0" is a port of a bridge or a bond, or has links of another')
})

test.each<[string, object, string]>([
  ["the master does not exist", { master: "up9" }, 'Cannot find the master interface "up9"'],
  ["there is no default route", { master: undefined }, "there is no default route"],
  ["the mode is unknown", { mode: "bridge" }, 'Cannot use "mode"'],
  ["the flag is unknown", { flag: "l2" }, 'Cannot use "flag"'],
  ["the MTU is less than IPv6 takes", { mtu: 1000 }, 'Cannot use "mtu" 1000'],
])("ADD leaves nothing, and STATUS says why, when %s", async (_, keys, says) => {
  await using net = await LanHost.create()
  const { pod, attachment } = await net.attach({ type, ...keys })
  const [host, inside] = [await takeSnapshot(net.host), await takeSnapshot(pod)]
  const { code, msg } = await fail(attachment.run("ADD"))
  expect([code, msg]).toEqual([7, expect.stringContaining(says)])
  expect((await fail(attachment.run("STATUS"))).msg).toContain(says)
  expectUnchanged(host, await takeSnapshot(net.host), isAllocationTrace)
  expectUnchanged(inside, await takeSnapshot(pod))
})
