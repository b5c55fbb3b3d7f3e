import { expect } from "bun:test"
import {
  Attachment,
  addressesOf,
  bridgeNetwork,
  type ContainerNamespace,
  fail,
  HostNamespace,
  linkNames,
  linkOf,
  ping,
  pingOnce,
  portOf,
  testWith,
  vlansOf,
} from "../lab/mod.ts"

const inVlan = bridgeNetwork({
  vlan: 100,
  isDefaultGateway: true,
  ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }], [{ subnet: "fd00:22::/64" }]] },
})

async function hostAndPods(count = 1) {
  const host = await HostNamespace.create()
  return { host, pods: await Promise.all(Array.from({ length: count }, () => host.addContainer())) }
}

testWith(
  ["vlan_filtering"],
  "the gateway addresses are on an interface of the VLAN, which is the fourth answered",
  async () => {
    const { host, pods } = await hostAndPods()
    await using _ = host
    const [pod] = pods as [ContainerNamespace]
    await host.exec("ip", ["link", "add", "br-lab", "mtu", "1400", "type", "bridge", "vlan_filtering", "1"])
    const attachment = new Attachment(host, pod, inVlan)
    const result = await attachment.add()
    const gateway = await linkOf(host, "br-lab.100")
    expect(result.interfaces).toHaveLength(4)
    expect(result.interfaces[3]).toEqual({ name: "br-lab.100", mac: gateway.address, mtu: 1400 })
    expect(result.ips.map((ip) => ip.interface)).toEqual([2, 2])
    expect(await addressesOf(host, "br-lab.100")).toEqual(["10.22.0.1/16", "fd00:22::1/64"])
    expect(await addressesOf(host, "br-lab")).toEqual([])

    const names = await linkNames(host)
    const peer = names.find((name) => !["lo", "br-lab", "br-lab.100", portOf(result)].includes(name)) ?? ""
    expect(names).toHaveLength(5)
    expect(await linkOf(host, peer)).toMatchObject({ master: "br-lab", mtu: 1400, num_tx_queues: 1 })
    for (const port of [peer, portOf(result)]) expect(await vlansOf(host, port)).toEqual(["100 PVID Egress Untagged"])
    for (const address of ["10.22.0.1", "fd00:22::1"])
      expect(`${address} ${await ping(pod, address)}`).toEndWith("true")

    expect(await attachment.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
    await attachment.del()
    expect(await linkNames(host)).toEqual(expect.arrayContaining(["br-lab", "br-lab.100", peer])) // the VLAN interface stays like the bridge
  },
)

testWith(["vlan_filtering"], "containers of one VLAN share it, those of another have their own", async () => {
  const { host, pods } = await hostAndPods(3)
  await using _ = host
  const [a, b, c] = pods as [ContainerNamespace, ContainerNamespace, ContainerNamespace]
  const subnet = (subnet: string) => ({ type: "host-local", ranges: [[{ subnet }]] })
  const other = { ...inVlan, name: "lab-200", vlan: 200, ipam: subnet("10.23.0.0/16") }
  await new Attachment(host, a, inVlan).add()
  await new Attachment(host, b, inVlan).add()
  await new Attachment(host, c, other).add()
  expect((await linkNames(host)).filter((name) => name.startsWith("br-lab")).sort()).toEqual([
    "br-lab",
    "br-lab.100",
    "br-lab.200",
  ])
  expect(await ping(c, "10.23.0.1")).toBe(true)
  expect(await ping(c, "10.22.0.2")).toBe(true) // routed by the host
  await host.exec("sysctl", ["-w", "net.ipv4.ip_forward=0"])
  expect(await pingOnce(c, "10.22.0.2")).toBe(false)
})

testWith(["vlan_filtering"], "four first ADDs at once in one VLAN all succeed", async () => {
  const { host, pods } = await hostAndPods(4)
  await using _ = host
  const results = await Promise.all(pods.map((pod) => new Attachment(host, pod, inVlan).add()))
  expect(new Set(results.map(({ interfaces }) => interfaces[3]?.mac)).size).toBe(1)
  expect(await linkNames(host)).toHaveLength(1 + 1 + 2 + 4)
  expect(await ping(pods[3] as ContainerNamespace, "10.22.0.1")).toBe(true)
})

testWith(["vlan_filtering"], "preserveDefaultVlan holds for its port, too", async () => {
  const { host, pods } = await hostAndPods()
  await using _ = host
  const keys = { ...inVlan, preserveDefaultVlan: true, vlanTrunk: [{ id: 300 }] }
  const result = await new Attachment(host, pods[0] as ContainerNamespace, keys).add()
  const names = await linkNames(host)
  const peer = names.find((name) => !["lo", "br-lab", "br-lab.100", portOf(result)].includes(name)) ?? ""
  expect(await vlansOf(host, peer)).toEqual(["1 Egress Untagged", "100 PVID Egress Untagged"])
})

testWith(["vlan_filtering", "vlan"], "a VLAN interface that an administrator made on the bridge will do", async () => {
  const { host, pods } = await hostAndPods()
  await using _ = host
  const [pod] = pods as [ContainerNamespace]
  await host.exec("ip", ["link", "add", "br-lab", "up", "type", "bridge", "vlan_filtering", "1"])
  await host.exec("ip", ["link", "add", "link", "br-lab", "name", "br-lab.100", "type", "vlan", "id", "100"])
  await host.exec("bridge", ["vlan", "add", "dev", "br-lab", "vid", "100", "self"])
  const attachment = new Attachment(host, pod, inVlan)
  const result = await attachment.add()
  expect(await linkNames(host)).toHaveLength(4)
  expect(await ping(pod, "10.22.0.1")).toBe(true)
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
})

/** Other links with the name of the VLAN interface. */
const strangers: { setUp: string[]; says: string }[] = [
  { setUp: ["link add br-lab.100 type bridge"], says: 'found kind "bridge"' },
  { setUp: ["link add br-lab.100 type veth peer name other"], says: '"other" not on the bridge' },
]

testWith(
  ["vlan_filtering"],
  "what an ADD that was killed has left of it is completed, another VLAN's is not",
  async () => {
    const { host, pods } = await hostAndPods(2)
    await using _ = host
    const [pod, second] = pods as [ContainerNamespace, ContainerNamespace]
    await host.exec("ip", "link add br-lab up type bridge vlan_filtering 1".split(" "))
    await host.exec("ip", "link add br-lab.100 type veth peer name other".split(" "))
    await host.exec("ip", "link set other master br-lab".split(" "))
    expect(await new Attachment(host, pod, inVlan).run("STATUS")).toMatchObject({ exitCode: 0 })
    await new Attachment(host, pod, inVlan).add()
    expect(await vlansOf(host, "other")).toEqual(["100 PVID Egress Untagged"])
    expect(await ping(pod, "10.22.0.1")).toBe(true)
    await host.exec("bridge", "vlan add dev other vid 300 pvid untagged".split(" "))
    const { msg, details, code } = await fail(new Attachment(host, second, inVlan).run("ADD"))
    expect({ code, msg }).toEqual({ code: 7, msg: '"br-lab.100" already exists but is not in VLAN 100' })
    expect(details).toContain('"other" in VLANs 100 untagged, 300 pvid untagged')
  },
)

testWith(["vlan_filtering"], "another link of its name is an error, and stays as it is", async () => {
  const { host, pods } = await hostAndPods()
  await using _ = host
  await host.exec("ip", "link add br-lab up address 0a:00:00:00:00:01 type bridge vlan_filtering 1".split(" "))
  for (const { setUp, says } of strangers) {
    await host.exec("ip", ["-batch", "-"], { input: `${setUp.join("\n")}\n` })
    const look = async () => [await linkNames(host), (await linkOf(host, "br-lab.100")).flags]
    const before = await look()
    const { msg, details, code } = await fail(new Attachment(host, pods[0] as ContainerNamespace, inVlan).run("ADD"))
    expect({ code, msg }).toEqual({ code: 7, msg: '"br-lab.100" already exists but is not in VLAN 100' })
    expect(details).toContain(says)
    const status = await fail(new Attachment(host, pods[0] as ContainerNamespace, inVlan).run("STATUS"))
    expect(status).toMatchObject({ code: 50, msg, details })
    expect(await look()).toEqual(before)
    await host.exec("ip", ["link", "delete", "br-lab.100"])
  }
})

testWith(
  ["vlan_filtering"],
  "an ADD that fails after it was made leaves it with the bridge, for other containers",
  async () => {
    const { host, pods } = await hostAndPods(2)
    await using _ = host
    const [pod, other] = pods as [ContainerNamespace, ContainerNamespace]
    const file = "/proc/sys/net/ipv4/ip_forward"
    await host.exec("mount", ["--bind", file, file])
    await host.exec("mount", ["-o", "remount,bind,ro", file])
    const failing = await fail(new Attachment(host, pod, inVlan).run("ADD"))
    expect(failing.msg).toContain("Cannot enable forwarding")
    expect((await linkNames(host)).sort()).toEqual(["br-lab", "br-lab.100", "lo", expect.stringMatching(/^veth/)])
    await host.exec("umount", [file])
    await new Attachment(host, other, inVlan).add()
  },
)

/** Changes to the VLAN interface in order, with the error of CHECK for each. */
const damages: { command: string; says: string }[] = [
  {
    command: "address delete 10.22.0.1/16 dev br-lab.100",
    says: 'addresses of "br-lab.100" failed: expected 10.22.0.1/16',
  },
  { command: "link set br-lab.100 down", says: 'interface "br-lab.100" failed: expected up' },
  { command: "link delete br-lab.100", says: 'expected an interface of bridge "br-lab" in VLAN 100, found none' },
]

testWith(["vlan_filtering"], "CHECK names it when it has lost its address, is down, or is gone", async () => {
  const { host, pods } = await hostAndPods()
  await using _ = host
  const attachment = new Attachment(host, pods[0] as ContainerNamespace, inVlan)
  const result = await attachment.add()
  for (const { command, says } of damages) {
    await host.exec("ip", command.split(" "))
    expect((await fail(attachment.check(result))).msg).toContain(says)
  }
})
