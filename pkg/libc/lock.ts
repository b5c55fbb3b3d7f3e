import { engine } from "../engine/mod.ts"
import { type Fd, FileDescriptor } from "./descriptor.ts"
import { check } from "./errno.ts"

const IN_CLOSE_WRITE = 0x8
const IN_CLOSE_NOWRITE = 0x10
const IN_NONBLOCK = 0o4000
const IN_CLOEXEC = 0o2000000

/**
 * Watches for any process closing a file, with inotify(7): the descriptor becomes readable then. Throws `EMFILE` or
 * `ENOSPC` when the user has no watches left.
 */
export function watchClosing(path: string): FileDescriptor {
  const watch = new FileDescriptor(
    check("inotify_init1", "", () => engine.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) as Fd,
  )
  try {
    const events = IN_CLOSE_WRITE | IN_CLOSE_NOWRITE
    check("inotify_add_watch", JSON.stringify(path), () => engine.inotify_add_watch(watch.fd, path, events))
    return watch
  } catch (error) {
    watch[Symbol.dispose]()
    throw error
  }
}
