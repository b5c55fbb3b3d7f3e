import { FileDescriptor, Open } from "./descriptor.ts"
import { unlessErrno } from "./errno.ts"
import { readAt, readlink, readTextFile } from "./files.ts"
import { join, resolve } from "./path.ts"
import { programArguments } from "./process.ts"
import { findStat, isRegularFile } from "./stat.ts"

/** What this process, and the host that it runs on, are called; proc(5). */

/** The number of this process, in the namespace that /proc was mounted for. Throws `SyscallError`. */
export function processId(): number {
  return Number(readlink("/proc/self"))
}

/** The file that this process runs. Throws `SyscallError`. */
export function executablePath(): string {
  return readlink("/proc/self/exe").replace(/ \(deleted\)$/, "")
}

/** The command line by which this program runs once more, for other arguments: of a script, the engine's part of it as well. */
export function ownCommand(): string[] {
  const texts = readTextFile("/proc/self/cmdline").split("\0").slice(0, -1)
  return [executablePath(), ...texts.slice(1, texts.length - programArguments().length)]
}

/** The name of this host, like `hostname`. Throws `SyscallError`. */
export function hostName(): string {
  return readTextFile("/proc/sys/kernel/hostname").trim()
}

/** The kernel, like `uname -r` and `uname -v`. Throws `SyscallError`. */
export function kernelVersion(): { release: string; version: string } {
  const read = (name: string) => readTextFile(`/proc/sys/kernel/${name}`).trim()
  return { release: read("osrelease"), version: read("version") }
}

/** The processor that this program was made for, like `uname -m`: by its file, elf(5). Throws `SyscallError`. */
export function machine(): string {
  const machines: Readonly<Record<number, string>> = { 62: "x86_64", 183: "aarch64" } // EM_X86_64, EM_AARCH64
  using file = FileDescriptor.open("/proc/self/exe", Open.ReadOnly)
  const header = new Uint8Array(20)
  readAt(file.fd, header, 0)
  return machines[header[18] ?? 0] ?? "unknown"
}

/** The file that a shell would run for a name, by the directories of PATH: "A:B"; undefined when there is none. */
export function findProgram(name: string, path: string | undefined): string | undefined {
  const directories = (path || "/usr/sbin:/usr/bin:/sbin:/bin").split(":").filter((directory) => directory !== "")
  return directories.map((directory) => resolve(join(directory, name))).find(isExecutableFile)
}

/** Whether a path names a file that may be executed, by its mode. Never throws. */
export function isExecutableFile(path: string): boolean {
  const found = unlessErrno(() => findStat(path), ...unseen)
  return found !== undefined && isRegularFile(found) && (found.mode & 0o111) !== 0
}

/** Errors of a path whose directories do not exist or cannot be entered. */
const unseen = ["ENOTDIR", "EACCES", "ELOOP", "ENAMETOOLONG"] as const
