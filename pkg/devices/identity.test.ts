import { expect, test } from "bun:test"
import { linkKinds } from "../netlink/mod.ts"
import { type KernelLink, linkOf } from "../netlink/testing/links.ts"
import { type Identity, identityOf, isAlike, isHardware, isVouchedFor } from "./identity.ts"

const card: KernelLink = {
  index: 5,
  name: "ens5",
  parentName: "0000:03:00.0",
  parentBus: "pci",
  portName: "p0",
  permanentMac: "0a:00:00:00:00:05",
}
const pair: KernelLink = { index: 5, name: "ens5", kind: "veth", link: 9 }
const nothing = { parent: undefined, bus: undefined, port: undefined, permanentMac: undefined }

test("what a device is, is what the kernel alone can say of it", () => {
  const is = { kind: "", parent: "0000:03:00.0", bus: "pci", port: "p0", permanentMac: "0a:00:00:00:00:05" }
  expect(identityOf(linkOf(card))).toEqual({ ...is, other: undefined, otherNsid: undefined })
  const changed = { ...card, name: "eth0", alias: "ens6", altNames: ["a:b:c"], mac: "0a:00:00:00:00:77", mtu: 900 }
  expect(identityOf(linkOf(changed), { nsid: 3 })).toEqual(identityOf(linkOf(card)))
})

test.each<[string, KernelLink, { nsid?: number; hostNsid?: number }, number | undefined]>([
  ["on the host, of a link there", pair, {}, undefined],
  ["in another namespace, of a link there", { ...pair, linkNetnsId: 4 }, {}, 4],
  ["on the host, of a container's link", { ...pair, linkNetnsId: 7 }, { nsid: 3, hostNsid: 7 }, undefined],
  ["in another namespace, of a container's link", { ...pair, linkNetnsId: 4 }, { nsid: 3, hostNsid: 7 }, 4],
  ["in the container itself", pair, { nsid: 3, hostNsid: 7 }, 3],
  ["in the container itself, where the host has no nsid for itself", pair, { nsid: 3 }, 3],
])("the other end of a pair is %s", (_, link, view, otherNsid) => {
  expect(identityOf(linkOf(link), view)).toEqual({ kind: "veth", ...nothing, other: 9, otherNsid })
})

test("an index that older kernels leave out is the link's own", () => {
  const { link: _, ...same } = { ...pair, linkNetnsId: 4 }
  expect(identityOf(linkOf(same))).toMatchObject({ other: 5, otherNsid: 4 })
})

test("of what has no other end, such as a vxlan, the kernel says its own index when it was moved", () => {
  const vxlan: KernelLink = { index: 5, name: "ens5" }
  const was = identityOf(linkOf(vxlan))
  for (const link of [5, undefined]) {
    const moved = identityOf(linkOf({ ...vxlan, link, linkNetnsId: 7 }), { nsid: 3, hostNsid: 7, isAlone: true })
    expect(isAlike(moved, was)).toBe(true)
  }
  const onAnother = identityOf(linkOf({ ...vxlan, link: 6, linkNetnsId: 7 }), { nsid: 3, hostNsid: 7, isAlone: true })
  expect(isAlike(onAnother, was)).toBe(false)
})

test.each<[string, Partial<Identity>, boolean]>([
  ["a card", { kind: "", parent: "0000:03:00.0", bus: "pci" }, true],
  ["a card of a kind of its own", { kind: "netdevsim", parent: "netdevsim1", bus: "netdevsim" }, true],
  ["a card of a kernel before 5.14", { kind: "", permanentMac: "0a:00:00:00:00:05" }, true],
  ["a link of a modem, whose parent is on no bus", { kind: "wwan", parent: "wwan0" }, false],
  ["a link on a card of InfiniBand", { kind: "ipoib", parent: "0000:03:00.0", bus: "pci", other: 5 }, false],
  ["a VLAN, which has its parent's MAC", { kind: "vlan", permanentMac: "0a:00:00:00:00:05", other: 5 }, false],
  ["a dummy", { kind: "dummy" }, false],
  ["what the kernel says nothing of", { kind: "" }, false],
])("%s: hardware or not", (_, is, hardware) => {
  expect(isHardware({ kind: "", ...is })).toBe(hardware)
})

test("a container can be at the other end of what is neither hardware nor a dummy, nor has a known end", () => {
  const vouched = [{ kind: "tun" }, { kind: "dummy" }, { kind: "veth", other: 5 }, { kind: "", parent: "a", bus: "b" }]
  expect(vouched.map(isVouchedFor)).toEqual([false, true, true, true])
})

test.each<[keyof Identity, string | number]>([
  ["kind", "dummy"],
  ["parent", "0000:04:00.0"],
  ["bus", "virtio"],
  ["port", "p1"],
  ["vlan", 20],
  ["other", 8],
  ["otherNsid", 5],
])("two that differ in %s are not alike", (key, value) => {
  const is = identityOf(linkOf({ ...pair, ...card, kind: "veth", linkNetnsId: 4 }))
  expect(isAlike(is, { ...is, permanentMac: "0a:00:00:00:00:06" })).toBe(true) // the permanent MAC of a virtual function may change
  expect(isAlike(is, { ...is, [key]: value })).toBe(false)
})

test("VLANs of one parent are told by their IDs", () => {
  const vlan = (id: number) => identityOf(linkOf({ ...pair, kind: "vlan", data: linkKinds.vlan.encode({ id }) }))
  expect(vlan(10).vlan).toBe(10)
  expect([isAlike(vlan(10), vlan(10)), isAlike(vlan(10), vlan(20))]).toEqual([true, false])
})

test("where the kernel says no parent, cards are told by the MAC that they came with", () => {
  const of = (permanentMac: string) => identityOf(linkOf({ index: 5, name: "ens5", permanentMac }))
  const first = of("0a:00:00:00:00:05")
  expect([isAlike(first, of("0a:00:00:00:00:05")), isAlike(first, of("0a:00:00:00:00:06"))]).toEqual([true, false])
})
