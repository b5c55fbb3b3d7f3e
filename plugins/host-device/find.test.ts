import { expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { DeviceRecord } from "../../pkg/devices/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../../pkg/netlink/testing/links.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import type { Selector } from "./config.ts"
import { findDevice, isSelected, isSelectedRecord, isUserspace, mayBeSelected, requireDevice } from "./find.ts"

const mac = "0a:00:00:00:00:05"
const byName: Selector = { by: "name", key: "device", text: "ens5" }
const byMac: Selector = { by: "mac", key: "hwaddr", text: mac }
const byPath = (...directories: string[]): Selector => ({ by: "path", key: "pciBusID", text: "there", directories })

const device: KernelLink = { index: 5, name: "ens5", mac }
/** The device after the Go suite has moved it into a container. */
const inContainer: KernelLink = { index: 7, name: "eth0", alias: "ens5" }
/** A device with another name and with a MAC that no selector names. */
const other: KernelLink = { index: 8, name: "ens6", mac: "0a:00:00:00:00:06" }

const hostWith = (...links: KernelLink[]) => new LinksKernel(links).socket

test.each<[string, KernelLink]>([
  ["by that name", device],
  [
    "that has it as the Go suite's alias, and is hardware",
    { ...other, alias: "ens5", parentName: "0000:03:00.0", parentBus: "pci" },
  ],
])("a device that is chosen by its name is the one %s", (_, link) => {
  expect(findDevice(hostWith(other, link), byName)?.name).toBe(link.name)
  expect(findDevice(hostWith(other), byName)).toBeUndefined()
})

test("an alternative name or an alias of a link that a container may have made chooses none", () => {
  for (const names of [{ altNames: ["lab:c1:eth0", "ens5:up:1400::9:"] }, { alias: "ens5" }])
    expect(findDevice(hostWith({ ...other, ...names }), byName)).toBeUndefined()
})

test("of two that have the name as their alias neither is chosen", () => {
  const hardware = { alias: "ens5", parentBus: "pci" }
  const links = [
    { ...other, ...hardware, parentName: "0000:03:00.0" },
    { ...other, ...hardware, index: 9, name: "ens7", parentName: "0000:04:00.0" },
  ]
  expect(findDevice(hostWith(...links), byName)).toBeUndefined()
})

test("of several links with the MAC it is the one whose hardware came with it, or else the first", () => {
  const vlan: KernelLink = { index: 4, name: "ens5.7", mac }
  const found = (...links: KernelLink[]) => findDevice(hostWith(other, ...links), byMac)?.name
  expect(found(vlan, { ...device, permanentMac: mac })).toBe("ens5")
  expect(found(vlan, device)).toBe("ens5.7")
  expect(found({ ...other, index: 9, name: "ens9", permanentMac: mac })).toBe("ens9")
  expect(found()).toBeUndefined()
})

test("by its path it is the first interface that lies in one of the directories, a virtio device's too", () => {
  const root = mkdtempSync(join(tmpdir(), "host-device-"))
  try {
    for (const path of ["pci/virtio1/net/ens5", "auxiliary/net/ens6"]) mkdirSync(join(root, path), { recursive: true })
    const found = (...names: string[]) =>
      findDevice(hostWith(other, device), byPath(...names.map((name) => join(root, name))))?.name
    expect([found("none", "pci"), found("none", "auxiliary"), found("none"), found()]).toEqual([
      "ens5",
      "ens6",
      undefined,
      undefined,
    ])
  } finally {
    rmSync(root, { recursive: true })
  }
})

test("a device that the host has, and that is not a port, is taken", () => {
  expect(requireDevice(hostWith(other, device), byName)).toMatchObject({ index: 5, name: "ens5" })
})

test.each<[string, KernelLink[], Selector, object]>([
  [
    "is nowhere",
    [other],
    byName,
    { code: 7, message: 'Cannot find the device "ens5"', details: '"device" selects it' },
  ],
  [
    "is a port",
    [
      { index: 3, name: "bond0" },
      { ...device, master: 3 },
    ],
    byMac,
    { code: 7, message: `Cannot take the device "${mac}": it is a port of "bond0"`, details: '"hwaddr" selects it' },
  ],
  [
    "is the loopback interface",
    [{ index: 1, name: "lo", flags: 0x9 }], // IFF_UP and IFF_LOOPBACK, <linux/if.h>
    { by: "name", key: "device", text: "lo" },
    { code: 7, message: expect.stringContaining('the device "lo": it is the loop'), details: '"device" selects it' },
  ],
])("a device that %s is refused by the key that asks for it", (_, links, selector, refusal) => {
  expect(refusalOf(() => requireDevice(hostWith(...links), selector))).toMatchObject(refusal)
})

test("a device that looks like one of the Go suite's in a container is not to be had, for now", () => {
  // The host knows one namespace, with nsid 4: NETNSA_NSID, <linux/net_namespace.h>.
  const answers = { 90: [Uint8Array.of(0, 0, 0, 0, 8, 0, 1, 0, 4, 0, 0, 0)] }
  const host = new LinksKernel([other, { ...inContainer, parentName: "0000:03:00.0" }], { answers })
  expect(refusalOf(() => requireDevice(host.socket, byPath("/sys/bus/pci/devices/0000:03:00.0")))).toMatchObject({
    code: 11,
    message: 'Cannot take the device "there": it is "eth0" of another namespace',
    details: '"pciBusID" selects it; nsid 4 of "ip netns list-id"',
  })
})

test.each<[string, Selector, KernelLink, boolean]>([
  ["the name in its alias", byName, inContainer, true],
  ["its present name alone", byName, device, false],
  ["its MAC", byMac, device, true],
  ["the MAC of its hardware", byMac, { ...other, permanentMac: mac }, true],
  ["another MAC", byMac, other, false],
  [
    "its place",
    byPath("/sys/bus/pci/devices/0000:04:00.0", "/x/0000:03:00.0"),
    { ...other, parentName: "0000:03:00.0" },
    true,
  ],
  ["another place", byPath("/sys/bus/pci/devices/0000:04:00.0"), { ...other, parentName: "0000:03:00.0" }, false],
  ["no place", byPath("/sys/bus/pci/devices/0000:04:00.0"), other, false],
])("whether a link is the device is told by %s", (_, selector, link, isIt) => {
  expect(isSelected(selector, linkOf(link))).toBe(isIt)
  // If the link's attributes do not decide, the link may be the device.
  expect(mayBeSelected(selector, linkOf(link))).toBe(isIt || selector.by === "path")
  expect(mayBeSelected(undefined, linkOf(link))).toBe(true)
})

const record = {
  device: { kind: "", parent: "0000:03:00.0", bus: "pci", permanentMac: "0a:00:00:00:00:77" },
  former: { name: "ens5", alias: "", up: true, options: 0x1000, mtu: 1500, mac, altNames: ["enp3s0"] },
} as unknown as DeviceRecord

test.each<[Selector, boolean]>([
  [byName, true],
  [{ ...byName, text: "enp3s0" }, true],
  [{ ...byName, text: "ens6" }, false],
  [byMac, true],
  [{ ...byMac, text: "0a:00:00:00:00:77" }, true],
  [{ ...byMac, text: "0a:00:00:00:00:06" }, false],
  [byPath("/sys/bus/pci/devices/0000:04:00.0", "/x/0000:03:00.0"), true],
  [byPath("/sys/bus/pci/devices/0000:04:00.0"), false],
])("whether the device of a record is that of %j is told by what it was on the host", (selector, isIt) => {
  expect(isSelectedRecord(selector, record)).toBe(isIt)
})

test("of a kernel that does not say where a device is it may be any", () => {
  const unknown = { ...record, device: { kind: "" } }
  expect(isSelectedRecord(byPath("/sys/bus/pci/devices/0000:04:00.0"), unknown)).toBe(true)
})

test("a device that is on no bus is not run from user space", () => {
  expect(isUserspace({ pci: undefined } as never)).toBe(false)
  expect(isUserspace({ pci: "ffff:ff:1f.7" } as never)).toBe(false)
})
