import {
  exists,
  FileDescriptor,
  isErrno,
  Open,
  readTextAtOnce,
  readTextFile,
  stat,
  unlessErrno,
  writeExisting,
} from "../libc/mod.ts"

const ROOT = "/proc/sys/"

/** The host's writable /proc/sys/net by `deploy/kubernetes`, in a container with a read-only /proc/sys. */
const WRITABLE = "/host/proc/sys/"

/** Matches a path with a component that is empty, "." or "..". */
const NOT_A_PART = /(?:^|\/)\.{0,2}(?:\/|$)/

/**
 * Returns the path of a kernel setting. As in sysctl(8), the first separator decides. If it is a dot
 * ("net.ipv4.conf.eth0/100.x"), dots separate components and a slash stands for a dot. If it is a slash, the name is a
 * path. Throws `RangeError` for a name that leads out of /proc/sys.
 */
export function sysctlPath(name: string): string {
  const dot = name.indexOf(".")
  const slash = name.indexOf("/")
  const isDotted = dot >= 0 && (slash < 0 || dot < slash)
  const path = isDotted ? name.replace(/[./]/g, (separator) => (separator === "." ? "/" : ".")) : name
  if (NOT_A_PART.test(path)) throw new RangeError(`"${name}" is not the name of a kernel setting`)
  return ROOT + path
}

/**
 * Returns the value of a setting as the kernel prints it, without the line end, like `sysctl -n NAME`. Settings under
 * "net" are those of the thread's network namespace. Throws `ENOENT` if the kernel has no such setting. Throws `EACCES`
 * or `EIO` if the value cannot be read: the setting is write-only, or is IPv6's "stable_secret" before it is set.
 */
export function readSysctl(name: string): string {
  return readSetting(sysctlPath(name))
}

/** The size of the read buffer; nearly all settings are shorter, and then take a single read(2). */
const SHORT_BYTES = 128

function readSetting(path: string): string {
  const text = readTextAtOnce(path, SHORT_BYTES) ?? readTextFile(path)
  return text.endsWith("\n") ? text.slice(0, -1) : text
}

/**
 * Like `readSysctl`, but returns undefined if the kernel has no such setting, its value cannot be read, as with
 * "net/ipv4/route/flush", or access to /proc/sys is denied.
 */
export function findSysctl(name: string): string | undefined {
  return findSetting(sysctlPath(name))
}

function findSetting(path: string): string | undefined {
  return unlessErrno(() => readSetting(path), "ENOENT", "EACCES", "EIO")
}

/** Reports whether a setting is write-only, even for root: "net/ipv4/route/flush". Throws `SyscallError`. */
export function isWriteOnly(name: string): boolean {
  return (stat(sysctlPath(name)).mode & 0o444) === 0
}

/**
 * Sets a setting, like `sysctl -w NAME=VALUE`, unless it already has the value, because some settings act on every
 * write: "all/forwarding" of IPv6 sets that of every interface. `present` is the current value, if the caller has just
 * read it. Throws `SyscallError`.
 */
export function writeSysctl(name: string, value: string, present?: string | undefined): void {
  const path = sysctlPath(name)
  if ((present ?? findSetting(path)) !== value) writeSetting(path, value)
}

function writeSetting(path: string, value: string): void {
  const text = value === "" ? "\n" : value // the kernel ignores a write without bytes
  whereWritable(path, (file) => writeExisting(file, text))
}

/**
 * Calls `write` with a path, and again with the file below `WRITABLE` if /proc/sys is read-only. If that file is
 * missing, throws the `SyscallError` of the first call.
 */
function whereWritable(path: string, write: (file: string) => void): void {
  try {
    write(path)
  } catch (error) {
    const other = WRITABLE + path.slice(ROOT.length)
    if (!isErrno(error, "EROFS") || !exists(other)) throw error
    write(other)
  }
}

/** Throws the `SyscallError` of `writeSysctl` that is predictable without writing: /proc/sys is read-only. */
export function requireSettable(name: string, value: string): void {
  const path = sysctlPath(name)
  if (findSetting(path) === value) return
  whereWritable(path, (file) => FileDescriptor.open(file, Open.WriteOnly)[Symbol.dispose]())
}

/**
 * Like `writeSysctl`, for an optional setting. Returns false if the kernel does not have it, such as a setting of IPv6
 * when IPv6 is disabled at boot, or if /proc/sys is not writable.
 */
export function tryWriteSysctl(name: string, value: string): boolean {
  return tryWrite(() => writeSysctl(name, value))
}

/** Like `tryWriteSysctl`, without reading the value first: for a new interface, which has default values. */
export function tryOverwriteSysctl(name: string, value: string): boolean {
  return tryWrite(() => writeSetting(sysctlPath(name), value))
}

/**
 * Like `tryWriteSysctl`, but returns the former value. Returns undefined if nothing was changed: the setting had the
 * value, the kernel does not have the setting, or it is not writable.
 */
export function tryReplaceSysctl(name: string, value: string): string | undefined {
  const path = sysctlPath(name)
  const before = findSetting(path)
  if (before === undefined || before === value) return undefined
  return tryWrite(() => writeSetting(path, value)) ? before : undefined
}

function tryWrite(write: () => void): boolean {
  try {
    write()
    return true
  } catch (error) {
    if (isErrno(error, "ENOENT", "EROFS", "EACCES", "EPERM", "EINVAL")) return false
    throw error
  }
}
