import { expect, test } from "bun:test"
import {
  expectUnchanged,
  fail,
  isAllocationTrace,
  linkNames,
  ping,
  succeed,
  takeSnapshot,
  testWith,
  waitFor,
} from "../lab/mod.ts"
import { asBefore, DeviceHost, describe, device, upstream } from "./device.ts"

const addresses = ["192.0.2.100", "2001:db8:2::100"]

test("the device goes into the container as its interface, with addresses and routes, and traffic passes", async () => {
  await using net = await DeviceHost.create()
  const { pod, attachment } = await net.attach()
  const result = await attachment.add()
  expect(result).toEqual({
    cniVersion: "1.1.0",
    interfaces: [{ name: "eth0", mac: device.mac, mtu: 1400, sandbox: pod.path }],
    ips: [
      { address: "192.0.2.100/24", gateway: "192.0.2.9", interface: 0 },
      { address: "2001:db8:2::100/64", gateway: "2001:db8:2::9", interface: 0 },
    ],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
  })
  expect(await net.host.json<object[]>("ip", ["-j", "link"])).toMatchObject([{ ifname: "lo" }])
  expect(await describe(pod, "eth0")).toEqual({
    ifname: "eth0",
    address: device.mac,
    mtu: 1400,
    ifalias: "ens5", // the record of the Go plugin
    altnames: [`lab:${pod.name}:eth0`], // shown to operators
    up: true,
  })
  for (const [family, gateway] of [
    ["-4", "192.0.2.9"],
    ["-6", "2001:db8:2::9"],
  ] as const) {
    const shown = await pod.json<object[]>("ip", [family, "-j", "route", "show", "default"])
    expect(shown).toMatchObject([{ gateway, dev: "eth0" }])
    expect(await ping(pod, gateway)).toBe(true)
  }
  await succeed(attachment.check(result))
  await attachment.del()
  expect(await net.describe()).toEqual(asBefore)
})

test("neighbors learn at once who has an address now, of both families", async () => {
  await using net = await DeviceHost.create()
  for (const address of addresses) {
    const stale = ["lladdr", "0a:00:00:00:00:99", "dev", "port0", "nud", "stale"]
    await net.lan.exec("ip", ["neigh", "replace", address, ...stale])
  }
  const { attachment } = await net.attach()
  await attachment.add()
  const known = async () => {
    const entries = await net.lan.json<{ dst: string; lladdr: string }[]>("ip", ["-j", "neigh", "show", "dev", "port0"])
    return addresses.map((address) => entries.find(({ dst }) => dst === address)?.lladdr)
  }
  await waitFor(async () => (await known()).every((mac) => mac === device.mac), "the neighbors' tables to change")
})

const pci = "/sys/bus/pci/devices/0000:03:00.0"
const byPci = { device: undefined, pciBusID: "0000:03:00.0" }

test.each<[string, object, string[]]>([
  ["its MAC", { device: undefined, hwaddr: "0A:00:00:00:00:05" }, []],
  ["an alternative name", { device: "a-longer-name-of-ens5" }, []],
  ["its place on the PCI bus, the first of its interfaces", byPci, [`${pci}/net/ens5`, `${pci}/net/ens9`]],
  ["its place on the PCI bus, where it is a virtio device", byPci, [`${pci}/virtio1/net/ens5`]],
  [
    "its path in sysfs",
    { device: undefined, kernelpath: "/sys/devices/pci0000:00/0000:00:19.0" },
    ["/sys/devices/pci0000:00/0000:00:19.0/net/ens5"],
  ],
  [
    "the runtime, on the PCI bus, before the configuration",
    { device: "nothing", runtimeConfig: { deviceID: "0000:03:00.0" } },
    [`${pci}/net/ens5`],
  ],
  [
    "the runtime, on the auxiliary bus",
    { device: undefined, runtimeConfig: { deviceID: "mlx5_core.sf.4" } },
    ["/sys/bus/auxiliary/devices/mlx5_core.sf.4/net/ens5"],
  ],
])("a device is chosen by %s", async (_, keys, sysfs) => {
  await using net = await DeviceHost.create()
  await net.setSysfs(...sysfs)
  await net.host.exec("ip", ["link", "property", "add", "dev", "ens5", "altname", "a-longer-name-of-ens5"])
  const before = await net.describe()
  const { pod, attachment } = await net.attach(keys)
  await succeed(attachment.run("STATUS"))
  const result = await attachment.add()
  expect(await describe(pod, "eth0")).toMatchObject({ address: device.mac, up: true })
  await succeed(attachment.check(result))
  await attachment.del()
  expect(await net.describe()).toEqual(before)
})

