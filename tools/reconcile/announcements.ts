import {
  emptyRing,
  FLIGHT_HEAD_BYTES,
  type Numbered,
  readHead,
  readRing,
  readSlot,
  SLOT_BYTES,
  slotOffset,
} from "../../pkg/flight/mod.ts"
import {
  createFile,
  type Fd,
  FileDescriptor,
  findFile,
  isErrno,
  lockWithin,
  makeDirectories,
  readAt,
  tryLockShared,
} from "../../pkg/libc/mod.ts"
import { findExposure } from "../../pkg/records/mod.ts"
import { ANNOUNCEMENTS } from "../../pkg/skel/mod.ts"
import { type Owner, ownerComment } from "../../pkg/types/mod.ts"

/** The directory of the ring. */
const DIRECTORY = ANNOUNCEMENTS.slice(0, ANNOUNCEMENTS.lastIndexOf("/"))
/** So many new lines are read one by one; for more of them the whole ring is. */
const FEW = 16
/** How long to wait for a line that is just being written. */
const PATIENCE_MS = 5

/** Makes the ring where it is not yet: from then on ADD and DEL of plugins that can restore are announced. Throws `SyscallError`. */
export function openAnnouncements(): void {
  makeDirectories(DIRECTORY)
  try {
    createFile(ANNOUNCEMENTS, emptyRing())
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error
  }
}

/** What ADD and DEL have announced, as far as the ring has it. A ring that others than root could change says nothing. */
export class Announcements {
  #next = 0
  readonly #verbs = new Map<string, string>()

  /** Reads what is new. Throws `SyscallError`. */
  read(): void {
    if (findExposure(DIRECTORY) !== undefined) return
    using ring = FileDescriptor.find(ANNOUNCEMENTS)
    if (!ring) return
    lockWithin(PATIENCE_MS, () => tryLockShared(ring.fd))
    const head = new Uint8Array(FLIGHT_HEAD_BYTES)
    const next = (readAt(ring.fd, head, 0) === head.length ? readHead(head) : undefined) ?? 0
    if (next < this.#next) this.#next = 0 // it was made anew
    const isMuch = next - this.#next > FEW
    const lines = isMuch ? (readRing(findFile(ANNOUNCEMENTS) ?? new Uint8Array()) ?? []) : this.#few(ring.fd, next)
    for (const { sequence, line } of lines) {
      if (sequence < this.#next) continue
      const { verb, network = "", container: containerId = "", interface: ifName = "" } = line
      const owner = ownerComment({ network, containerId, ifName })
      this.#verbs.delete(owner) // the oldest stand first
      this.#verbs.set(owner, verb)
    }
    this.#next = next
    for (const owner of this.#verbs.keys()) if (this.#verbs.size > KEPT) this.#verbs.delete(owner)
  }

  #few(fd: Fd, next: number): Numbered[] {
    const lines: Numbered[] = []
    for (let sequence = this.#next; sequence < next; sequence++) {
      const slot = new Uint8Array(SLOT_BYTES)
      readAt(fd, slot, slotOffset(sequence))
      const line = readSlot(slot)
      if (line) lines.push(line)
    }
    return lines
  }

  /** The verb that was announced last for an owner's comment. */
  verbOf(comment: string): string | undefined {
    return this.#verbs.get(comment)
  }

  /** Whether a DEL was announced last: one that runs, or has failed. */
  isDeleted(owner: Owner): boolean {
    return this.#verbs.get(ownerComment(owner)) === "DEL"
  }
}

/** Owners of which the last verb is kept. */
const KEPT = 2048

/** Returns the test for attachments of which a DEL was announced last. Throws `SyscallError`. */
export function readDeleted(): (owner: Owner) => boolean {
  const announcements = new Announcements()
  announcements.read()
  return (owner) => announcements.isDeleted(owner)
}
