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

/**
 * The place of the host's writable /proc/sys/net in a container whose own /proc/sys is read-only: `deploy/kubernetes`.
 */
const WRITABLE = "/host/proc/sys/"

/** A component of a path that is empty, "." or "..". */
const NOT_A_PART = /(?:^|\/)\.{0,2}(?:\/|$)/

/**
 * Returns the file of a kernel setting. As in sysctl(8) the first separator decides: after a dot
 * ("net.ipv4.conf.eth0/100.x") dots separate and slashes stand for dots; after a slash the name is a path. Throws
 * `RangeError` for a name that leaves /proc/sys.
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
 * Reads a setting as the kernel prints it, without the line end, like `sysctl -n NAME`. Settings under "net" belong to
 * the thread's network namespace. Throws `ENOENT` if the kernel has no such setting, and `EACCES` or `EIO` if it has no
 * readable value: it is write-only, or IPv6's "stable_secret" before it is set.
 */
export function readSysctl(name: string): string {
  return readSetting(sysctlPath(name))
}

/** Nearly all settings are shorter. The kernel returns a setting that fits in one piece. */
const SHORT_BYTES = 128

function readSetting(path: string): string {
  const text = readTextAtOnce(path, SHORT_BYTES) ?? readTextFile(path)
  return text.endsWith("\n") ? text.slice(0, -1) : text
}

/**
 * Like `readSysctl`, but returns undefined if the kernel has no such setting, the setting has no readable value, as
 * "net/ipv4/route/flush", or /proc/sys may not be read.
 */
export function findSysctl(name: string): string | undefined {
  return findSetting(sysctlPath(name))
}

function findSetting(path: string): string | undefined {
  return unlessErrno(() => readSetting(path), "ENOENT", "EACCES", "EIO")
}

/** Whether a setting is write-only, as "net/ipv4/route/flush"; even root may not read it. Throws `SyscallError`. */
export function isWriteOnly(name: string): boolean {
  return (stat(sysctlPath(name)).mode & 0o444) === 0
}

/**
 * Sets a setting, like `sysctl -w NAME=VALUE`, unless it has the value already: some act on every write, such as
 * "all/forwarding" of IPv6, which sets every interface's. `present` is its current value, if the caller has just read
 * it. Throws `SyscallError`.
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
 * Calls `write` with the path, and if /proc/sys is read-only, with the file below `WRITABLE`. Throws the first
 * `SyscallError` if that file is missing.
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

/** Throws the `SyscallError` of `writeSysctl` that can be predicted without writing: /proc/sys is read-only. */
export function requireSettable(name: string, value: string): void {
  const path = sysctlPath(name)
  if (findSetting(path) === value) return
  whereWritable(path, (file) => FileDescriptor.open(file, Open.WriteOnly)[Symbol.dispose]())
}

/**
 * Like `writeSysctl`, for a setting that is optional: returns false if this kernel does not have it, such as IPv6's
 * when it is disabled at boot, or if /proc/sys may not be written.
 */
export function tryWriteSysctl(name: string, value: string): boolean {
  return tryWrite(() => writeSysctl(name, value))
}

/** Like `tryWriteSysctl`, without reading the value first: for a new interface, whose settings have defaults. */
export function tryOverwriteSysctl(name: string, value: string): boolean {
  return tryWrite(() => writeSetting(sysctlPath(name), value))
}

/**
 * Like `tryWriteSysctl`, and returns the former value. Returns undefined if nothing changed: the value was already set,
 * the kernel does not have the setting, or it may not be written.
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
