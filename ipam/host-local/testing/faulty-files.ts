import { errnoNumber, SyscallError } from "../../../pkg/libc/mod.ts"
import { type Files, kernelFiles } from "../files.ts"

/** The exception that replaces a system call of a killed process. */
export class Killed extends Error {}

export interface FaultyFiles {
  readonly files: Files
  isHit(): boolean
}

/** Returns the kernel's system calls until call number `at` (from 1), at which the process is killed. */
export function killedAt(at: number): FaultyFiles {
  return faulty((call) => (call >= at ? new Killed() : undefined))
}

/**
 * Returns the kernel's system calls, of which `times` calls that need space fail with `ENOSPC`, from number `at` on.
 */
export function fullAt(at: number, times = 1): FaultyFiles {
  const needRoom = ["createFile", "link", "makeDirectories", "sync", "syncPath", "writeAt", "writeExisting"]
  let left = times
  return faulty((call, name) =>
    call >= at && needRoom.includes(name) && left-- > 0
      ? new SyscallError(name, errnoNumber("ENOSPC"), "test")
      : undefined,
  )
}

/** Returns the `fileSystemType` of a file system that other hosts use. */
export function onNfs(): number {
  return 0x6969
}

export function withoutLinks(files: Files): Files {
  const link = (from: string, to: string): never => {
    throw new SyscallError("link", errnoNumber("EPERM"), `${from} to ${to}`)
  }
  return { ...files, link }
}

/** Returns the kernel's system calls, of which those that change something fail, as on a read-only file system. */
export function readOnly(): FaultyFiles {
  const change = ["createFile", "link", "setModified", "truncate", "unlink", "writeAt", "writeExisting"]
  return faulty((_, name) => (change.includes(name) ? new SyscallError(name, errnoNumber("EROFS"), "test") : undefined))
}

/** Returns the kernel's system calls, of which opening `path` fails, as with a security module. */
export function unreadable(path: string): FaultyFiles {
  return faulty((_, name, [first]) =>
    name === "open" && first === path ? new SyscallError(name, errnoNumber("EACCES"), JSON.stringify(path)) : undefined,
  )
}

/** Returns the kernel's system calls, and a list that records each with its arguments. */
export function recorded(): { readonly files: Files; readonly calls: unknown[][] } {
  const calls: unknown[][] = []
  const { files } = faulty((_, name, args) => {
    calls.push([name, ...args])
    return undefined
  })
  return { files, calls }
}

function faulty(fault: (call: number, name: string, args: unknown[]) => Error | undefined): FaultyFiles {
  let calls = 0
  let isHit = false
  const files = Object.entries(kernelFiles).map(([name, call]: [string, unknown]) => [
    name,
    (...args: unknown[]) => {
      const error = fault(++calls, name, args)
      if (!error) return (call as (...args: unknown[]) => unknown)(...args)
      isHit = true
      throw error
    },
  ])
  return { files: Object.fromEntries(files), isHit: () => isHit }
}
