import { emptyRing, readRing } from "../../pkg/flight/mod.ts"
import { createFile, findFile, isErrno, makeDirectories } from "../../pkg/libc/mod.ts"
import { findExposure } from "../../pkg/records/mod.ts"
import { ANNOUNCEMENTS } from "../../pkg/skel/mod.ts"
import { type Owner, ownerComment } from "../../pkg/types/mod.ts"

/** The directory of the ring. */
const DIRECTORY = ANNOUNCEMENTS.slice(0, ANNOUNCEMENTS.lastIndexOf("/"))

/** Makes the ring where it is not yet: from then on ADD and DEL of plugins that can restore are announced. Throws `SyscallError`. */
export function openAnnouncements(): void {
  makeDirectories(DIRECTORY)
  try {
    createFile(ANNOUNCEMENTS, emptyRing())
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error
  }
}

/**
 * Returns the test for attachments of which a DEL was announced last: one that runs, or has failed. A ring that others than root could
 * change says nothing. Throws `SyscallError`.
 */
export function readDeleted(): (owner: Owner) => boolean {
  const lines = findExposure(DIRECTORY) === undefined ? readRing(findFile(ANNOUNCEMENTS) ?? new Uint8Array()) : []
  const verbs = new Map<string, string>()
  for (const { line } of lines ?? []) {
    const { verb, network = "", container: containerId = "", interface: ifName = "" } = line
    verbs.set(ownerComment({ network, containerId, ifName }), verb)
  }
  return (owner) => verbs.get(ownerComment(owner)) === "DEL"
}
