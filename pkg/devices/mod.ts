/**
 * Devices of the host that containers are given and that come back: which they are and what they were is written down in files of
 * root's, since all that is on a device is its container's to write; and where sysfs has them.
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
