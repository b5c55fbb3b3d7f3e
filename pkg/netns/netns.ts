import {
  CLONE_NEWNET,
  duplicate,
  type Fd,
  FileDescriptor,
  findStat,
  isErrno,
  isRegularFile,
  namespaceType,
  Open,
  type Stat,
  setNetworkNamespace,
  statOpen,
} from "../libc/mod.ts"
import { Budget, RouteSocket } from "../netlink/mod.ts"
import { CniError, Code, isCniError } from "../types/mod.ts"

/** The thread's own namespace. `/proc/self` would be the namespace of the main thread, even for another thread. */
const OWN = "/proc/thread-self/ns/net"

const EXPECTED = "expected a path such as /run/netns/NAME or /proc/PID/ns/net"

/** A value that is not a promise. After an `await`, the thread may be in another namespace. */
export type Sync<T> = T extends PromiseLike<unknown> ? never : T

/**
 * The file of a namespace, whose path is opened only once. It can be compared with the thread's own namespace, entered,
 * and passed to the kernel. The path itself may later refer to another namespace, if the container ends and its process
 * ID is reused.
 */
export class NamespaceFile implements Disposable {
  /** The path as the caller has written it. */
  readonly path: string
  /** The time limit of the call for work on objects that a container can multiply. */
  readonly budget = new Budget()
  readonly #file: FileDescriptor | undefined
  readonly #error: CniError | undefined

  private constructor(path: string, file: FileDescriptor | undefined, error?: CniError) {
    this.path = path
    this.#file = file
    this.#error = error
  }

  /** Opens a path. Never throws: the error for a missing or inaccessible file is thrown when the file is needed. */
  static open(path: string): NamespaceFile {
    try {
      return new NamespaceFile(path, path === "" ? undefined : openFile(path))
    } catch (error) {
      if (!(error instanceof CniError)) throw error
      return new NamespaceFile(path, undefined, error)
    }
  }

  /** Returns a new descriptor; undefined if the path does not exist. Throws `CniError` 4 if it cannot be opened. */
  duplicate(): FileDescriptor | undefined {
    if (this.#error) throw this.#error
    return this.#file && new FileDescriptor(duplicate(this.#file.fd))
  }

  /** "device:inode", which identifies a namespace as long as it exists; undefined if the path does not exist. */
  get identity(): string | undefined {
    return this.#file && identityOf(statOpen(this.#file.fd))
  }

  /** Whether this is the thread's own network namespace; device and inode are compared. */
  get isOwn(): boolean {
    return this.#file !== undefined && isOwn(this.#file.fd)
  }

  [Symbol.dispose](): void {
    this.#file?.[Symbol.dispose]()
  }
}

/**
 * A network namespace, which an open descriptor keeps alive.
 *
 * @example
 * using sandbox = Netns.open(call.namespace)
 * using inside = sandbox.openRoute()
 */
export class Netns implements Disposable {
  /** The path as the caller has written it. */
  readonly path: string
  /** The time limit for objects that a container can multiply; in the call's namespace, the call's limit. */
  readonly budget: Budget
  readonly #file: FileDescriptor

  private constructor(place: string | NamespaceFile, file: FileDescriptor) {
    this.path = pathOf(place)
    this.budget = typeof place === "string" ? new Budget() : place.budget
    this.#file = file
  }

  /**
   * Opens the namespace at a path such as /run/netns/NAME or /proc/PID/ns/net. Throws `CniError` with code 4 if the
   * path does not exist or is not a network namespace. Code 3 would make the runtime skip the cleanup, although leases
   * and objects of earlier plugins outlive the namespace.
   */
  static open(place: string | NamespaceFile): Netns {
    const path = pathOf(place)
    const file = fileAt(place)
    if (!file) {
      throw new CniError(Code.InvalidEnvironment, `Cannot use "${path}" as CNI_NETNS: it does not exist`, {
        details: EXPECTED,
      })
    }
    if (isNetworkNamespace(file.fd)) return new Netns(place, file)
    file[Symbol.dispose]()
    throw new CniError(Code.InvalidEnvironment, `Cannot use "${path}" as CNI_NETNS: it is not a network namespace`, {
      details: EXPECTED,
    })
  }

