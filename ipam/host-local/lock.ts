import { monotonicMs } from "../../pkg/engine/mod.ts"
import {
  type Fd,
  FileDescriptor,
  Open,
  Poll,
  poll,
  read,
  readTextFile,
  sleep,
  stat,
  statOpen,
  tryLock,
  unlessErrno,
  watchClosing,
} from "../../pkg/libc/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import { ifPresent } from "./files.ts"

/** The default time to wait for the lock: half a minute is a hundred times the time of a holder. */
const defaultDeadlineMs = 30_000

/** The interval of attempts without a wake-up: upstream unlocks some time before it closes the file. */
const lookAgainMs = 20

/** The locks that this process has waited for in vain. */
const inVain = new Set<string>()

/**
 * Takes the store's lock, the same flock(2) on the same file as upstream's, and holds it until it is disposed. The kernel
 * frees it when the holder dies. `undefined` when the store's directory does not exist.
 *
 * Waits until a holder closes the file (inotify), not by sleeping, and not for ever: throws code 11 that names the
 * holder's process and program. A process waits in vain once: what undoes its ADD only looks.
 */
export function lockStore(directory: string, deadlineMs = defaultDeadlineMs): FileDescriptor | undefined {
  const path = `${directory}/lock`
  const patienceMs = inVain.has(path) ? 0 : deadlineMs
  const end = monotonicMs() + patienceMs
  for (;;) {
    const file = ifPresent(() => FileDescriptor.open(path, Open.ReadOnly | Open.Create, 0o750))
    if (!file) return undefined
    try {
      if (!tryLock(file.fd)) wait(file.fd, path, end, patienceMs)
      inVain.delete(path)
      if (isStill(path, file.fd)) return file
    } catch (error) {
      file[Symbol.dispose]()
      throw error
    }
    file[Symbol.dispose]() // the lock file was removed: processes that come now lock another one
  }
}

/** How long STATUS waits for the lock: many times what all calls of a burst hold it for. */
const statusDeadlineMs = 5_000

/** Throws code 11 that names the holder's process when the store's lock stays held: an ADD would wait for it in vain. */
export function requireLockable(directory: string, deadlineMs = statusDeadlineMs): void {
  lockStore(directory, deadlineMs)?.[Symbol.dispose]()
}

function wait(fd: Fd, path: string, end: number, deadlineMs: number): void {
  using closing = tryWatch(path)
  while (!tryLock(fd)) {
    const restMs = end - monotonicMs()
    if (restMs <= 0) {
      inVain.add(path)
      throw new CniError(
        Code.TryAgainLater,
        `Cannot lock "${path}": held by ${holderOf(path)}, waited for ${deadlineMs / 1000} s`,
        { details: "see what that process waits for, or end it: the lock goes with it" },
      )
    }
    if (closing) {
      if (poll(closing.fd, Poll.In, Math.min(restMs, lookAgainMs))) read(closing.fd, new Uint8Array(4096))
    } else sleep(Math.min(restMs, 1))
  }
}

/** A user has a limited number of watches: without one the lock is looked at every millisecond. */
function tryWatch(path: string): FileDescriptor | undefined {
  return unlessErrno(() => watchClosing(path), "EMFILE", "ENFILE", "ENOSPC", "ENOENT")
}

/** Whether the path still leads to the file that we have open. */
function isStill(path: string, fd: Fd): boolean {
  const [named, opened] = [ifPresent(() => stat(path)), statOpen(fd)]
  return named?.inode === opened.inode && named.device === opened.device
}

/** The holder of the lock, from /proc/locks: "process 4711 (host-local)". */
function holderOf(path: string): string {
  try {
    const { inode } = stat(path)
    // "1: FLOCK  ADVISORY  WRITE 4711 fe:00:137 0 EOF": device and inode; a "->" marks those who wait.
    const line = readTextFile("/proc/locks")
      .split("\n")
      .find((each) => each.includes(" FLOCK ") && !each.includes("->") && each.includes(`:${inode} `))
    const pid = line?.trim().split(/\s+/)[4]
    if (pid === undefined) return "an unknown process"
    if (pid === "0") return "a process of another PID namespace"
    return `process ${pid} (${readTextFile(`/proc/${pid}/comm`).trim()})`
  } catch {
    return "an unknown process"
  }
}
