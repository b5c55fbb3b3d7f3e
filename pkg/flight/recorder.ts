import { FileDescriptor, findFileForWriting, lockWithin, readAt, tryLock, writeAt } from "../libc/mod.ts"
import { encodeLine, type FlightLine } from "./line.ts"
import { encodeHead, FLIGHT_FILE, HEAD_BYTES, readHead, SLOT_BYTES, slotOffset } from "./ring.ts"

/** The time that a line waits for the lock: others hold it for microseconds, or forever if they are stopped. */
const PATIENCE_MS = 10

/** The ring, opened for one line. */
export class FlightRecorder extends FileDescriptor {
  /** Returns undefined if the recorder is off: one system call. Never throws. */
  static override find(path = FLIGHT_FILE): FlightRecorder | undefined {
    const fd = findFileForWriting(path)
    return fd === undefined ? undefined : new FlightRecorder(fd)
  }

  /**
   * Writes one line in place of the oldest. Returns whether it could: a line is lost rather than a caller delayed. The
   * head is written first, so a process that is killed in between leaves an older line in the slot, and the next one
   * uses another slot.
   */
  record(line: FlightLine): boolean {
    const { fd } = this
    if (!lockWithin(PATIENCE_MS, () => tryLock(fd))) return false
    const head = new Uint8Array(HEAD_BYTES)
    const sequence = readAt(fd, head, 0) === HEAD_BYTES ? readHead(head) : undefined
    if (sequence === undefined) return false // something else has this name
    writeAt(fd, encodeHead(sequence + 1), 0)
    writeAt(fd, encodeLine(line, sequence, SLOT_BYTES), slotOffset(sequence))
    return true
  }
}