  /**
   * Like `open`, but returns `undefined` if the namespace no longer exists: the path is empty, does not exist, or is a
   * file that is not a namespace, such as a former mount point.
   */
  static find(place: string | NamespaceFile): Netns | undefined {
    const file = pathOf(place) === "" ? undefined : findFileAt(place)
    if (!file) return undefined
    if (isNetworkNamespace(file.fd)) return new Netns(place, file)
    file[Symbol.dispose]()
    return undefined
  }

  /** Opens the thread's own namespace. */
  static own(): Netns {
    return Netns.open(OWN)
  }

  /** The descriptor of the namespace, for `IFLA_NET_NS_FD`. */
  get fd(): Fd {
    return this.#file.fd
  }

  /** The inode, which identifies the namespace as long as it exists. */
  get inode(): bigint {
    return statOpen(this.#file.fd).inode
  }

  /** Whether this is the thread's own network namespace; device and inode are compared. */
  get isOwn(): boolean {
    return isOwn(this.#file.fd)
  }

  /** Opens a socket in the namespace. Its lists and batches use the budget. Throws `SyscallError`. */
  openRoute(): RouteSocket {
    return this.run(() => RouteSocket.open(this.budget))
  }

  /** Calls `fn` on this thread inside the namespace; comes back however `fn` ends. A promise does not type-check. */
  run<T>(fn: () => Sync<T>): T {
    using home = FileDescriptor.open(OWN, Open.ReadOnly)
    setNetworkNamespace(this.#file.fd)
    try {
      return fn()
    } finally {
      comeBack(home.fd)
    }
  }

  [Symbol.dispose](): void {
    this.#file[Symbol.dispose]()
  }
}

/** Returns to the former namespace, in two attempts, because an undo needs it too. Throws `SyscallError`. */
function comeBack(home: Fd): void {
  try {
    setNetworkNamespace(home)
  } catch {
    setNetworkNamespace(home)
  }
}

function pathOf(place: string | NamespaceFile): string {
  return typeof place === "string" ? place : place.path
}

function fileAt(place: string | NamespaceFile): FileDescriptor | undefined {
  return typeof place === "string" ? openFile(place) : place.duplicate()
}

/** Like `fileAt`, but undefined also for a path that is not a file and cannot be opened: a socket, a loop of links. */
function findFileAt(place: string | NamespaceFile): FileDescriptor | undefined {
  try {
    return fileAt(place)
  } catch (error) {
    if (isCniError(error) && isErrno(error.cause, "ENXIO", "ENODEV", "ELOOP", "ENAMETOOLONG")) return undefined
    throw error
  }
}

/** Opens a path; returns undefined if it does not exist. Opening a FIFO does not block. */
function openFile(path: string): FileDescriptor | undefined {
  try {
    return FileDescriptor.open(path, Open.ReadOnly)
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "ESRCH")) return undefined
    throw new CniError(Code.InvalidEnvironment, `Cannot use "${path}" as CNI_NETNS`, { cause: error })
  }
}

/** Reports whether a file is a network namespace. File systems return ENOTTY or EINVAL, device drivers any error. */
function isNetworkNamespace(fd: Fd): boolean {
  try {
    return namespaceType(fd) === CLONE_NEWNET
  } catch (error) {
    if (isErrno(error, "ENOTTY", "EINVAL", "EBADF", "EACCES", "EPERM") || !isRegularFile(statOpen(fd))) return false
    throw error
  }
}

/** Returns "device:inode" of a namespace's file, which identifies the namespace as long as it exists. */
function identityOf({ device, inode }: Stat): string {
  return `${device}:${inode}`
}

function isOwn(fd: Fd): boolean {
  const own = findStat(OWN)
  return own !== undefined && identityOf(statOpen(fd)) === identityOf(own)
}
