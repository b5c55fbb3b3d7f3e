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

/** Takes flock(2)'s exclusive lock on an open file until it is closed. Returns false if another process has a lock. */
export function tryLock(fd: Fd): boolean {
  return tryFlock(fd, LOCK_EX)
}

/** Takes flock(2)'s shared lock on an open file until it is closed. Returns false if the exclusive lock is taken. */
export function tryLockShared(fd: Fd): boolean {
  return tryFlock(fd, LOCK_SH)
}

/**
 * Calls `isLocked`, which tries to take a lock, every millisecond until it returns true, for at most `ms` milliseconds.
 * Returns whether the lock was taken. For locks that other processes hold only briefly. The caller must be able to
 * continue without the lock, because any process that can open the file can hold its lock forever.
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

/** Returns an inotify(7) descriptor, readable once any process closes the file. Throws `EMFILE`, `ENOSPC` at limits. */
export function watchClosing(path: string): FileDescriptor {
  const watch = new FileDescriptor(
    check("inotify_init1", "", () => engine.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) as Fd,
  )
  return prepared(watch, ({ fd }) => {
    const events = IN_CLOSE_WRITE | IN_CLOSE_NOWRITE
    check("inotify_add_watch", { path }, () => engine.inotify_add_watch(fd, path, events))
  })
}
