/** Tests how `pkg/devices` moves devices to containers and back on a real kernel; `ip` shows the results. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test"
import type * as devices from "../../../pkg/devices/mod.ts"
import type * as undo from "../../../pkg/undo/mod.ts"
import { type ContainerNamespace, HostNamespace, linkNames, type Namespace } from "../../lab/mod.ts"
import { type Kit, runOnHost } from "./rooms.ts"

interface Shown {
  ifname: string
  address: string
  mtu: number
  flags: string[]
  ifalias?: string
  altnames?: string[]
}

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create("devices")
})
beforeEach(async () => {
  pod = await host.addContainer()
  await host.exec("ip", ["link", "add", "ens5", "mtu", "1400", "type", "veth", "peer", "name", "far"])
  await host.exec("ip", ["link", "set", "ens5", "address", "0a:00:00:00:00:05", "alias", "to the lab", "up"])
})
afterEach(async () => {
  for (const name of ["far", "ens5"]) await host.tryExec("ip", ["link", "delete", name])
})
afterAll(() => host[Symbol.asyncDispose]())

type Room = typeof devices & typeof undo

/** Runs `body` like `runOnHost`, with `pkg/devices` and `pkg/undo`. */
const onHost = <T, Given extends object>(body: (kit: Kit & Room & Given) => T, on = pod, given?: Given) =>
  runOnHost<T, Room & Given>(host, on, body, { more: ["devices/mod.ts", "undo/mod.ts"], given: given ?? {} })

async function shown(namespace: Namespace, name: string): Promise<object> {
  const [link] = await namespace.json<Shown[]>("ip", ["-d", "-j", "link", "show", name])
  const { address, mtu, ifalias = "", altnames = [], flags = [] } = link ?? {}
  return { address, mtu, ifalias, altnames, up: flags.includes("UP") }
}

const asBefore = { address: "0a:00:00:00:00:05", mtu: 1400, ifalias: "to the lab", altnames: [], up: true }

const expectAsBefore = async () => expect(await shown(host, "ens5")).toEqual(asBefore)

test("what a device was is in a file while a container has it, and it comes back as it was, also when the container has changed it", async () => {
  await onHost(({ host, inside, sandbox, takeDevice, DeviceRecords, Undo, getLink }) => {
    using undo = new Undo(() => {})
    using _lock = new DeviceRecords().open()
    const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
    takeDevice(
      { call: { netns: sandbox.path, ifName: "eth0" }, host, inside, sandbox, owner, undo },
      getLink(host, "ens5"),
    )
    undo.keep()
  })
  expect(await shown(pod, "eth0")).toEqual({ ...asBefore, ifalias: "ens5", altnames: ["lab:c1:eth0"], up: false })
  const [link] = await pod.json<{ ifindex: number; link_index: number }[]>("ip", ["-j", "link", "show", "eth0"])
  const written = JSON.parse((await host.exec("cat", ["/run/cni/host-device/lab:c1:eth0.json"])).stdout)
  const { ino } = await Bun.file(pod.path).stat()
  expect(written).toMatchObject({
    former: { name: "ens5", alias: "to the lab", up: true, mtu: 1400, mac: "0a:00:00:00:00:05", altNames: [] },
    device: { kind: "veth", other: link?.link_index },
    netns: String(ino),
    index: link?.ifindex,
  })
  await pod.exec("ip", ["link", "set", "eth0", "address", "0a:00:00:00:00:77", "mtu", "900", "name", "changed"])
  await giveBack("c2")
  expect(await linkNames(pod)).toEqual(["lo", "changed"])
  await giveBack("c1")
  expect(await linkNames(pod)).toEqual(["lo"])
  expect((await host.exec("ls", ["/run/cni/host-device"])).stdout).toBe("")
  await expectAsBefore()
})

const giveBack = (containerId: string) =>
  onHost(
    ({ host, sandbox, returnDevice, NamespaceFile, containerId }) => {
      const owner = { network: "lab", containerId, ifName: "eth0" }
      const place = { namespace: NamespaceFile.open(sandbox.path), ifName: "eth0", log: () => {}, name: undefined }
      returnDevice(host, { owner, ...place, mayBe: () => true })
    },
    pod,
    { containerId },
  )

test("in a container that has its index a device gets another, which is in its file", async () => {
  const [{ ifindex } = { ifindex: 0 }] = await host.json<{ ifindex: number }[]>("ip", ["-j", "link", "show", "ens5"])
  await pod.exec("ip", ["link", "add", "taken", "index", String(ifindex), "type", "bridge"])
  const indexes = await onHost(({ host, inside, sandbox, takeDevice, DeviceRecords, Undo, getLink }) => {
    using undo = new Undo(() => {})
    using _lock = new DeviceRecords().open()
    const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
    const call = { netns: sandbox.path, ifName: "eth0" }
    const { index } = takeDevice({ call, host, inside, sandbox, owner, undo }, getLink(host, "ens5"))
    undo.keep()
    return [index, new DeviceRecords().read(owner)?.index] as unknown[]
  })
  expect(indexes).toEqual([ifindex + 1, ifindex + 1])
  await giveBack("c1")
  await expectAsBefore()
})

