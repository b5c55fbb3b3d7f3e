/** Devices that containers are given and that come back, by `pkg/devices` on a real kernel, judged with `ip`. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test"
import type * as devices from "../../pkg/devices/mod.ts"
import type * as undo from "../../pkg/undo/mod.ts"
import { type ContainerNamespace, HostNamespace, linkNames, type Namespace } from "../lab/mod.ts"
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

/** A device and who has it, for functions that run on the host; see `runOnHost`. */
const onHost = <T>(body: (kit: Kit & Room) => T, on = pod) =>
  runOnHost<T, Room>(host, on, body, { more: ["devices/mod.ts", "undo/mod.ts"] })

async function shown(namespace: Namespace, name: string): Promise<object> {
  const [link] = await namespace.json<Shown[]>("ip", ["-d", "-j", "link", "show", name])
  const { address, mtu, ifalias = "", altnames = [], flags = [] } = link ?? {}
  return { address, mtu, ifalias, altnames, up: flags.includes("UP") }
}

const asBefore = { address: "0a:00:00:00:00:05", mtu: 1400, ifalias: "to the lab", altnames: [], up: true }

const expectAsBefore = async () => expect(await shown(host, "ens5")).toEqual(asBefore)

test("a device is taken with what it was written on it, and comes back as it was, whatever became of it", async () => {
  await onHost(({ host, inside, sandbox, takeDevice, Undo, getLink }) => {
    using undo = new Undo(() => {})
    const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
    const call = { netns: sandbox.path, ifName: "eth0" }
    takeDevice({ call, host, inside, sandbox, owner, undo }, getLink(host, "ens5"))
    undo.keep()
  })
  const { ino } = await Bun.file(pod.path).stat()
  const altnames = ["lab:c1:eth0", `ens5:up:1400:0a-00-00-00-00-05:${ino}:to%20the%20lab`]
  expect(await shown(pod, "eth0")).toEqual({ ...asBefore, ifalias: "ens5", altnames, up: false })
  await pod.exec("ip", ["link", "set", "eth0", "address", "0a:00:00:00:00:77", "mtu", "900", "name", "changed"])
  const elsewhere = await onHost(({ host, sandbox, returnDevice, findElsewhere, NamespaceFile }) => {
    const place = { namespace: NamespaceFile.open(sandbox.path), ifName: "eth0", mayBe: () => false }
    returnDevice(host, { ...place, owner: { network: "lab", containerId: "c2", ifName: "eth0" } })
    const all = [findElsewhere(host, ({ name }) => name === "changed"), findElsewhere(host, () => false)]
    returnDevice(host, { ...place, owner: { network: "lab", containerId: "c1", ifName: "eth0" } })
    return all.map((found) => found && [typeof found.nsid, found.link.name, found.owner])
  })
  expect(elsewhere).toEqual([["number", "changed", "lab/c1/eth0"], null as never])
  expect(await linkNames(pod)).toEqual(["lo"])
  await expectAsBefore()
})

test("an ADD that goes on to fail gives the device back, from the container or from the host", async () => {
  const texts = await onHost(({ host, inside, sandbox, takeDevice, Undo, getLink, setLink, listLinks, Netns }) => {
    const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
    const call = { netns: sandbox.path, ifName: "eth0" }
    const texts: string[] = []
    for (const isOnHost of [false, true]) {
      using undo = new Undo((line) => void texts.push(line))
      const link = takeDevice({ call, host, inside, sandbox, owner, undo }, getLink(host, "ens5"))
      texts.push(link.name, ...undo.changes)
      using home = Netns.own()
      if (isOnHost) setLink(inside, link, { netnsFd: home.fd })
    }
    return [...texts, ...listLinks(inside).map(({ name }) => name)]
  })
  expect(texts).toEqual(["eth0", 'take "ens5"', "eth0", 'take "ens5"', "lo"])
  await expectAsBefore()
})

test("a device that cannot be moved stays as it was, and the error says what was tried", async () => {
  await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
  const text = await onHost(({ host, inside, sandbox, takeDevice, Undo, getLink }) => {
    using undo = new Undo(() => {})
    const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
    try {
      takeDevice({ call: { netns: "NS", ifName: "eth0" }, host, inside, sandbox, owner, undo }, getLink(host, "ens5"))
      return "nothing"
    } catch (error) {
      const { code, message, details } = error as { code: number; message: string; details: string }
      return `${code} ${message}; ${details}`
    }
  })
  expect(text).toStartWith('999 Cannot move "ens5" to "NS" as "eth0"; set ')
  await expectAsBefore()
})

