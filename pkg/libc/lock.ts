import { engine, monotonicMs } from "../engine/mod.ts"
import { type Fd, FileDescriptor, prepared } from "./descriptor.ts"
import { check, unlessErrno } from "./errno.ts"
import { sleep } from "./process.ts"

/** <sys/file.h> */
const LOCK_SH = 1
const LOCK_EX = 2
const LOCK_NB = 4
/** <sys/inotify.h> */
const IN_CLOSE_WRITE = 0x8
const IN_CLOSE_NOWRITE = 0x10
const IN_NONBLOCK = 0o4000
const IN_CLOEXEC = 0o2000000

/** Takes the exclusive lock of flock(2) on this open file until it is closed; returns whether it was free. */
export function tryLock(fd: Fd): boolean {
  return tryFlock(fd, LOCK_EX)
}

/**
 * Takes a shared lock of flock(2) on this open file until it is closed; returns false if a process has the exclusive
 * one.
 */
export function tryLockShared(fd: Fd): boolean {
  return tryFlock(fd, LOCK_SH)
}

/**
 * Tries to take a lock once per millisecond for `ms` milliseconds; returns whether it was taken. For locks that other
 * processes hold briefly, and without which the caller can continue: any process that can open the file can also hold
 * its lock forever.
 */
export function lockWithin(ms: number, isLocked: () => boolean): boolean {
  const end = monotonicMs() + ms
  for (;;) {
    if (isLocked()) return true
    if (monotonicMs() >= end) return false
    sleep(1)
  }
}

function tryFlock(fd: Fd, kind: number): boolean {
  const lock = () => check("flock", { fd }, () => engine.flock(fd, kind | LOCK_NB))
  return unlessErrno(lock, "EAGAIN") !== undefined
}

/**
 * Watches for any process closing a file, with inotify(7): the descriptor then becomes readable. Throws `EMFILE` or
 * `ENOSPC` if the user has no watches left.
 */
export function watchClosing(path: string): FileDescriptor {
  const watch = new FileDescriptor(
    check("inotify_init1", "", () => engine.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) as Fd,
  )
  return prepared(watch, ({ fd }) => {
    const events = IN_CLOSE_WRITE | IN_CLOSE_NOWRITE
    check("inotify_add_watch", { path }, () => engine.inotify_add_watch(fd, path, events))
  })
}