test("a device that is run from user space stays where it is: the container gets the addresses alone", async () => {
  await using net = await DeviceHost.create()
  await net.setSysfs(pci)
  const asNone = await net.attach(byPci)
  expect((await fail(asNone.attachment.run("STATUS"))).msg).toContain("Cannot find the device")
  for (const driver of ["igb_uio", "uio_pci_generic", "vfio-pci"]) {
    await net.setSysfs(pci, `/sys/bus/pci/drivers/${driver}/0000:03:00.0`)
    await succeed(asNone.attachment.run("STATUS"))
  }
  const before = await takeSnapshot(net.host)
  const { pod, attachment } = await net.attach(byPci)
  const result = await attachment.add()
  expect(result.interfaces as object[]).toEqual([{ name: "eth0", sandbox: pod.path }])
  expect(result.ips).toHaveLength(2)
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
  await succeed(attachment.check(result))
  await succeed(attachment.run("STATUS"))
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(net.host), isAllocationTrace)
})

test("without an IPAM plugin the interface is up and has no address", async () => {
  await using net = await DeviceHost.create()
  const { pod, attachment } = await net.attach({ ipam: undefined, dns: { domain: "own.example" } })
  const result = await attachment.add()
  expect(result.ips).toBeUndefined()
  expect(result.dns).toEqual({ domain: "own.example" })
  expect(await describe(pod, "eth0")).toMatchObject({ up: true })
  expect((await pod.exec("ip", ["-4", "address", "show", "eth0"])).stdout).toBe("")
  await attachment.del()
  expect(await net.describe()).toEqual(asBefore)
})

test("a device that was down comes back down, and one without an alias without one", async () => {
  await using net = await DeviceHost.create()
  await net.host.exec("ip", ["link", "set", "ens5", "down", "alias", ""])
  const { pod, attachment } = await net.attach()
  await attachment.add()
  expect(await describe(pod, "eth0")).toMatchObject({ up: true })
  await attachment.del()
  expect(await net.describe()).toEqual({ ...asBefore, up: false, ifalias: "" })
})

test("a tunnel comes back, under its own index, also where the container has given it another", async () => {
  await using net = await DeviceHost.create()
  const vxlan = ["type", "vxlan", "id", "5", "dstport", "4789", "remote", "192.0.2.9"]
  await net.host.exec("ip", ["link", "add", "tunnel0", "index", "77", "mtu", "1300", ...vxlan])
  const { pod, attachment } = await net.attach({ device: "tunnel0", ipam: undefined })
  await pod.exec("ip", ["link", "add", "own0", "index", "77", "type", "bridge"])
  await attachment.add()
  await attachment.del()
  expect(await linkNames(pod)).toEqual(["lo", "own0"])
  const [found] = await net.host.json<object[]>("ip", ["-j", "link", "show", "tunnel0"])
  expect(found).toMatchObject({ ifindex: 77, mtu: 1300 })
})

test("a device may have the name of the interface already, and the container one of the device's name", async () => {
  await using net = await DeviceHost.create()
  const { pod, attachment } = await net.attach({}, { ifName: "ens5" })
  await attachment.add()
  await attachment.del()
  expect(await net.describe()).toEqual(asBefore)
  await pod.exec("ip", ["link", "add", "ens5", "type", "bridge"])
  const second = await net.attach({}, { netns: pod.path })
  await second.attachment.add()
  expect(await describe(pod, "eth0")).toMatchObject({ address: device.mac })
  await second.attachment.del()
  expect(await net.describe()).toEqual(asBefore)
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toMatchObject([{ ifname: "lo" }, { ifname: "ens5" }])
})

test.each([
  ["its name", {}],
  ["its MAC", { device: undefined, hwaddr: device.mac }],
])("a second ADD of a device, chosen by %s, says who has it", async (_, keys) => {
  await using net = await DeviceHost.create()
  const first = await net.attach()
  await first.attachment.add()
  const second = await net.attach(keys)
  const { code, msg } = await fail(second.attachment.run("ADD"))
  expect(code).toBe(11)
  expect(msg).toEndWith(`it is "eth0" of lab/${first.pod.name}/eth0`)
  await succeed(second.attachment.run("STATUS")) // the device will be returned
  await first.attachment.del()
  await second.attachment.add()
})

