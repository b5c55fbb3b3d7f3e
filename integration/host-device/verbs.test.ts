import { expect, describe as group, test } from "bun:test"
import {
  type ContainerNamespace,
  expectUnchanged,
  fail,
  isAllocationTrace,
  listNamespaces,
  type Namespace,
  succeed,
  takeSnapshot,
} from "../lab/mod.ts"
import { asBefore, DeviceHost, device, deviceNetwork, upstream } from "./device.ts"

const nothing = async () => {}
const leases = async ({ host }: DeviceHost) => (await host.exec("ls", ["/var/lib/cni/networks/lab"])).stdout
const linksOf = async (pod: Namespace) =>
  (await pod.json<{ ifname: string }[]>("ip", ["-j", "link"])).map(({ ifname }) => ifname)

/** Sets the container's interface down for changes that older kernels allow only then. */
async function change(pod: ContainerNamespace, ...changes: string[]): Promise<void> {
  await pod.exec("ip", ["link", "set", "eth0", "down"])
  await pod.exec("ip", ["link", "set", "eth0", ...changes])
}

group("DEL", () => {
  const ways: [string, object, object, (net: DeviceHost, pod: ContainerNamespace) => Promise<unknown>][] = [
    ["", {}, {}, nothing],
    ["after it was renamed inside, with another alias", {}, {}, (_, pod) => change(pod, "name", "n", "alias", "x")],
    [
      "after MAC, MTU and state were changed",
      {},
      {},
      (_, pod) => change(pod, "address", "0a:00:00:00:00:9", "mtu", "900"),
    ],
    [
      "after it was moved to the host by hand, or by the kernel",
      {},
      {},
      async ({ host }, pod) => {
        await change(pod, "mtu", "900")
        await pod.exec("ip", ["link", "set", "eth0", "netns", host.name])
        await host.removeContainer(pod)
      },
    ],
    [
      "with a configuration that changed or broke since ADD",
      { device: "a/b", hwaddr: 5, kernelpath: "x", pciBusID: "..", runtimeConfig: 1, prevResult: "?" },
      { args: "no=pair=here" },
      nothing,
    ],
    ["with a configuration for another device", { device: "ens6" }, {}, nothing],
  ]

  test.each(ways)("%s gives the device back as it was, and a second one succeeds", async (_, keys, call, happens) => {
    await using net = await DeviceHost.create()
    const before = await takeSnapshot(net.host)
    const { pod, attachment } = await net.attach()
    await attachment.add()
    await happens(net, pod)
    for (let time = 0; time < 2; time++) {
      await attachment.del(keys, call)
      expect(await net.describe()).toEqual(asBefore)
      if ((await listNamespaces(pod.name)).length > 0) expect(await linksOf(pod)).toEqual(["lo"])
      expectUnchanged(before, await takeSnapshot(net.host), isAllocationTrace)
    }
  })

  test.each<[string, object, (net: DeviceHost, pod: ContainerNamespace) => Promise<unknown>]>([
    [
      "after the namespace no longer exists, and a virtual device with it,",
      {},
      ({ host }, pod) => host.removeContainer(pod),
    ],
    ["without CNI_NETNS, while a virtual device is in its namespace,", { netns: "" }, nothing],
    ["with a path at which something else lies by now", { netns: "/etc/hostname" }, nothing],
  ])("%s releases the lease", async (_, call, happens) => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    await happens(net, pod)
    await attachment.del({}, call)
    expect(await leases(net)).not.toContain("192.0.2.100")
  })

  test("fails where the kernel does not say which boot this is, keeps the record, and then succeeds", async () => {
    await using net = await DeviceHost.create()
    const before = await takeSnapshot(net.host)
    const { attachment } = await net.attach()
    await attachment.add()
    const hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc/sys && exec "$0"']
    const error = await fail(attachment.run("DEL", {}, { under: hidden }))
    expect(error.msg).toContain('"/proc/sys/kernel/random/boot_id"')
    await attachment.del()
    expect(await net.describe()).toEqual(asBefore)
    expectUnchanged(before, await takeSnapshot(net.host), isAllocationTrace)
  })

  test("knows the device when the container has taken off its alternative name and its alias", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    await pod.exec("ip", ["link", "property", "del", "dev", "eth0", "altname", `lab:${pod.name}:eth0`])
    await pod.exec("ip", ["link", "set", "dev", "eth0", "alias", ""])
    await attachment.del()
    expect(await net.describe()).toEqual(asBefore)
  })

  test("fails while the host has another interface of the name, leaves the container's as it is, and then succeeds", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    await net.host.exec("ip", ["link", "add", "ens5", "type", "bridge"])
    const before = await takeSnapshot(pod)
    const { msg, details } = await fail(attachment.run("DEL"))
    expect(msg).toBe('Cannot return "eth0" as "ens5": the host has an interface of that name')
    expect(details).toBe("rename it, and repeat DEL")
    expectUnchanged(before, await takeSnapshot(pod))
    expect(await leases(net)).not.toContain("192.0.2.100") // DEL has done the other steps
    await net.host.exec("ip", ["link", "del", "ens5"])
    await attachment.del()
    expect(await net.describe()).toEqual(asBefore)
  })

  test("leaves an interface of that name that is not a device of the host, or another attachment's", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
    const bridge = await takeSnapshot(pod)
    await attachment.del()
    expectUnchanged(bridge, await takeSnapshot(pod))
    await pod.exec("ip", ["link", "del", "eth0"])
    const other = await net.attach({ name: "other" }, { netns: pod.path, containerId: pod.name })
    await other.attachment.add()
    const theirs = await takeSnapshot(pod)
    await attachment.del()
    expectUnchanged(theirs, await takeSnapshot(pod))
  })
})

