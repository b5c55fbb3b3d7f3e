/**
 * Files with data of attachments that DEL needs and the kernel cannot store.
 *
 * @example
 * const records = new Records("/run/cni/tuning", "backup")
 * records.write(recordName(ownerOf(call)), bytes)
 */
export { beginDeletion, DELETIONS, endDeletion, holdDeletions, readDeletions, sweepDeletions } from "./deletions.ts"
export { findExposure, requireOwn } from "./exposure.ts"
export { draftOf, isRecordOf, ownerOfRecord, Records, recordName, removeIfThere } from "./records.ts"
