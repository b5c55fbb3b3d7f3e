/**
 * Tests forged records on links of a container. A forged record must not make the host take a link, or another
 * container's device.
 */
import { expect, describe as group, test } from "bun:test"
import {
  Attachment,
  advertiseRouter,
  bridgeNetwork,
  type ContainerNamespace,
  fail,
  learnt,
  linkNames,
  ping,
  succeed,
  waitFor,
} from "../lab/mod.ts"
import { asBefore, DeviceHost, describe, deviceNetwork } from "./device.ts"

const records = "/run/cni/host-device"
const inodeOf = async ({ path }: ContainerNamespace) => (await Bun.file(path).stat()).ino

/** Runs a script as root in a container. Ignores failing commands. */
const attack = (pod: ContainerNamespace, ...lines: string[]) => pod.exec("sh", ["-c", `${lines.join("\n")}\ntrue`])

/** A command that deletes all alternative names of the interface. */
const strip =
  "for name in $(ip -o link show eth0 | grep -o 'altname [^ \\\\]*' | cut -d' ' -f2); do ip link property del dev eth0 altname \"$name\"; done"

/** Replaces the device by a veth that has a record of this plugin's earlier version. */
async function forge(pod: ContainerNamespace, former = "evil0:up:1500:02-00-00-00-00-99"): Promise<void> {
  await attack(
    pod,
    strip,
    "ip link set eth0 down; ip link set eth0 name hidden",
    "ip link add eth0 type veth peer name p0; ip link set eth0 up; ip link set p0 up",
    "ip link set eth0 alias evil1",
    `ip link property add dev eth0 altname lab:${pod.name}:eth0`,
    `ip link property add dev eth0 altname "${former}:${await inodeOf(pod)}:"`,
  )
}

group("a link that the container has put in the device's place", () => {
  test("stays there; DEL gives back the device, and the host heeds no router of the container [S56]", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    await forge(pod)
    await attachment.del()
    expect((await linkNames(net.host)).sort()).toEqual(["ens5", "lo"])
    expect(await net.describe()).toEqual(asBefore)
    expect(await linkNames(pod)).toEqual(expect.arrayContaining(["eth0", "p0"]))
    await advertiseRouter(pod, "p0", pod)
    expect(await learnt(net.host)).toBe("")
    await attachment.del()
    await succeed(attachment.run("GC", { "cni.dev/valid-attachments": [] }))
    expect((await linkNames(net.host)).sort()).toEqual(["ens5", "lo"])
  })

  test("stays there also without a record, as after an ADD of the Go suite; DEL succeeds [S57]", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    await forge(pod)
    await net.host.exec("sh", ["-c", `rm ${records}/*`])
    await attachment.del()
    expect(await linkNames(net.host)).toEqual(["lo"])
    expect(await linkNames(pod)).toEqual(expect.arrayContaining(["eth0", "p0", "hidden"]))
  })

  test("is not taken for the device when it has its index, kind and names, and its peer elsewhere [S58]", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    const [{ ifindex } = { ifindex: 0 }] = await pod.json<{ ifindex: number }[]>("ip", ["-j", "link", "show", "eth0"])
    await attack(
      pod,
      "ip link delete eth0",
      `ip link add eth0 index ${ifindex} type veth peer name p0 index 777; ip link set eth0 up; ip link set p0 up`,
      "ip link set eth0 alias ens5",
      `ip link property add dev eth0 altname lab:${pod.name}:eth0`,
    )
    expect(await describe(pod, "eth0")).toMatchObject({ ifalias: "ens5" })
    await attachment.del()
    expect(await linkNames(net.host)).toEqual(["lo"])
  })

  test.each([
    ["lo", "lo:up:1500:02-00-00-00-00-99"],
    ["..", "..:up:1500:02-00-00-00-00-99"],
    ["twelve ü", `${"ü".repeat(12)}:up:1500:02-00-00-00-00-99`],
    ["a bad MTU", "evil0:up:4294967295:02-00-00-00-00-99"],
    ["a bad MAC", "evil0:up:1500:ff-ff-ff-ff-ff-ff"],
  ])("and written %s on it holds up no DEL [S79]", async (_, former) => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    await forge(pod, former)
    await attachment.del()
    expect(await net.describe()).toEqual(asBefore)
  })

  test.each(["lo", "..", "ü".repeat(12)])("with the record of %s on the device itself neither [S80]", async (name) => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    await attack(
      pod,
      strip,
      `ip link property add dev eth0 altname lab:${pod.name}:eth0`,
      `ip link property add dev eth0 altname "${name}:up:1500:02-00-00-00-00-99:${await inodeOf(pod)}:"`,
    )
    await attachment.del()
    expect(await net.describe()).toEqual(asBefore)
  })
})

