import { afterAll, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { auxiliaryDevice, hasDriver, isBelowParent, listInterfaces, pciDevice } from "./sysfs.ts"

const directory = mkdtempSync(join(tmpdir(), "cni-sysfs-"))
afterAll(() => rmSync(directory, { recursive: true }))

function device(name: string, ...inside: readonly string[]): string {
  const path = join(directory, name)
  for (const each of inside) mkdirSync(join(path, each), { recursive: true })
  return path
}

test("where the kernel has devices, Documentation/ABI/testing/sysfs-bus-pci and sysfs-bus-auxiliary", () => {
  expect(pciDevice("0000:03:00.0")).toBe("/sys/bus/pci/devices/0000:03:00.0")
  expect(auxiliaryDevice("mlx5_core.sf.4")).toBe("/sys/bus/auxiliary/devices/mlx5_core.sf.4")
})

test("the interfaces of a device are in the order of their names, those of virtio devices in it after its own", () => {
  const path = device("nic", "net/ens9", "net/ens5", "virtio1/net/eth1", "virtio0/net/eth7", "other/net/eth8")
  expect(listInterfaces(path)).toEqual(["ens5", "ens9", "eth7", "eth1"])
})

test("a device without interfaces, one that no longer exists, and what is not a directory have none", () => {
  writeFileSync(join(directory, "file"), "")
  for (const path of [device("bare", "power"), join(directory, "absent"), join(directory, "file")])
    expect(listInterfaces(path)).toEqual([])
})

test("an interface is on a device that the kernel calls by the last part of its path, or on a virtio device in it", () => {
  const path = device("0000:03:00.0", "virtio1", "other")
  expect(["0000:03:00.0", "virtio1", "virtio2", "other", undefined].map((name) => isBelowParent(path, name))).toEqual([
    ...[true, true, false, false, false],
  ])
})

test("a driver that the machine does not have is not the device's", () => {
  expect(hasDriver("0000:ff:1f.7", ["no-such-driver", "vfio-pci"])).toBe(false)
})