group("with the Go suite", () => {
  const old = { cniVersion: "1.0.0", ipam: undefined }

  test("a virtual device that it has moved stays in the container, and DEL succeeds: the container may have made it [S93]", async () => {
    await using net = await DeviceHost.create()
    const go = await net.attach(old, { bin: upstream })
    await go.attachment.add()
    const { attachment } = await net.attach(old, { netns: go.pod.path, containerId: go.pod.name })
    for (let time = 0; time < 2; time++) await attachment.del()
    expect(await linksOf(go.pod)).toEqual(["lo", "eth0"])
    expect(await linksOf(net.host)).toEqual(["lo"])
  })

  test("it gives back what was moved here; the next ADD, DEL or GC here restores the rest", async () => {
    for (const verb of ["ADD", "DEL", "GC"] as const) {
      await using net = await DeviceHost.create()
      const { pod, attachment } = await net.attach({ ipam: undefined })
      await attachment.add()
      const go = await net.attach(old, { bin: upstream, netns: pod.path, containerId: pod.name })
      await go.attachment.del()
      expect(await net.describe()).toMatchObject({ ifname: "ens5", address: device.mac, mtu: 1400, up: false })
      await succeed(attachment.run(verb, { "cni.dev/valid-attachments": [] }))
      if (verb === "ADD") await attachment.del()
      expect(await net.describe()).toEqual(asBefore)
    }
  })

  test("a record that it has left on a device is not taken for that of its next container", async () => {
    await using net = await DeviceHost.create()
    const first = await net.attach({ ipam: undefined })
    await first.attachment.add()
    await (await net.attach(old, { bin: upstream, netns: first.pod.path })).attachment.del()
    const second = await net.attach(old, { bin: upstream })
    const result = await second.attachment.add()
    const before = await takeSnapshot(second.pod)
    await first.attachment.del()
    const valid = [{ containerID: second.pod.name, ifname: "eth0" }]
    await succeed(first.attachment.run("GC", { "cni.dev/valid-attachments": valid }))
    expectUnchanged(before, await takeSnapshot(second.pod))
    const { attachment } = await net.attach(old, { netns: second.pod.path, containerId: second.pod.name })
    await succeed(attachment.check(result))
    await (await net.attach(old, { bin: upstream, netns: second.pod.path })).attachment.del()
    expect(await net.describe()).toMatchObject({ ifname: "ens5", address: device.mac })
  })
})

group("CHECK names it when", () => {
  test.each<[string, (net: DeviceHost, pod: ContainerNamespace) => Promise<unknown>, string]>([
    ["the interface no longer exists", (_, pod) => change(pod, "name", "other"), "found none"],
    [
      "there is another instead",
      async (_, pod) => {
        await change(pod, "name", "other")
        await pod.exec("ip", ["link", "add", "eth0", "address", device.mac, "mtu", "1400", "type", "bridge"])
        await pod.exec("ip", ["addr", "add", "192.0.2.100/24", "dev", "eth0"])
        await pod.exec("ip", ["addr", "add", "2001:db8:2::100/64", "dev", "eth0"])
        await pod.exec("ip", ["link", "set", "eth0", "up"])
      },
      'device "eth0" failed: expected a device of the host, found a new one of kind "bridge"',
    ],
    [
      "the MTU is another",
      (_, pod) => pod.exec("ip", ["link", "set", "eth0", "mtu", "1300"]),
      "expected 1400, found 1300",
    ],
    [
      "the MAC is another",
      (_, pod) => pod.exec("ip", ["link", "set", "eth0", "address", "0a:00:00:00:00:9"]),
      `expected ${device.mac}`,
    ],
    ["it is down", (_, pod) => pod.exec("ip", ["link", "set", "eth0", "down"]), "expected up, found down"],
    [
      "an address no longer exists",
      (_, pod) => pod.exec("ip", ["addr", "del", "192.0.2.100/24", "dev", "eth0"]),
      "expected 192.0.2.100/24",
    ],
    ["a route no longer exists", (_, pod) => pod.exec("ip", ["-6", "route", "del", "default"]), "expected default"],
    [
      "the lease no longer exists",
      ({ host }) => host.exec("rm", ["/var/lib/cni/networks/lab/192.0.2.100"]),
      "192.0.2.100",
    ],
  ])("%s", async (_, damage, says) => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    const result = await attachment.add()
    await succeed(attachment.check(result))
    await damage(net, pod)
    const { msg, details } = await fail(attachment.check(result))
    expect(`${msg}; ${details}`).toContain(says)
  })

  test("the device is another than the configuration's", async () => {
    await using net = await DeviceHost.create()
    const { attachment } = await net.attach()
    const result = await attachment.add()
    const { msg } = await fail(attachment.check(result, { device: "ens6" }))
    expect(msg).toBe('Check of device "eth0" failed: expected "ens6" of the host, found "ens5"')
  })
})

