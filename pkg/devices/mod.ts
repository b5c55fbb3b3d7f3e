/**
 * Devices of the host that containers are given and that come back: what they were and whose they are is written on them, in the
 * kernel; and where sysfs has them.
 *
 * @example
 * const link = takeDevice(attaching, device) // for ADD
 * returnDevice(host, { ...call, owner, mayBe, hasReturned }) // for DEL
 * returnOrphans(network, valid) // for GC
 */
export { restoreDevice, takeDevice } from "./move.ts"
export { aliasedFormer, formerName, readRecord } from "./record.ts"
export { findElsewhere, type Returning, returnDevice, returnOrphans } from "./return.ts"
export { auxiliaryDevice, hasDriver, listInterfaces, pciDevice, wouldBeOn } from "./sysfs.ts"
