import { readDirectory, stat, unlessErrno } from "../libc/mod.ts"

/** Returns the sysfs directory of a device on the PCI bus. */
export function pciDevice(id: string): string {
  return `/sys/bus/pci/devices/${id}`
}

/** Returns the sysfs directory of a device on the auxiliary bus: a part of another device, such as a subfunction. */
export function auxiliaryDevice(id: string): string {
  return `/sys/bus/auxiliary/devices/${id}`
}

/** Reports whether a PCI device has one of these drivers. */
export function hasDriver(id: string, drivers: readonly string[]): boolean {
  return drivers.some((driver) => tolerateMissing(() => stat(`/sys/bus/pci/drivers/${driver}/${id}`)))
}

/** Returns the names of a device's interfaces in this namespace in order, also those of a virtio device below it. */
export function listInterfaces(directory: string): string[] {
  return withVirtio(directory).flatMap((path) => list(`${path}/net`))
}

/** Reports whether an interface with the kernel's parent name `parentName`, in any namespace, belongs to a device. */
export function isBelowParent(directory: string, parentName: string | undefined): boolean {
  return withVirtio(directory).some((path) => path.slice(path.lastIndexOf("/") + 1) === parentName)
}

function withVirtio(directory: string): string[] {
  const virtio = list(directory).filter((name) => name.startsWith("virtio"))
  return [directory, ...virtio.map((name) => `${directory}/${name}`)]
}

function list(directory: string): string[] {
  return (tolerateMissing(() => readDirectory(directory)) ?? []).sort()
}

function tolerateMissing<T>(read: () => T): T | undefined {
  return unlessErrno(read, "ENOENT", "ENOTDIR")
}