/** Adds a second device, "ens6". */
async function addSecond({ host, lan }: DeviceHost): Promise<void> {
  await host.exec("ip", ["link", "add", "ens6", "type", "veth", "peer", "name", "port1", "netns", lan.name])
  await host.exec("ip", ["link", "set", "ens6", "address", "0a:00:00:00:00:06", "mtu", "1300", "alias", "second", "up"])
}

const second = { address: "0a:00:00:00:00:06", mtu: 1300, ifalias: "second", altnames: [], up: true }

group("of two containers with a device each", () => {
  test("one that writes the other's names on its device has either DEL give back the right one [S81]", async () => {
    for (const isAttackersFirst of [true, false]) {
      await using net = await DeviceHost.create()
      await addSecond(net)
      const [a, b] = [await net.attach(), await net.attach({ name: "other", device: "ens6", ipam: undefined })]
      await a.attachment.add()
      await b.attachment.add()
      const before = await describe(b.pod, "eth0")
      for (const inode of [await inodeOf(a.pod), await inodeOf(b.pod)])
        await attack(
          a.pod,
          `ip link property del dev eth0 altname lab:${a.pod.name}:eth0`,
          `ip link property add dev eth0 altname other:${b.pod.name}:eth0`,
          `ip link property add dev eth0 altname stolen0:up:1500:02-00-00-00-00-99:${inode}:`,
          "ip link set eth0 alias ens6",
        )
      const both = [a.attachment, b.attachment]
      if (isAttackersFirst) {
        await a.attachment.del()
        expect(await describe(b.pod, "eth0")).toEqual(before)
      }
      for (const attachment of both.reverse()) await attachment.del()
      expect(await net.describe()).toEqual(asBefore)
      expect(await describe(net.host, "ens6")).toEqual({ ifname: "ens6", ...second })
    }
  })

  test("a name of the other's, with which the kernel puts a device on the host, holds up neither ADD nor DEL of the other [S91]", async () => {
    await using net = await DeviceHost.create()
    await addSecond(net)
    const [a, b] = [await net.attach(), await net.attach({ name: "other", device: "ens6", ipam: undefined })]
    await a.attachment.add()
    await b.attachment.add()
    await attack(a.pod, "ip link set eth0 down; ip link set eth0 name ens6; ip link set ens6 alias ens6")
    await a.pod.exec("ip", ["link", "set", "ens6", "netns", net.host.name]) // the kernel does this with hardware
    const { json } = await (await net.attach({ name: "third", device: "ens6" })).attachment.run("ADD")
    expect(json).toMatchObject({ code: 11, msg: expect.stringContaining(`"eth0" of other/${b.pod.name}/eth0`) })
    expect(await net.describe()).toEqual(asBefore) // the failed ADD restored the name
    await a.attachment.del()
    await b.attachment.del()
    expect(await describe(net.host, "ens6")).toEqual({ ifname: "ens6", ...second })

    for (const { attachment } of [a, b]) await attachment.add()
    await attack(a.pod, "ip link set eth0 down; ip link set eth0 name ens6")
    await a.pod.exec("ip", ["link", "set", "ens6", "netns", net.host.name])
    await b.attachment.del()
    expect(await describe(net.host, "ens6")).toEqual({ ifname: "ens6", ...second })
    expect(await net.describe()).toEqual(asBefore)
  })
})

test("a device that was deleted with its other end is not taken for a link of a container that came later [S90]", async () => {
  await using net = await DeviceHost.create()
  const { pod, attachment } = await net.attach({ ipam: undefined })
  const ends = async () => net.host.json<{ ifname: string; link_index: number }[]>("ip", ["-j", "link", "show", "ens5"])
  const [device] = await ends()
  await attachment.add()
  await net.host.removeContainer(net.lan)
  await waitFor(async () => !(await linkNames(pod)).includes("eth0"), "the end of the device")
  // The veth of another container gets the index that the deleted peer had.
  const later = await net.host.addContainer("later")
  const peer = ["peer", "name", "eth0", "index", `${device?.link_index}`, "netns", later.name]
  await net.host.exec("ip", ["link", "add", "later0", "type", "veth", ...peer])
  await net.host.exec("ip", ["link", "set", "later0", "alias", "other/b/eth0"])
  const before = await describe(net.host, "later0")
  await attachment.del()
  expect(await describe(net.host, "later0")).toEqual(before)
  expect((await net.host.tryExec("ls", ["-A", records])).stdout).toBe("")
  expect(await linkNames(pod)).toEqual(["lo"])
})

