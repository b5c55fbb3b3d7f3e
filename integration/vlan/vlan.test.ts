import { expect, test } from "bun:test"
import {
  type ContainerNamespace,
  expectUnchanged,
  fail,
  isAllocationTrace,
  listNamespaces,
  ping,
  pingOnce,
  record,
  succeed,
  takeSnapshot,
  testWith,
  waitFor,
} from "../lab/mod.ts"
import { LanHost } from "../macvlan/lan.ts"

const address = "198.51.100.7/24"
const ipam = { type: "static", addresses: [{ address }, { address: "2001:db8:5::7/64" }] }
const tagged = { type: "vlan", vlanId: 5, ipam }

testWith(
  ["vlan"],
  "containers of vlan are in the VLANs that they say, of 802.1Q or 802.1ad, and in no others",
  async () => {
    await using net = await LanHost.create()
    const join = async (name: string, ip: string, ...vlan: string[]) => {
      await net.lan.exec("ip", ["link", "add", "link", "port0", "name", name, "up", "type", "vlan", ...vlan])
      await net.lan.exec("ip", ["address", "add", ip, "dev", name])
    }
    await join("port0.5", "198.51.100.9/24", "id", "5")
    await join("port0.s5", "198.51.101.9/24", "protocol", "802.1ad", "id", "5")
    const { pod, attachment } = await net.attach(tagged)
    const result = await attachment.add()
    const [{ address: mac }] = await net.host.json<[{ address: string }]>("ip", ["-j", "link", "show", "up0"])
    expect(result).toEqual({
      cniVersion: "1.1.0",
      interfaces: [{ name: "eth0", mac, mtu: 1500, sandbox: pod.path }],
      ips: [
        { address, interface: 0 },
        { address: "2001:db8:5::7/64", interface: 0 },
      ],
    })
    expect(await pod.json<object[]>("ip", ["-d", "-j", "link", "show", "eth0"])).toMatchObject([
      { ifalias: `lan/${pod.name}/eth0`, linkinfo: { info_kind: "vlan", info_data: { id: 5 } } },
    ])
    await succeed(attachment.check(result))
    const attached = async (keys: object) => {
      const other = await net.attach({ ...tagged, ...keys })
      await other.attachment.add()
      return other.pod
    }
    const at = (address: string) => ({ type: "static", addresses: [{ address }] })
    expect(await ping(pod, "198.51.100.9")).toBe(true)
    const outer = await attached({ protocol: "802.1ad", ipam: at("198.51.101.7/24") })
    expect(await ping(outer, "198.51.101.9")).toBe(true)
    const elsewhere = await attached({ vlanId: 6, ipam: at("198.51.100.8/24") })
    expect(await pingOnce(elsewhere, "198.51.100.9")).toBe(false)
  },
)

testWith(
  ["vlan", "dummy"],
  "the master sends a vlan's frames with its tag, the first ones to tell whose the addresses are",
  async () => {
    await using net = await LanHost.create()
    await net.host.exec("ip", ["link", "add", "wire0", "up", "type", "dummy"])
    await net.host.exec("ip", ["link", "set", "wire0", "arp", "on"])
    await using recording = await record(net.host, "wire0")
    const { attachment } = await net.attach({ ...tagged, master: "wire0", protocol: "802.1ad", vlanId: 4094 })
    const mac = (await attachment.add()).interfaces[0]?.mac?.replaceAll(":", "")
    // 88a8 0ffe: 802.1ad, 4094; ARP for its own address, 198.51.100.7; a neighbor advertisement, 136
    const gratuitous = `ffffffffffff${mac}88a80ffe08060001080006040001${mac}c6336407000000000000c6336407`
    const unsolicited = new RegExp(
      `^333300000001${mac}88a80ffe86dd.{12}3aff.{64}8800.{12}20010db8000500000000000000000007`,
    )
    await waitFor(async () => recording.frames.includes(gratuitous), "the gratuitous ARP")
    await waitFor(
      async () => recording.frames.some((frame) => unsolicited.test(frame)),
      "the unsolicited advertisement",
    )
  },
)

/** Runs an ADD that must fail without leaving anything, and returns its message. */
async function refused(net: LanHost, keys: object, happens?: (pod: ContainerNamespace) => Promise<unknown>) {
  const { pod, attachment } = await net.attach({ ...tagged, ...keys })
  await happens?.(pod)
  const [host, inside] = [await takeSnapshot(net.host), await takeSnapshot(pod)]
  const error = await fail(attachment.run("ADD"))
  expectUnchanged(host, await takeSnapshot(net.host), isAllocationTrace)
  expectUnchanged(inside, await takeSnapshot(pod))
  return { ...error, pod, attachment }
}

testWith(
  ["vlan"],
  "a VLAN of a master is one container's: the next is told whose, until that no longer exists",
  async () => {
    await using net = await LanHost.create()
    const holder = await net.attach(tagged)
    await holder.attachment.add()
    const { code, msg, details, attachment } = await refused(net, {})
    const { name } = holder.pod
    expect(msg).toMatch(`Cannot use VLAN 5 of "up0": it is used by "eth0" in "`)
    expect(msg).toEndWith(`", of lan/${name}/eth0`)
    expect([code, details]).toEqual([999, expect.stringContaining("one interface per VLAN")])
    await succeed(attachment.run("STATUS")) // the VLAN is free again
    await (await net.attach({ ...tagged, vlanId: 6 })).attachment.add()
    await (await net.attach({ ...tagged, protocol: "802.1ad" })).attachment.add()
    await holder.attachment.del()
    await attachment.add()
  },
)

