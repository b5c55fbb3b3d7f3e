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

/** Where a container whose own /proc/sys is read-only may have the host's /proc/sys/net, to be written: `deploy/kubernetes`. */
const WRITABLE = "/host/proc/sys/"

/** A part of a path that is empty, "." or "..". */
const NOT_A_PART = /(?:^|\/)\.{0,2}(?:\/|$)/

/**
 * The file of a kernel setting. As in sysctl(8) the first separator decides: after a dot ("net.ipv4.conf.eth0/100.x")
 * dots separate and slashes stand for dots, after a slash the name is a path as it is. Throws `RangeError` for a name
 * that would leave /proc/sys.
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
 * Reads a setting as the kernel prints it, without the line end, like `sysctl -n NAME`. Settings under "net" are those
 * of the thread's network namespace. Throws `ENOENT` when the kernel has no such setting, `EACCES` or `EIO` when it has no
 * value to be read: it can only be written, or is IPv6's "stable_secret" before it is set.
 */
export function readSysctl(name: string): string {
  return readSetting(sysctlPath(name))
}

/** Nearly all settings are shorter. The kernel gives a setting that fits in one piece. */
const SHORT_BYTES = 128

function readSetting(path: string): string {
  const text = readTextAtOnce(path, SHORT_BYTES) ?? readTextFile(path)
  return text.endsWith("\n") ? text.slice(0, -1) : text
}

/**
 * Like `readSysctl`; undefined where the kernel has no such setting, where it has no value to be read, like
 * "net/ipv4/route/flush", and where /proc/sys may not be read.
 */
export function findSysctl(name: string): string | undefined {
  return findSetting(sysctlPath(name))
}

function findSetting(path: string): string | undefined {
  return unlessErrno(() => readSetting(path), "ENOENT", "EACCES", "EIO")
}

/** Whether the kernel has a setting for writing alone, as "net/ipv4/route/flush" is: root may not read it either. Throws `SyscallError`. */
export function isWriteOnly(name: string): boolean {
  return (stat(sysctlPath(name)).mode & 0o444) === 0
}

/**
 * Sets a setting, like `sysctl -w NAME=VALUE`, unless it has the value already: some act on every write, as IPv6's
 * "all/forwarding", which sets every interface's. `present` is the value that it has, where the caller has just read it. Throws
 * `SyscallError`.
 */
export function writeSysctl(name: string, value: string, present?: string | undefined): void {
  const path = sysctlPath(name)
  if ((present ?? findSetting(path)) !== value) writeSetting(path, value)
}

function writeSetting(path: string, value: string): void {
  const text = value === "" ? "\n" : value // the kernel takes no notice of a write without bytes
  whereWritable(path, (file) => writeExisting(file, text))
}

/** Calls `write` with the path, and where /proc/sys is read-only with the file below `WRITABLE`. Throws the first `SyscallError` when that file is missing. */
function whereWritable(path: string, write: (file: string) => void): void {
  try {
    write(path)
  } catch (error) {
    const other = WRITABLE + path.slice(ROOT.length)
    if (!isErrno(error, "EROFS") || !exists(other)) throw error
    write(other)
  }
}

/** Throws `SyscallError` when `writeSysctl` would, as far as that can be told without writing: /proc/sys is read-only. */
export function requireSettable(name: string, value: string): void {
  const path = sysctlPath(name)
  if (findSetting(path) === value) return
  whereWritable(path, (file) => FileDescriptor.open(file, Open.WriteOnly)[Symbol.dispose]())
}

/**
 * Like `writeSysctl`, for a setting that is good to have: false where this kernel does not have it, as for IPv6 when that
 * was disabled at boot, or where /proc/sys may not be written.
 */
export function tryWriteSysctl(name: string, value: string): boolean {
  return tryWrite(() => writeSysctl(name, value))
}

/** Like `tryWriteSysctl`, without looking whether it has the value already: for a new interface, which has none of ours. */
export function tryOverwriteSysctl(name: string, value: string): boolean {
  return tryWrite(() => writeSetting(sysctlPath(name), value))
}

/**
 * Like `tryWriteSysctl`, and returns what the value was before; undefined where nothing was changed: it was that already, or the kernel
 * does not have it, or it may not be written.
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
