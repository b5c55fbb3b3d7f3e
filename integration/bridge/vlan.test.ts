import { expect, test } from "bun:test"
import {
  Attachment,
  answering,
  bridgeNetwork,
  type ContainerNamespace,
  expectUnchanged,
  fail,
  HostNamespace,
  hasFeature,
  isAllocationTrace,
  linkOf,
  type PluginResult,
  ping,
  pingOnce,
  portOf,
  takeSnapshot,
  testWith,
  vlansOf,
} from "../lab/mod.ts"

async function hostAndPod() {
  const host = await HostNamespace.create()
  return { host, pod: await host.addContainer() }
}

/** Creates a container and attaches it. */
async function attach(host: HostNamespace, keys: object): Promise<{ pod: ContainerNamespace; result: PluginResult }> {
  const pod = await host.addContainer()
  return { pod, result: await new Attachment(host, pod, bridgeNetwork(keys)).add() }
}

test("VLANs are in the kernel, or ADD names the feature that it lacks and the host is as before", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const before = await takeSnapshot(host)
  const attachment = new Attachment(host, pod, bridgeNetwork({ vlan: 100 }))
  if (hasFeature("vlan_filtering")) {
    expect(await vlansOf(host, portOf(await attachment.add()))).toEqual(["100 PVID Egress Untagged"])
    return
  }
  const { msg } = await fail(attachment.run("ADD"))
  expect(msg).toBe('Cannot use VLANs on bridge "br-lab": the kernel is built without CONFIG_BRIDGE_VLAN_FILTERING')
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
  await host.exec("ip", ["link", "add", "br-lab", "address", "0a:00:00:00:00:01", "up", "type", "bridge"])
  const bridged = await takeSnapshot(host)
  expect((await fail(attachment.run("ADD"))).msg).toContain("CONFIG_BRIDGE_VLAN_FILTERING")
  expectUnchanged(bridged, await takeSnapshot(host), isAllocationTrace)
  expect(await fail(attachment.run("STATUS"))).toMatchObject({ code: 50 })
})

/** The VLANs of a port, on a bridge that adds new ports to VLAN 1. */
const ports: [what: string, keys: object, vlans: string[]][] = [
  ["`vlan` is the only one of the port", { vlan: 100 }, ["100 PVID Egress Untagged"]],
  [
    "preserveDefaultVlan keeps the bridge's",
    { vlan: 100, preserveDefaultVlan: true },
    ["1 Egress Untagged", "100 PVID Egress Untagged"],
  ],
  [
    "a trunk has VLAN 1 as the native one",
    { vlanTrunk: [{ id: 101 }, { minID: 200, maxID: 210 }] },
    ["1 PVID Egress Untagged", "101", "200-210"],
  ],
  [
    "`vlan` is the native one of a trunk",
    { vlan: 100, vlanTrunk: [{ id: 101 }, { minID: 200, maxID: 210 }] },
    ["100 PVID Egress Untagged", "101", "200-210"],
  ],
  [
    "the native VLAN stays native when the trunk contains it",
    { vlan: 205, vlanTrunk: [{ minID: 200, maxID: 210 }] },
    ["200-204", "205 PVID Egress Untagged", "206-210"],
  ],
  [
    "all VLANs there are",
    { vlan: 7, vlanTrunk: [{ minID: 1, maxID: 4094 }] },
    ["1-6", "7 PVID Egress Untagged", "8-4094"],
  ],
  ["null in a trunk is nothing", { vlan: 100, vlanTrunk: [null, { id: 5 }] }, ["5", "100 PVID Egress Untagged"]],
  ["an empty trunk leaves the port as the bridge makes it", { vlanTrunk: [] }, ["1 PVID Egress Untagged"]],
]

testWith(["vlan_filtering"], "a port is in the VLANs that the keys say, which CHECK agrees to, until DEL", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  for (const [at, [what, keys, vlans]] of ports.entries()) {
    const attachment = new Attachment(host, pod, bridgeNetwork(keys), { ifName: `net${at}` })
    const result = await attachment.add()
    expect({ what, vlans: await vlansOf(host, portOf(result)) }).toEqual({ what, vlans })
    expect(await attachment.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
    await attachment.del()
    expect(await vlansOf(host, portOf(result))).toEqual([])
  }
  expect((await linkOf(host, "br-lab")).linkinfo?.info_data?.vlan_filtering).toBe(1)
})

testWith(["vlan_filtering"], "a bridge with another default VLAN, or none, is left for ours", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  for (const [at, id] of ["42", "0"].entries()) {
    await host.exec("ip", ["link", "add", `br-${id}`, "type", "bridge", "vlan_filtering", "1", "vlan_default_pvid", id])
    const keys = bridgeNetwork({ name: `lab-${id}`, bridge: `br-${id}`, vlan: 100 })
    const result = await new Attachment(host, pod, keys, { ifName: `net${at}` }).add()
    expect(await vlansOf(host, portOf(result))).toEqual(["100 PVID Egress Untagged"])
  }
})

