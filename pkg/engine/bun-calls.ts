import { dlopen, type FFIFunction, FFIType, ptr, read } from "bun:ffi"
import { type CallName, callNames, EINVAL, int32, integer, lettersOf, requireBytes, text } from "./calls.ts"
import { AT_FDCWD, type TypedArray } from "./engine.ts"

/** System calls on Bun, by functions of the C library. */

/** The names of the C library's functions that differ from the names of the system calls. */
const namesInC: { readonly [name in CallName]?: string } = {
  linkat: "link",
  readlinkat: "readlink",
  mkdirat: "mkdir",
  sendto: "send",
  prlimit64: "prlimit",
}

/** The numbers of system calls without an equal function in the C library. Those of the signal calls are for x86-64. */
export const SYS = { pidfd_open: 434, rt_sigprocmask: 14, signalfd4: 289 } as const

/**
 * Returns a C function's types. `int` suffices for `ssize_t`, because a call transfers at most 0x7ffff000 bytes,
 * read(2).
 */
function foreign(name: CallName): FFIFunction {
  const types = lettersOf[name].flatMap((letter): FFIType[] =>
    letter === "b"
      ? [FFIType.ptr, FFIType.u64]
      : [letter === "i" || letter === "@" ? FFIType.i32 : letter === "l" ? FFIType.i64 : FFIType.ptr],
  )
  return { args: types, returns: FFIType.i32 }
}

type Symbols = Record<string, (...values: unknown[]) => unknown>

/** Returns a function that calls `make` once, at its first call, so that importing the module does nothing. */
function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

export const libc = once(() => {
  const table: Record<string, FFIFunction> = {
    __errno_location: { args: [], returns: FFIType.ptr },
    signal: { args: ["i32", "ptr"], returns: "ptr" },
    poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
    sendmsg: { args: ["i32", "ptr", "i32"], returns: FFIType.i64_fast },
    syscall: { args: ["i64", "i64", "i64", "i64", "i64"], returns: FFIType.i64_fast },
    posix_spawn: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "i32" },
    posix_spawn_file_actions_init: { args: ["ptr"], returns: "i32" },
    posix_spawn_file_actions_destroy: { args: ["ptr"], returns: "i32" },
    posix_spawn_file_actions_adddup2: { args: ["ptr", "i32", "i32"], returns: "i32" },
    posix_spawn_file_actions_addchdir_np: { args: ["ptr", "ptr"], returns: "i32" },
    posix_spawn_file_actions_addclosefrom_np: { args: ["ptr", "i32"], returns: "i32" },
    posix_spawnattr_init: { args: ["ptr"], returns: "i32" },
    posix_spawnattr_setflags: { args: ["ptr", "i32"], returns: "i32" },
    posix_spawnattr_setsigdefault: { args: ["ptr", "ptr"], returns: "i32" },
    posix_spawnattr_setsigmask: { args: ["ptr", "ptr"], returns: "i32" },
  }
  for (const name of callNames) table[namesInC[name] ?? name] = foreign(name)
  return dlopen("libc.so.6", table).symbols as unknown as Symbols
})

const errnoAddress = once(() => Number(libc().__errno_location?.()))

export const addressOf = (bytes: TypedArray) => (bytes.byteLength === 0 ? null : ptr(bytes))

/** Calls a function of the C library. Returns its result, or the negative errno, read immediately after it. */
export function callC(name: string, ...values: unknown[]): number {
  const symbol = libc()[name]
  const errnoAt = errnoAddress()
  const answer = Number(symbol?.(...values))
  return answer === -1 ? -read.i32(errnoAt as never, 0) : answer
}

export function call(name: CallName, ...values: unknown[]): number {
  const raw: unknown[] = []
  const kept: unknown[] = [] // the kernel gets their addresses, so they must not be freed
  let given = 0
  let broken = false
  const room = new Uint32Array(1) // the length for the letter "n"
  for (const letter of lettersOf[name]) {
    if (letter === "@" || letter === "0") {
      raw.push(letter === "@" ? AT_FDCWD : null)
      continue
    }
    if (letter === "n") {
      raw.push(ptr(room))
      continue
    }
    const value = values[given++]
    if (letter === "i") raw.push(int32(value) | 0)
    else if (letter === "l") raw.push(BigInt(integer(value, -(2 ** 53), 2 ** 53)))
    else if (letter === "s") {
      const bytes = text(value)
      broken ||= bytes.indexOf(0) !== bytes.length - 1
      kept.push(bytes)
      raw.push(ptr(bytes))
    } else {
      const least = letter === "b" ? 0 : Number(letter.slice(1, -1))
      const bytes = requireBytes(value, least)
      room[0] = least
      raw.push(addressOf(bytes))
      if (letter === "b") raw.push(bytes.byteLength)
    }
  }
  if (broken) return -EINVAL
  const answer = callC(namesInC[name] ?? name, ...raw)
  return kept.length >= 0 ? answer : 0
}
