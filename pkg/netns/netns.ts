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
   * Opens the namespace at a path such as /run/netns/NAME or /proc/PID/ns/net. Throws `CniError` with code 3 when there
   * is nothing at the path, and with code 4 when what is there is no network namespace.
   */
  static open(path: string): Netns {
    const found = Netns.find(path)
    if (found) return found
    throw new CniError(Code.UnknownContainer, `Cannot open network namespace "${path}": it does not exist`)
  }

  /** Like `open`, and undefined when the path is empty or nothing is there any more. */
  static find(path: string): Netns | undefined {
    if (path === "") return undefined
    let file: FileDescriptor
    try {
      file = FileDescriptor.open(path, Open.ReadOnly | Open.NonBlocking) // a FIFO must not hold us up
    } catch (error) {
      if (isErrno(error, "ENOENT", "ENOTDIR", "ESRCH")) return undefined
      throw new CniError(Code.InvalidEnvironment, `Cannot open network namespace "${path}"`, { cause: error })
    }
    if (isNetworkNamespace(file.fd)) return new Netns(path, file)
    file[Symbol.dispose]()
    throw new CniError(Code.InvalidEnvironment, `Cannot use "${path}" as CNI_NETNS: it is not a network namespace`, {
      details: "expected a path such as /run/netns/NAME or /proc/PID/ns/net",
    })
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