testWith(["vlan"], "a VLAN that the master's own namespace has is not a container's, and STATUS says so", async () => {
  await using net = await LanHost.create()
  await net.host.exec("ip", ["link", "add", "link", "up0", "name", "up0.5", "type", "vlan", "id", "5"])
  const { msg, attachment } = await refused(net, {})
  expect(msg).toBe('Cannot use VLAN 5 of "up0": it is used by "up0.5" in the namespace of the master')
  expect(await fail(attachment.run("STATUS"))).toMatchObject({ code: 50, msg })
})

testWith(["vlan"], "CHECK of a vlan names what is not as ADD made it", async () => {
  await using net = await LanHost.create()
  const { pod, attachment } = await net.attach({ ...tagged, linkInContainer: true, master: "own0" })
  await pod.exec("ip", ["link", "add", "own0", "up", "type", "veth", "peer", "name", "own1"])
  const result = await attachment.add()
  await succeed(attachment.check(result))
  const says = async (keys: object = {}) => (await fail(attachment.check(result, keys))).msg
  expect(await says({ vlanId: 6 })).toContain('VLAN of "eth0" failed: expected 6, found 5')
  expect(await says({ protocol: "802.1ad" })).toContain('protocol of "eth0" failed: expected "802.1ad", found "802.1q"')
  expect(await says({ mtu: 1400 })).toContain('MTU of "eth0" failed: expected 1400, found 1500')
  expect(await says({ master: "lo" })).toContain('master of "eth0" failed: expected "lo"')
  await pod.exec("ip", ["link", "set", "eth0", "address", "0a:00:00:00:00:09"])
  expect(await says()).toContain("found 0a:00:00:00:00:09")
  await pod.exec("ip", ["link", "del", "eth0"])
  expect(await says()).toContain("expected a vlan, found none")
})

testWith(["vlan"], "DEL of a vlan leaves nothing after each fault, without its master", async () => {
  await using net = await LanHost.create()
  const local = { type: "host-local", ranges: [[{ subnet: "198.51.100.0/24" }]] }
  const ways: [object, (pod: ContainerNamespace) => Promise<unknown>][] = [
    [{ master: "gone0" }, async () => {}],
    [{ linkInContainer: true }, async (pod) => net.host.removeContainer(pod)],
    [{}, (pod) => pod.exec("ip", ["link", "set", "eth0", "alias", ""])],
    [{}, (pod) => pod.exec("ip", ["link", "set", "eth0", "name", "net0"])],
  ]
  for (const [keys, happens] of ways) {
    const { pod, attachment } = await net.attach({ ...tagged, ipam: local })
    await attachment.add()
    await pod.exec("ip", ["link", "set", "eth0", "down"])
    await happens(pod)
    for (const _ of ["once", "twice"]) await attachment.del(keys)
    expect((await net.host.exec("ls", ["/var/lib/cni/networks/lan"])).stdout).not.toMatch(/^198/m)
    if ((await listNamespaces(pod.name)).length === 0) continue
    expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
  }
})

testWith(["vlan"], "an ADD of vlan on a master that cannot have VLANs says so", async () => {
  await using net = await LanHost.create()
  const { attachment } = await net.attach({ ...tagged, master: "lo", mtu: 1400 })
  expect((await fail(attachment.run("ADD"))).details).toContain('"lo" cannot have VLANs')
})

test.each<[string, number, object, string, (net: LanHost) => Promise<unknown>]>([
  ["the master does not exist", 7, { master: "up9" }, 'Cannot find the master interface "up9"', async () => {}],
  ["there is no master", 7, { master: "" }, 'with vlan: no "master"', async () => {}],
  ["there is no IPAM plugin", 7, { ipam: {} }, 'with vlan: no "ipam.type"', async () => {}],
  [
    "the VLAN is out of range",
    7,
    { vlanId: 4095 },
    "expected a whole number from 0 to 4094, found 4095",
    async () => {},
  ],
  ["the protocol is unknown", 7, { protocol: "isl" }, 'Cannot use "protocol"', async () => {}],
  [
    "the MTU is larger than the master's",
    7,
    { mtu: 1600 },
    "invalid MTU 1600, must be [0, master MTU(1500)]",
    async () => {},
  ],
  [
    "the master is down",
    999,
    {},
    'Cannot use the master interface "up0": it is down',
    ({ host }) => host.exec("ip", ["link", "set", "up0", "down"]),
  ],
])("ADD leaves nothing, and STATUS says why, when %s", async (_, code, keys, says, happens) => {
  await using net = await LanHost.create()
  await happens(net)
  const error = await refused(net, keys)
  expect([error.code, error.msg]).toEqual([code, expect.stringContaining(says)])
  expect((await fail(error.attachment.run("STATUS"))).msg).toContain(says)
})
