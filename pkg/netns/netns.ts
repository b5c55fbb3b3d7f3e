import {
  CLONE_NEWNET,
  type Fd,
  FileDescriptor,
  isErrno,
  namespaceType,
  Open,
  setNetworkNamespace,
  stat,
} from "../libc/mod.ts"
import { CniError, Code } from "../types/mod.ts"

/** The thread's own namespace: `/proc/self` would be the main thread's, wherever this one is. */
const OWN = "/proc/thread-self/ns/net"

const EXPECTED = "expected a path such as /run/netns/NAME or /proc/PID/ns/net"

/** A value that is there when the call returns: code after an `await` runs wherever the thread has moved by then. */
export type Sync<T> = T extends PromiseLike<unknown> ? never : T

/**
 * A network namespace, held open by a descriptor.
 *
 * @example
 * using sandbox = Netns.open(call.netns)
 * using inside = sandbox.run(() => RouteSocket.open())
 */
export class Netns implements Disposable {
  /** The path that it was opened by, as the caller wrote it. */
  readonly path: string
  readonly #file: FileDescriptor

  private constructor(path: string, file: FileDescriptor) {
    this.path = path
    this.#file = file
  }

  /**
   * Opens the namespace at a path such as /run/netns/NAME or /proc/PID/ns/net. Throws `CniError` with code 4 when there
   * is nothing at the path, or something else. Not with code 3: that would tell the runtime that there is nothing to clean
   * up, and leases and what earlier plugins of the chain made outlive the namespace.
   */
  static open(path: string): Netns {
    const file = openNonBlocking(path)
    if (!file) {
      throw new CniError(Code.InvalidEnvironment, `Cannot use "${path}" as CNI_NETNS: it does not exist`, {
        details: EXPECTED,
      })
    }
    if (isNetworkNamespace(file.fd)) return new Netns(path, file)
    file[Symbol.dispose]()
    throw new CniError(Code.InvalidEnvironment, `Cannot use "${path}" as CNI_NETNS: it is not a network namespace`, {
      details: EXPECTED,
    })
  }

  /**
   * Like `open`, and undefined when the namespace has gone: the path is empty, nothing is there, or what is there is the
   * file that it was mounted on.
   */
  static find(path: string): Netns | undefined {
    const file = path === "" ? undefined : openNonBlocking(path)
    if (!file) return undefined
    if (isNetworkNamespace(file.fd)) return new Netns(path, file)
    file[Symbol.dispose]()
    return undefined
  }

  /** For `IFLA_NET_NS_FD`. */
  get fd(): Fd {
    return this.#file.fd
  }

  /** Runs `fn` on this thread inside the namespace; comes back however `fn` ends. A promise does not type-check. */
  run<T>(fn: () => Sync<T>): T {
    using home = FileDescriptor.open(OWN, Open.ReadOnly)
    setNetworkNamespace(this.#file.fd)
    try {
      return fn()
    } finally {
      setNetworkNamespace(home.fd)
    }
  }

  [Symbol.dispose](): void {
    this.#file[Symbol.dispose]()
  }
}

/** Undefined when nothing is there. A FIFO does not hold us up. */
function openNonBlocking(path: string): FileDescriptor | undefined {
  try {
    return FileDescriptor.open(path, Open.ReadOnly | Open.NonBlocking)
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "ESRCH")) return undefined
    throw new CniError(Code.InvalidEnvironment, `Cannot use "${path}" as CNI_NETNS`, { cause: error })
  }
}

function isNetworkNamespace(fd: Fd): boolean {
  try {
    return namespaceType(fd) === CLONE_NEWNET
  } catch (error) {
    if (isErrno(error, "ENOTTY", "EINVAL", "EBADF", "EACCES", "EPERM")) return false
    throw error
  }
}

/** What tells a namespace from all others alive: "device:inode" of its file. Undefined when it cannot be looked at. */
export function namespaceId(path: string): string | undefined {
  try {
    const found = stat(path)
    return `${found.device}:${found.inode}`
  } catch {
    return undefined
  }
}

/** Whether a path is the thread's own network namespace, by device and inode. False when it cannot be looked at. */
export function isOwnNamespace(path: string): boolean {
  const id = path === "" ? undefined : namespaceId(path)
  return id !== undefined && id === namespaceId(OWN)
}
