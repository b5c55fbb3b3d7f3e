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

/** The default timeout for the lock. A process has the lock for a hundredth of this time. */
const defaultDeadlineMs = 30_000

/** The interval of attempts without an event, because upstream unlocks some time before it closes the file. */
const lookAgainMs = 20

/** The paths of locks for which this process has timed out. */
const inVain = new Set<string>()

/**
 * Locks the store until disposal, with flock(2) on the same file as upstream. The kernel also releases the lock when
 * the process ends. Returns `undefined` if the store's directory does not exist.
 *
 * Waits with inotify until another process closes the file. After a timeout, throws code 11 with the process and
 * program that has the lock. Each process waits for at most one timeout: the undo of its ADD then only tries the lock.
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
    file[Symbol.dispose]() // the lock file was removed, and newer processes lock another one
  }
}

/** The timeout of STATUS for the lock. All calls of a burst together need the lock for a fraction of this time. */
const statusDeadlineMs = 5_000

/** Throws code 11 with the lock's holder if the lock does not become free, because an ADD would time out. */
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
        { details: "find out why that process waits, or end it: the kernel then releases the lock" },
      )
    }
    if (closing) {
      if (poll(closing.fd, Poll.In, Math.min(restMs, lookAgainMs))) read(closing.fd, new Uint8Array(4096))
    } else sleep(Math.min(restMs, 1))
  }
}

/** Returns a watch of a path. Returns undefined at the user's limit of watches; `wait` then tries every millisecond. */
function tryWatch(path: string): FileDescriptor | undefined {
  return unlessErrno(() => watchClosing(path), "EMFILE", "ENFILE", "ENOSPC", "ENOENT")
}

function isStill(path: string, fd: Fd): boolean {
  const [named, opened] = [ifPresent(() => stat(path)), statOpen(fd)]
  return named?.inode === opened.inode && named.device === opened.device
}

/** Returns the process that has the lock, from /proc/locks: "process 4711 (host-local)". */
function holderOf(path: string): string {
  try {
    const { inode } = stat(path)
    // "1: FLOCK  ADVISORY  WRITE 4711 fe:00:137 0 EOF": device and inode. "->" marks waiting processes.
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