test("a device that the Go suite has given to a container is known to be there", async () => {
  await using net = await DeviceHost.create()
  const first = await net.attach({ ipam: undefined, cniVersion: "1.0.0" }, { bin: upstream })
  await first.attachment.add()
  const { code, msg } = await fail((await net.attach()).attachment.run("ADD"))
  expect({ code, msg }).toEqual({
    code: 11,
    msg: 'Cannot take the device "ens5": it is "eth0" of another namespace',
  })
})

test("ADD restores what is on the host again without a DEL: by hand, by the kernel or by the Go suite", async () => {
  await using net = await DeviceHost.create()
  const first = await net.attach()
  await first.attachment.add()
  // The same state as after the kernel has deleted the namespace, with other changes in between.
  await first.pod.exec("ip", ["link", "set", "eth0", "mtu", "1300", "address", "0a:00:00:00:00:77"])
  await first.pod.exec("ip", ["link", "set", "eth0", "netns", net.host.name])
  const second = await net.attach({}, { ifName: "net1" })
  expect((await second.attachment.add()).interfaces).toMatchObject([{ mac: device.mac, mtu: 1400 }])
  await first.attachment.del()
  expect(await describe(second.pod, "net1")).toMatchObject({ address: device.mac })
  await second.attachment.del()
  expect(await net.describe()).toEqual(asBefore)
})

testWith(["ifb"], "a leftover record claims no other device of the same kind and index", async () => {
  for (const name of ["other", "mine"]) {
    await using net = await DeviceHost.create()
    const make = (called: string, mac: string) =>
      net.host.exec("ip", ["link", "add", called, "index", "777", "address", mac, "type", "ifb"])
    await make("mine", "0a:00:00:00:00:21")
    const { pod, attachment } = await net.attach({ device: "mine", ipam: undefined })
    await attachment.add()
    await pod.exec("ip", ["link", "delete", "eth0"])
    await make(name, "0a:00:00:00:00:22")
    const before = await describe(net.host, name)
    const next = await net.attach({ name: "next", ipam: undefined })
    await next.attachment.add()
    expect(await describe(net.host, name)).toEqual(before)
    const { exitCode } = await next.attachment.run("ADD", { device: "mine" }, { ifName: "net1" })
    expect(exitCode).toBe(name === "mine" ? 0 : 1)
    await next.attachment.del({}, { ifName: "net1" })
    await next.attachment.del()
    await attachment.del()
    expect(await describe(net.host, name)).toEqual(before)
    expect((await net.host.exec("ls", ["-A", "/run/cni/host-device"])).stdout).toBe("")
  }
})

test("of ADDs at the same time one gets the device; DEL of the others does not take it away", async () => {
  await using net = await DeviceHost.create()
  const all = await Promise.all(Array.from({ length: 6 }, () => net.attach({ ipam: undefined })))
  for (let round = 0; round < 5; round++) {
    const outputs = await Promise.all(all.map(({ attachment }) => attachment.run("ADD")))
    const winners = all.filter((_, at) => outputs[at]?.exitCode === 0)
    expect(winners.length).toBeLessThan(2)
    const losers = all.filter((each) => !winners.includes(each))
    for (const { exitCode, json } of outputs) if (exitCode !== 0) expect(json).toMatchObject({ code: 11 })
    await Promise.all(losers.map(({ attachment }) => attachment.del()))
    for (const { pod, attachment } of winners) {
      expect(await describe(pod, "eth0")).toMatchObject({ address: device.mac, up: true })
      await attachment.del()
    }
    expect(await net.describe()).toEqual(asBefore)
  }
})

test.each(["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])(
  "version %s has the address, and DEL without a prevResult gives the device back",
  async (cniVersion) => {
    await using net = await DeviceHost.create()
    const ipam = { type: "static", addresses: [{ address: "192.0.2.7/24", gateway: "192.0.2.9" }] }
    const { pod, attachment } = await net.attach({ cniVersion, ipam })
    const result = await attachment.add()
    expect(JSON.stringify(result)).toContain("192.0.2.7/24")
    expect(await ping(pod, "192.0.2.9")).toBe(true)
    if (cniVersion >= "0.4.0") await succeed(attachment.check(result))
    await attachment.del()
    expect(await net.describe()).toEqual(asBefore)
  },
)