test("of two ADDs that take a device at once the one whose name came first has it, and the other gives it back", async () => {
  const text = await onHost(({ host, inside, sandbox, takeDevice, Undo, getLink, addAltNames }) => {
    using undo = new Undo(() => {})
    const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
    addAltNames(host, getLink(host, "ens5"), ["lab:c2:net1"])
    try {
      const call = { netns: sandbox.path, ifName: "eth0" }
      takeDevice({ call, host, inside, sandbox, owner, undo }, getLink(host, "ens5"))
      return "nothing"
    } catch (error) {
      const { code, message } = error as { code: number; message: string }
      return `${code} ${message}`
    }
  })
  expect(text).toBe('11 Cannot take the device "ens5": lab/c2/net1 takes it at the same time')
  expect(await shown(host, "ens5")).toMatchObject({ address: "0a:00:00:00:00:05", ifalias: "to the lab", up: true })
})

test("while the host has an interface of its name a device stays in the container, usable", async () => {
  const refused = await onHost(({ host, inside, sandbox, takeDevice, returnDevice, Undo, NamespaceFile, ...kit }) => {
    using undo = new Undo(() => {})
    const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
    const call = { netns: sandbox.path, ifName: "eth0" }
    const link = takeDevice({ call, host, inside, sandbox, owner, undo }, kit.getLink(host, "ens5"))
    undo.keep()
    kit.setLink(inside, link, { up: true })
    kit.addLink(host, { kind: "bridge", name: "ens5" })
    try {
      const place = { namespace: NamespaceFile.open(sandbox.path), ifName: "eth0", mayBe: () => false }
      returnDevice(host, { ...place, owner })
      return "nothing"
    } catch (error) {
      const { message, details } = error as { message: string; details: string }
      return `${message}; ${details}`
    }
  })
  expect(refused).toBe(
    'Cannot give back "eth0" as "ens5": the host has an interface of that name; rename that one, and DEL again',
  )
  expect(await shown(pod, "eth0")).toMatchObject({ up: true, ifalias: "ens5" })
})

test("what the Go suite has moved goes by the name in its alias, where it can be the one, and a container has its name free or not", async () => {
  const seen = await onHost(({ host, inside, sandbox, returnDevice, NamespaceFile, ...kit }) => {
    const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
    const move = (alias: string) => {
      const link = kit.getLink(host, "ens5")
      kit.setLink(host, link, { up: false })
      kit.setLink(host, link, { netnsFd: sandbox.fd, name: "eth0", alias })
    }
    const place = { owner, namespace: NamespaceFile.open(sandbox.path), ifName: "eth0" }
    const here = () => kit.findLink(host, "ens5") !== undefined
    const seen: unknown[] = []
    move("no name of an interface")
    returnDevice(host, { ...place, mayBe: () => true })
    seen.push(here())
    kit.setLink(inside, kit.getLink(inside, "eth0"), { alias: "ens5" })
    returnDevice(host, { ...place, mayBe: () => false })
    returnDevice(host, { ...place, ifName: "eth1", mayBe: () => true })
    returnDevice(host, { ...place, namespace: NamespaceFile.open(""), mayBe: () => true })
    seen.push(here())
    returnDevice(host, { ...place, mayBe: ({ mtu }) => mtu === 1400 })
    seen.push(here(), kit.getLink(host, "ens5").attributes.alias ?? "no alias")
    move("ens5")
    kit.addLink(inside, { kind: "bridge", name: "ens5" })
    returnDevice(host, { ...place, mayBe: () => true })
    seen.push(here(), kit.getLink(inside, "ens5").kind)
    kit.setLink(host, kit.getLink(host, "ens5"), { up: true, alias: "to the lab" })
    return seen
  })
  expect(seen).toEqual([false, false, true, "no alias", true, "bridge"])
  await expectAsBefore()
})

test("GC takes what the host has of attachments that are not valid; a virtual device stays in its container", async () => {
  await host.exec("ip", ["link", "set", "far", "alias", "kept"])
  const seen = await onHost(({ host, inside, sandbox, takeDevice, returnOrphans, Undo, assignNsid, Netns, ...kit }) => {
    const names = (route: typeof host) =>
      kit
        .listLinks(route)
        .map(({ name }) => name)
        .sort()
        .join()
    using home = Netns.own()
    assignNsid(host, sandbox.fd)
    for (const [name, containerId] of [
      ["ens5", "c1"],
      ["far", "c2"],
    ] as const) {
      using undo = new Undo(() => {})
      const call = { netns: sandbox.path, ifName: `of-${containerId}` }
      const owner = { network: "lab", containerId, ifName: "eth0" }
      takeDevice({ call, host, inside, sandbox, owner, undo }, kit.getLink(host, name))
      undo.keep()
    }
    returnOrphans("lab", [])
    const seen = [names(inside)]
    for (const name of ["of-c1", "of-c2"]) kit.setLink(inside, kit.getLink(inside, name), { netnsFd: home.fd })
    returnOrphans("other", [])
    seen.push(names(host))
    returnOrphans("lab", [{ network: "lab", containerId: "c2", ifName: "eth0" }])
    return [...seen, names(host), names(inside)]
  })
  expect(seen).toEqual(["lo,of-c1,of-c2", "lo,of-c1,of-c2", "ens5,lo,of-c2", "lo"])
  await expectAsBefore()
})