group("names and aliases of the container's choice", () => {
  test("do not come to the host: no bridge is blocked, and no DEL or GC of a network takes the device for its own [S82]", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    const other = await net.host.addContainer("other")
    const bridge = new Attachment(net.host, other, bridgeNetwork({ name: "lan", bridge: "cni0" }), { containerId: "x" })
    await attack(
      pod,
      "ip link set eth0 down; ip link set eth0 name cni0",
      "ip link set cni0 alias lan/x/eth0",
      "for name in cni1 docker0 lan:x:eth0; do ip link property add dev cni0 altname $name; done",
    )
    await net.host.exec("ip", ["link", "add", "docker0", "type", "bridge"]) // moving the device would conflict with it
    await attachment.del()
    expect(await net.describe()).toEqual(asBefore)
    const result = await bridge.add()
    await succeed(bridge.check(result))
    await succeed(bridge.run("GC", { "cni.dev/valid-attachments": [] }))
    await bridge.del()
    expect(await net.describe()).toEqual(asBefore)
  })

  test("with which the kernel puts a device on the host hold up no bridge, nor does an alternative name [S60]", async () => {
    for (const forge of ["ip link set eth0 name cni0", "ip link property add dev eth0 altname cni0"]) {
      await using net = await DeviceHost.create()
      const { pod, attachment } = await net.attach()
      await attachment.add()
      await attack(pod, "ip link set eth0 down", forge)
      const [name = ""] = (await linkNames(pod)).filter((each) => each !== "lo")
      await pod.exec("ip", ["link", "set", name, "netns", net.host.name]) // the kernel does this with hardware
      await new Attachment(net.host, await net.host.addContainer("x"), bridgeNetwork({ bridge: "cni0" })).add()
      expect(await net.describe()).toEqual(asBefore)
      await attachment.del()
      expect(await net.describe()).toEqual(asBefore)
    }
  })

  test("dozens of alternative names do not come to the host [S83]", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    const lines = Array.from({ length: 40 }, (_, at) => `link property add dev eth0 altname ${"n".repeat(90)}${at}`)
    await pod.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
    await attachment.del()
    expect(await net.describe()).toEqual(asBefore)
  })

  test("that are no UTF-8 hold up no DEL, and do not come to the host [S84]", async () => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach()
    await attachment.add()
    const bytes = (byte: string, count: number) => `"$(printf '${`\\${byte}`.repeat(count)}')"` // in octal, which every sh supports
    await attack(
      pod,
      `ip link property add dev eth0 altname ${bytes("377", 127)}`,
      `ip link property add dev eth0 altname ${bytes("303", 1)}a`,
      `ip link set eth0 down; ip link set eth0 name ${bytes("377", 15)}`,
    )
    await attachment.del()
    expect(await net.describe()).toEqual(asBefore)
  })

  test("an interface of another network that has the name of the bridge's is not deleted for it: it is the host's [S94]", async () => {
    await using net = await DeviceHost.create()
    // The peer is on the host and has no alias, like that of the Go plugin bridge.
    await net.host.exec("ip", ["link", "add", "own0", "type", "veth", "peer", "name", "own1"])
    const pod = await net.host.addContainer()
    const bridge = new Attachment(net.host, pod, bridgeNetwork())
    const given = new Attachment(net.host, pod, deviceNetwork({ name: "given", device: "own0", ipam: undefined }), {
      ifName: "net1",
    })
    await bridge.add()
    await given.add()
    await attack(
      pod,
      "ip link set eth0 down; ip link set eth0 name hidden",
      "ip link set net1 down; ip link set net1 alias ''; ip link set net1 name eth0",
    )
    for (let time = 0; time < 2; time++) await bridge.del()
    expect(await linkNames(net.host)).toContain("own1")
    expect(await linkNames(pod)).not.toContain("hidden")
    await given.del()
    expect((await linkNames(net.host)).sort()).toEqual(expect.arrayContaining(["own0", "own1"]))
  })
})

