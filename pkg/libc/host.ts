import { FileDescriptor, Open } from "./descriptor.ts"
import { unlessErrno } from "./errno.ts"
import { readAt, readlink, readTextFile } from "./files.ts"
import { join, resolve } from "./path.ts"
import { programArguments } from "./process.ts"
import { findStat, isRegularFile } from "./stat.ts"

/** Names of this process and its host; proc(5). */

/** Returns the ID of this process in the PID namespace of the mounted /proc. Throws `SyscallError`. */
export function processId(): number {
  return Number(readlink("/proc/self"))
}

/** Returns the path of the executable file of this process. Throws `SyscallError`. */
export function executablePath(): string {
  return readlink("/proc/self/exe").replace(/ \(deleted\)$/, "")
}

/** Returns the command that runs this program again, without arguments; for a script with the engine. */
export function ownCommand(): string[] {
  const texts = readTextFile("/proc/self/cmdline").split("\0").slice(0, -1)
  return [executablePath(), ...texts.slice(1, texts.length - programArguments().length)]
}

/** Returns the name of this host, like `hostname`. Throws `SyscallError`. */
export function hostName(): string {
  return readTextFile("/proc/sys/kernel/hostname").trim()
}

/** Returns the kernel's release and version, like `uname -r` and `uname -v`. Throws `SyscallError`. */
export function kernelVersion(): { release: string; version: string } {
  const read = (name: string) => readTextFile(`/proc/sys/kernel/${name}`).trim()
  return { release: read("osrelease"), version: read("version") }
}

/** Returns the architecture of this program's build, like `uname -m`, from its file, elf(5). Throws `SyscallError`. */
export function machine(): string {
  const machines: Readonly<Record<number, string>> = { 62: "x86_64", 183: "aarch64" } // EM_X86_64, EM_AARCH64
  using file = FileDescriptor.open("/proc/self/exe", Open.ReadOnly)
  const header = new Uint8Array(20)
  readAt(file.fd, header, 0)
  return machines[header[18] ?? 0] ?? "unknown"
}

/**
 * Returns the path of the file that a shell would run for a name. `path` has the form of PATH, "A:B". Returns undefined
 * if no directory contains such a file.
 */
export function findProgram(name: string, path: string | undefined): string | undefined {
  const directories = (path || "/usr/sbin:/usr/bin:/sbin:/bin").split(":").filter((directory) => directory !== "")
  return directories.map((directory) => resolve(join(directory, name))).find(isExecutableFile)
}

/** Reports whether a path is a regular file whose mode allows execution. Never throws. */
export function isExecutableFile(path: string): boolean {
  const found = unlessErrno(() => findStat(path), ...unseen)
  return found !== undefined && isRegularFile(found) && (found.mode & 0o111) !== 0
}

/** Errors of a path whose directory does not exist or cannot be entered. */
const unseen = ["ENOTDIR", "EACCES", "ELOOP", "ENAMETOOLONG"] as const
