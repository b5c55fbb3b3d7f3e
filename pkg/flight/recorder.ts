import { FileDescriptor, findFileForWriting, lockWithin, readAt, tryLock, writeAt } from "../libc/mod.ts"
import { encodeLine, type FlightLine } from "./line.ts"
import { encodeHead, FLIGHT_FILE, HEAD_BYTES, readHead, SLOT_BYTES, slotOffset } from "./ring.ts"

/** The timeout for the lock. Other processes hold the lock for microseconds, or forever if they are stopped. */
const PATIENCE_MS = 10

/** The flight recorder's file, open for one line. */
export class FlightRecorder extends FileDescriptor {
  /** Opens the file with one system call. Returns undefined if the recorder is off. Never throws. */
  static override find(path = FLIGHT_FILE): FlightRecorder | undefined {
    const fd = findFileForWriting(path)
    return fd === undefined ? undefined : new FlightRecorder(fd)
  }

  /**
   * Writes a line in place of the oldest one. Returns false, and loses the line, if the lock is not free in time or the
   * file is not a recorder's. Writes the head first. If the process is killed before it writes the line, the slot keeps
   * an older line, and the next call uses another slot.
   */
  record(line: FlightLine): boolean {
    const { fd } = this
    if (!lockWithin(PATIENCE_MS, () => tryLock(fd))) return false
    const head = new Uint8Array(HEAD_BYTES)
    const sequence = readAt(fd, head, 0) === HEAD_BYTES ? readHead(head) : undefined
    if (sequence === undefined) return false // the file is not a flight recorder's
    writeAt(fd, encodeHead(sequence + 1), 0)
    writeAt(fd, encodeLine(line, sequence, SLOT_BYTES), slotOffset(sequence))
    return true
  }
}