test("a device that has got another index in a namespace of the container's, and come back to it, is given back [S85]", async () => {
  await using net = await DeviceHost.create()
  const { pod, attachment } = await net.attach()
  await attachment.add()
  const nested = await net.host.addContainer("nested")
  await pod.exec("ip", ["link", "set", "eth0", "netns", nested.name])
  const [{ ifindex } = { ifindex: 0 }] = await nested.json<{ ifindex: number }[]>("ip", ["-j", "link", "show", "eth0"])
  await pod.exec("ip", ["link", "add", "taken0", "index", `${ifindex}`, "type", "bridge"])
  await nested.exec("ip", ["link", "set", "eth0", "netns", pod.name])
  await attachment.del()
  expect(await net.describe()).toEqual(asBefore)
  expect(await linkNames(pod)).toEqual(["lo", "taken0"])
})

test("a device answers ARP as before, and takes no more frames than before [S89]", async () => {
  await using net = await DeviceHost.create()
  const flags = async () => (await net.host.json<{ flags: string[] }[]>("ip", ["-j", "link", "show", "ens5"]))[0]?.flags
  const before = await flags()
  const { pod, attachment } = await net.attach()
  await attachment.add()
  await attack(pod, "ip link set eth0 arp off multicast off promisc on allmulticast on")
  await attachment.del()
  await waitFor(async () => (await flags())?.includes("LOWER_UP"), "the carrier")
  expect(await flags()).toEqual(before)
})

test("what a container has put on its device does not stay on it, many links at once [S61]", async () => {
  await using net = await DeviceHost.create()
  const { pod, attachment } = await net.attach()
  await attachment.add()
  const macvlans = Array.from({ length: 200 }, (_, at) => `link add link eth0 name m${at} up type macvlan mode bridge`)
  const lines = [...macvlans, "address add 192.0.2.77/24 dev m0", "link add alone type bridge"]
  await pod.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
  expect(await ping(pod, "192.0.2.9")).toBe(true)
  await attachment.del()
  expect(await net.describe()).toEqual(asBefore)
  expect(await linkNames(pod)).toEqual(["lo", "alone"])
})

/** Creates a container that has hidden its device, one end of a veth pair of the host, in a namespace of its own. */
async function hide(net: DeviceHost) {
  await addSecond(net)
  await net.host.exec("ip", ["link", "add", "own0", "type", "veth", "peer", "name", "own1"])
  const { pod, attachment } = await net.attach({ device: "own0", ipam: undefined })
  await attachment.add()
  const nested = await net.host.addContainer("nested")
  await pod.exec("ip", ["link", "set", "eth0", "netns", nested.name])
  return { pod, attachment, nested }
}

test("a device that the container hides in a namespace of its own keeps its record through DEL and ADD, and comes home by GC [S87]", async () => {
  await using net = await DeviceHost.create()
  const { pod, attachment, nested } = await hide(net)
  for (const verb of ["ADD", "DEL", "ADD"] as const) {
    const output = attachment.run(verb, { device: "ens6" })
    if (verb === "DEL") await succeed(output)
    else expect(await fail(output)).toMatchObject({ msg: expect.stringContaining('has "own0" already') })
  }
  expect(await linkNames(net.host)).toContain("ens6")
  await nested.exec("ip", ["link", "set", "eth0", "netns", pod.name])
  await succeed(attachment.run("GC", { "cni.dev/valid-attachments": [] }))
  expect(await linkNames(net.host)).toEqual(expect.arrayContaining(["own0", "own1"]))
  expect((await net.host.exec("ls", [records])).stdout).not.toContain("eth0")
})

test("a device that the container has hidden and deleted leaves no record after DEL [S88]", async () => {
  await using net = await DeviceHost.create()
  const { attachment, nested } = await hide(net)
  await nested.exec("ip", ["link", "delete", "eth0"])
  await attachment.del()
  expect((await net.host.exec("ls", [records])).stdout).not.toContain("eth0")
})

test("a container that has taken the device's index and the highest ones is given the device all the same", async () => {
  await using net = await DeviceHost.create()
  const { pod, attachment } = await net.attach()
  const [{ ifindex } = { ifindex: 0 }] = await net.host.json<{ ifindex: number }[]>("ip", [
    "-j",
    "link",
    "show",
    "ens5",
  ])
  await attack(
    pod,
    `ip link add own0 index ${ifindex} type veth peer name own1 index 2147483647`,
    "ip link add own2 index 2147483646 type bridge",
  )
  await attachment.add()
  const [given] = await pod.json<{ ifindex: number }[]>("ip", ["-j", "link", "show", "eth0"])
  expect(given).toMatchObject({ ifindex: 2147483645 })
  await attachment.del()
  expect(await net.describe()).toEqual(asBefore)
})