testWith(["vlan_filtering"], "two VLANs of one bridge are two networks", async () => {
  await using host = await HostNamespace.create()
  const a = await attach(host, { vlan: 100 }) // 10.22.0.2
  await attach(host, { vlan: 100 })
  await attach(host, { vlan: 200 })
  expect(await ping(a.pod, "10.22.0.3")).toBe(true)
  expect(await pingOnce(a.pod, "10.22.0.4")).toBe(false)
})

testWith(["vlan_filtering"], "the host's pair of a VLAN joins the bridge that an ADD re-creates", async () => {
  await using host = await HostNamespace.create()
  await attach(host, { vlan: 100, isGateway: true })
  await host.exec("ip", ["link", "delete", "br-lab"])
  const { pod } = await attach(host, { vlan: 100, isGateway: true })
  expect(await ping(pod, "10.22.0.1")).toBe(true)
})

testWith(
  ["vlan_filtering", "vlan"],
  "a trunk carries its VLANs with tags, the native one without, no others",
  async () => {
    await using host = await HostNamespace.create()
    const trunk = await attach(host, { vlan: 100, vlanTrunk: [{ minID: 100, maxID: 102 }] })
    await attach(host, { vlan: 100 }) // 10.22.0.3
    const tagged = [await attach(host, { vlan: 101 }), await attach(host, { vlan: 103 })]
    expect(await ping(trunk.pod, "10.22.0.3")).toBe(true)
    for (const [at, { pod }] of tagged.entries()) {
      const [id, address] = [String(101 + 2 * at), `10.${101 + 2 * at}.0.1`]
      await pod.exec("ip", ["address", "add", `${address}/24`, "dev", "eth0"])
      await trunk.pod.exec("ip", ["link", "add", "link", "eth0", "name", `v${id}`, "up", "type", "vlan", "id", id])
      await trunk.pod.exec("ip", ["address", "add", `10.${id}.0.2/24`, "dev", `v${id}`])
      const answers = await answering(trunk.pod, [address], id === "101" ? [address] : [])
      expect(answers).toEqual(id === "101" ? [address] : [])
    }
  },
)

testWith(
  ["vlan_filtering"],
  "a bridge without VLAN filtering is refused, with the command that switches it on",
  async () => {
    const { host, pod } = await hostAndPod()
    await using _ = host
    await host.exec("ip", ["link", "add", "br-lab", "address", "0a:00:00:00:00:01", "type", "bridge"])
    const before = await takeSnapshot(host)
    const attachment = new Attachment(host, pod, bridgeNetwork({ vlan: 100 }))
    const error = await fail(attachment.run("ADD"))
    expect(error).toMatchObject({ code: 7, msg: 'Cannot use VLANs on bridge "br-lab": its VLAN filtering is off' })
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    expect(await fail(attachment.run("STATUS"))).toMatchObject({ code: 50, msg: error.msg })
    const command = /"(ip [^"]*)"/.exec(error.details ?? "")?.[1] ?? ""
    await host.exec("sh", ["-c", command])
    expect((await attachment.run("STATUS")).exitCode).toBe(0)
    await attachment.add()
  },
)

/** Changes to a port in order, with the error of CHECK for each. */
const damages: { damage: (host: HostNamespace, port: string) => unknown; says: string[] }[] = [
  {
    damage: (host, port) => host.exec("bridge", ["vlan", "del", "dev", port, "vid", "101"]),
    says: ["VLANs of port", "expected 100 pvid untagged, 101, found 100 pvid untagged"],
  },
  {
    damage: (host, port) => host.exec("bridge", ["vlan", "add", "dev", port, "vid", "101", "pvid", "untagged"]),
    says: ["VLANs of port", "101 pvid untagged"],
  },
  {
    damage: async (host, port) => {
      await host.exec("bridge", ["vlan", "add", "dev", port, "vid", "101"])
      await host.exec("bridge", ["vlan", "add", "dev", port, "vid", "100", "pvid", "untagged"])
      await host.exec("bridge", ["vlan", "add", "dev", port, "vid", "300"])
    },
    says: ["VLANs of port", "found 100 pvid untagged, 101, 300"],
  },
  {
    damage: (host) => host.exec("ip", ["link", "set", "br-lab", "type", "bridge", "vlan_filtering", "0"]),
    says: ['"br-lab": its VLAN filtering is off'],
  },
]

testWith(
  ["vlan_filtering"],
  "CHECK names it when a VLAN is missing, not native, too many, or none counts",
  async () => {
    const { host, pod } = await hostAndPod()
    await using _ = host
    const attachment = new Attachment(host, pod, bridgeNetwork({ vlan: 100, vlanTrunk: [{ id: 101 }] }))
    const result = await attachment.add()
    for (const { damage, says } of damages) {
      await damage(host, portOf(result))
      const { msg, details } = await fail(attachment.check(result))
      for (const words of says) expect(`${msg}; ${details ?? ""}`).toContain(words)
    }
  },
)
