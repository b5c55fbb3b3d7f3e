/**
 * Moves devices of the host to containers and back, and finds them in sysfs. Files that only root can read record the
 * identity and former state of each device, because its container can change everything on the device itself.
 *
 * @example
 * using lock = new DeviceRecords().open()
 * const link = takeDevice(attaching, device) // for ADD
 * returnDevice(host, { owner, ...place }) // for DEL
 * returnOrphans(network, valid) // for GC
 */
export { findInside, findRecorded, GivenDevices } from "./find.ts"
export { identityOf, isHardware } from "./identity.ts"
export { type DeviceRecord, DeviceRecords, type KeptRecord } from "./record.ts"
export { restoreAllReturned, restoreReturned, returnDevice, returnOrphans } from "./return.ts"
export { auxiliaryDevice, hasDriver, isBelowParent, listInterfaces, pciDevice } from "./sysfs.ts"
export { takeDevice } from "./take.ts"
export { findReturnedByKernel, renameReturnedByKernel, type Unrecorded } from "./unrecorded.ts"
