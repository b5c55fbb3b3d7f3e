/**
 * Files with what DEL has to know of an attachment and the kernel cannot tell.
 *
 * @example
 * const records = new Records("/run/cni/tuning", "backup")
 * records.write(recordName(ownerOf(call)), bytes)
 */
export { beginDeletion, DELETIONS, endDeletion, holdDeletions, readDeletions, sweepDeletions } from "./deletions.ts"
export { findExposure, requireOwn } from "./exposure.ts"
export { draftOf, isRecordOf, ownerOfRecord, Records, recordName, removeIfThere } from "./records.ts"