test("an ADD that goes on to fail gives the device back, from the container or from the host", async () => {
  const texts = await onHost(({ host, inside, sandbox, takeDevice, DeviceRecords, Undo, getLink, setLink, ...kit }) => {
    const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
    const call = { netns: sandbox.path, ifName: "eth0" }
    const texts: string[] = []
    for (const isOnHost of [false, true]) {
      using undo = new Undo((line) => void texts.push(line))
      {
        using _lock = new DeviceRecords().open()
        const link = takeDevice({ call, host, inside, sandbox, owner, undo }, getLink(host, "ens5"))
        texts.push(link.name, ...undo.changes)
      }
      using home = kit.Netns.own()
      if (isOnHost) setLink(inside, getLink(inside, "eth0"), { netnsFd: home.fd })
    }
    return [...texts, ...kit.listLinks(inside).map(({ name }) => name)]
  })
  expect(texts).toEqual(["eth0", 'take "ens5"', "eth0", 'take "ens5"', "lo"])
  await expectAsBefore()
})

test("a device that cannot be moved stays as it was, and the error says what was tried", async () => {
  await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
  const text = await onHost(({ host, inside, sandbox, takeDevice, DeviceRecords, Undo, getLink }) => {
    using undo = new Undo(() => {})
    using _lock = new DeviceRecords().open()
    const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
    try {
      takeDevice({ call: { netns: "NS", ifName: "eth0" }, host, inside, sandbox, owner, undo }, getLink(host, "ens5"))
      return "nothing"
    } catch (error) {
      const { code, message, details } = error as { code: number; message: string; details: string }
      return `${code} ${message}; ${details}`
    } finally {
      _lock?.[Symbol.dispose]()
    }
  })
  expect(text).toStartWith('999 Cannot move "ens5" to "NS" as "eth0"; set ')
  await expectAsBefore()
})

test("an attachment whose device is in its container is given no second one", async () => {
  const text = await onHost(({ host, inside, sandbox, takeDevice, DeviceRecords, Undo, getLink, setLink }) => {
    using undo = new Undo(() => {})
    using _lock = new DeviceRecords().open()
    const taking = { host, inside, sandbox, owner: { network: "lab", containerId: "c1", ifName: "eth0" }, undo }
    const link = takeDevice({ ...taking, call: { netns: "NS", ifName: "eth0" } }, getLink(host, "ens5"))
    undo.keep()
    setLink(inside, link, { name: "other" })
    try {
      takeDevice({ ...taking, call: { netns: "NS", ifName: "eth0" } }, getLink(host, "far"))
      return "nothing"
    } catch (error) {
      return (error as Error).message
    }
  })
  expect(text).toBe('Cannot take the device "far": lab/c1/eth0 has "ens5" already')
  await giveBack("c1")
  await expectAsBefore()
})

test("GC takes what belongs to attachments that are not valid, out of containers and on the host", async () => {
  await host.exec("ip", ["link", "add", "ens6", "type", "veth", "peer", "name", "other"])
  const seen = await onHost(({ host, inside, sandbox, takeDevice, returnOrphans, DeviceRecords, Undo, ...kit }) => {
    const owners = ["c1", "c2"].map((containerId) => ({ network: "lab", containerId, ifName: "eth0" }))
    const names = (route: typeof host) =>
      kit
        .listLinks(route)
        .map(({ name }) => name)
        .sort()
        .join()
    using home = kit.Netns.own()
    for (const [at, name] of ["ens5", "ens6"].entries()) {
      using undo = new Undo(() => {})
      using _lock = new DeviceRecords().open()
      const [owner = { network: "", containerId: "", ifName: "" }] = owners.slice(at)
      const call = { netns: sandbox.path, ifName: `of-${owner.containerId}` }
      takeDevice({ call, host, inside, sandbox, owner, undo }, kit.getLink(host, name))
      undo.keep()
    }
    returnOrphans("other", [])
    returnOrphans("lab", owners)
    const seen = [names(inside)]
    kit.setLink(inside, kit.getLink(inside, "of-c1"), { netnsFd: home.fd })
    returnOrphans("lab", owners.slice(1))
    seen.push(names(host), names(inside))
    returnOrphans("lab", [])
    return [...seen, names(host), names(inside)]
  })
  const others = "far,lo,other"
  expect(seen).toEqual(["lo,of-c1,of-c2", `ens5,${others}`, "lo,of-c2", `ens5,ens6,${others}`, "lo"])
  await host.exec("ip", ["link", "delete", "ens6"])
  await expectAsBefore()
})