group("a failed ADD leaves everything as it was", () => {
  const ipam = deviceNetwork().ipam as object
  const route = { routes: [{ dst: "203.0.113.0/24", gw: "198.51.100.1" }] }
  test.each<[string, object, string, boolean, (net: DeviceHost, pod: ContainerNamespace) => Promise<unknown>]>([
    ["no device is named", { device: undefined }, 'specify either "device", "hwaddr", "kernelpath" or', true, nothing],
    ["the device does not exist", { device: "ens9" }, 'Cannot find the device "ens9"', true, nothing],
    ["no device has the MAC", { device: "", hwaddr: "0a:00:00:00:00:09" }, "Cannot find the device", true, nothing],
    ["nothing is there on the bus", { device: "", pciBusID: "0000:99:00.0" }, "Cannot find the device", true, nothing],
    ["the device is lo", { device: "lo" }, 'Cannot take the device "lo": it is the loopback', true, nothing],
    [
      "the device is a port of a bridge",
      {},
      'Cannot take the device "ens5": it is a port of "br9"',
      true,
      async ({ host }) => {
        await host.exec("ip", ["link", "add", "br9", "type", "bridge"])
        await host.exec("ip", ["link", "set", "ens5", "master", "br9"])
      },
    ],
    [
      "the record cannot be written",
      {},
      'Cannot create the directory "/run/cni/host-device"',
      false,
      ({ host }) => host.exec("touch", ["/run/cni/host-device"]),
    ],
    [
      "the container has such an interface",
      {},
      "it already exists",
      false,
      (_, pod) => pod.exec("ip", ["link", "add", "eth0", "type", "bridge"]),
    ],
    [
      "the container has an interface with one of its alternative names",
      {},
      'Cannot move "ens5" to',
      false,
      async ({ host }, pod) => {
        await host.exec("ip", ["link", "property", "add", "dev", "ens5", "altname", "taken"])
        await pod.exec("ip", ["link", "add", "taken", "type", "bridge"])
      },
    ],
    ["a route cannot be added", { ipam: { ...ipam, ...route } }, "Cannot add the routes", false, nothing],
    [
      "an address cannot be added",
      { ipam: { type: "static", addresses: [{ address: "ff02::5/64" }] } },
      "Cannot add address ff02::5/64",
      false,
      nothing,
    ],
    ["there are no addresses", { ipam: { type: "static" } }, "", false, nothing],
  ])("when %s", async (_, keys, says, everyAdd, setUp) => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach(keys)
    await setUp(net, pod)
    const [host, inside] = [await takeSnapshot(net.host), await takeSnapshot(pod)]
    const { code, msg, details } = await fail(attachment.run("ADD"))
    expect(`${msg}; ${details}`).toContain(says)
    expectUnchanged(host, await takeSnapshot(net.host), isAllocationTrace)
    expectUnchanged(inside, await takeSnapshot(pod))
    if (!everyAdd) return
    expect(code).toBe(7)
    expect((await fail(attachment.run("STATUS"))).msg).toContain(says)
  })

  test("an ADD that is repeated fails, and what the first one made stays", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    const before = await takeSnapshot(pod)
    expect((await fail(attachment.run("ADD"))).msg).toContain('"eth0"')
    expectUnchanged(before, await takeSnapshot(pod))
  })
})

group("GC", () => {
  const none = { "cni.dev/valid-attachments": [] }

  test("restores what the host has again of attachments that are gone, and keeps the others and other networks'", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    const result = await attachment.add()
    const valid = { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: "eth0" }] }
    await succeed(attachment.run("GC", valid))
    await succeed(attachment.check(result))
    await pod.exec("ip", ["link", "set", "eth0", "netns", net.host.name])
    await succeed((await net.attach({ name: "other" })).attachment.run("GC", none))
    expect(await linksOf(net.host)).toContain("eth0")
    await succeed(attachment.run("GC", none))
    expect(await net.describe()).toEqual(asBefore)
    expect(await leases(net)).not.toContain("192.0.2.100")
  })

  test("takes no link out of a container that the container may have made, with any owner written on it", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    const { ino } = await Bun.file(pod.path).stat()
    await pod.exec("ip", ["link", "add", "mine", "type", "veth", "peer", "name", "hers", "netns", net.host.name])
    const forged = [`lab:${pod.name}:eth0`, `eth1:up:1500:0a-00-00-00-00-05:${ino}:`]
    for (const name of forged) await pod.exec("ip", ["link", "property", "add", "dev", "mine", "altname", name])
    const before = await takeSnapshot(pod)
    await succeed(attachment.run("GC", none))
    await attachment.del({}, { netns: "" })
    expectUnchanged(before, await takeSnapshot(pod))
  })
})
