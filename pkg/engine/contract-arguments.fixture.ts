import type { Engine } from "./engine.ts"

type Kind =
  | "integer"
  | "long"
  | "text"
  | "array"
  | "texts"
  | "text or null"
  | "zero or one"
  | `${number} bytes`
  | `${number} exactly`

/**
 * The kinds of each call's arguments. Even valid examples have no effect: no descriptor is open, and texts contain NUL.
 */
export const parameters: Readonly<Partial<Record<keyof Engine, readonly Kind[]>>> = {
  open: ["text", "integer", "integer"],
  close: ["integer"],
  read: ["integer", "array"],
  write: ["integer", "array"],
  pread: ["integer", "array", "long"],
  pwrite: ["integer", "array", "long"],
  ftruncate: ["integer", "long"],
  fsync: ["integer"],
  flock: ["integer", "integer"],
  fcntl: ["integer", "integer", "long"],
  ioctl: ["integer", "integer", "long"],
  ioctlIfreq: ["integer", "integer", "40 bytes"],
  ioctlWinsize: ["integer", "integer", "8 bytes"],
  fsetxattr: ["integer", "text", "array", "integer"],
  statx: ["integer", "text", "integer", "integer", "256 bytes"],
  statfs: ["text", "120 bytes"],
  getdents64: ["integer", "array"],
  linkat: ["text", "text"],
  readlinkat: ["text", "array"],
  mkdirat: ["text", "integer"],
  utimensat: ["text", "32 bytes", "integer"],
  rename: ["text", "text"],
  unlink: ["text"],
  rmdir: ["text"],
  fchmodat: ["text", "integer"],
  lgetxattr: ["text", "text", "array"],
  socket: ["integer", "integer", "integer"],
  bind: ["integer", "array"],
  setsockopt: ["integer", "integer", "integer", "array"],
  sendto: ["integer", "array", "integer"],
  recvfrom: ["integer", "array", "integer", "12 bytes"],
  socketpair: ["integer", "integer", "integer", "8 bytes"],
  sendDescriptors: ["integer", "array"],
  setns: ["integer", "integer"],
  unshare: ["integer"],
  listen: ["integer", "integer"],
  accept4: ["integer", "integer"],
  connect: ["integer", "array"],
  getsockopt: ["integer", "integer", "integer", "4 bytes"],
  attachFilter: ["integer", "array"],
  rt_sigprocmask: ["integer", "8 bytes", "integer"],
  signalfd4: ["integer", "8 bytes", "integer", "integer"],
  prlimit64: ["integer", "integer", "16 bytes"],
  clock_gettime: ["integer", "16 bytes"],
  timerfd_create: ["integer", "integer"],
  timerfd_settime: ["integer", "integer", "32 bytes"],
  poll: ["array", "integer"],
  inotify_init1: ["integer"],
  inotify_add_watch: ["integer", "text", "integer"],
  getrandom: ["array", "integer"],
  pipe2: ["8 bytes", "integer"],
  startProcess: ["text", "texts", "texts", "text or null", "12 exactly", "zero or one"],
  pidfd_open: ["integer", "integer"],
  wait4: ["integer", "4 bytes", "integer"],
  kill: ["integer", "integer"],
  encodeUtf8: ["text"],
  decodeUtf8: ["array"],
  decodeLatin1: ["array"],
  crc32: ["array"],
  sha256: ["integer", "32 bytes"],
  findBytes: ["array", "array", "integer"],
  exit: ["integer"],
}

/** Returns an array whose bytes have been moved to another array. */
function detached(): Uint8Array {
  const array = new Uint8Array(256)
  array.buffer.transfer()
  return array
}

const nothing: readonly [string, unknown][] = [
  ["undefined", undefined],
  ["true", true],
  ["a bigint", 1n],
  ["a symbol", Symbol("a")],
  ["an object", { length: 300, valueOf: () => 1, toString: () => "1" }],
  ["a function", () => 1],
]
const text: readonly [string, unknown] = ["a text", "1"]
const number: readonly [string, unknown] = ["a number", 300]
const list: readonly [string, unknown] = ["an array of numbers", Array.from({ length: 400 }, () => 0)]
const bytes: readonly [string, unknown] = ["a typed array", new Uint8Array(400)]
const none: readonly [string, unknown] = ["null", null]
const ofNoRange: readonly [string, unknown][] = [
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["a fraction", 1.5],
  ["a fraction below zero", -0.5],
  ["2^64", 2 ** 64],
  ["-2^64", -(2 ** 64)],
  ["the largest number", Number.MAX_VALUE],
]
const ofNoInteger: readonly [string, unknown][] = [
  ["2^32", 2 ** 32],
  ["-2^31 - 1", -(2 ** 31) - 1],
  ["2^53", 2 ** 53],
]
const ofNoLong: readonly [string, unknown][] = [
  ["2^53 + 2", 2 ** 53 + 2],
  ["-2^53 - 2", -(2 ** 53) - 2],
]
const noArray = [
  ...nothing,
  text,
  number,
  list,
  none,
  ["a buffer", new ArrayBuffer(400)],
  ["a view", new DataView(new ArrayBuffer(400))],
] as const

/** Returns invalid values for a kind of argument, by the expected error. */
function wrongFor(kind: Kind): {
  TypeError: readonly (readonly [string, unknown])[]
  RangeError?: readonly (readonly [string, unknown])[]
} {
  switch (kind) {
    case "integer":
      return { TypeError: [...nothing, text, list, bytes, none], RangeError: [...ofNoRange, ...ofNoInteger] }
    case "long":
      return { TypeError: [...nothing, text, list, bytes, none], RangeError: [...ofNoRange, ...ofNoLong] }
    case "zero or one":
      return { TypeError: [...nothing, text, list, bytes, none], RangeError: [...ofNoRange, ["-1", -1], ["2", 2]] }
    case "text":
      return { TypeError: [...nothing, number, list, bytes, none, ["a text object", Object("1")]] }
    case "text or null":
      return { TypeError: [...nothing, number, list, bytes] }
    case "texts":
      return {
        TypeError: [
          ...nothing,
          text,
          number,
          list,
          bytes,
          none,
          ["a hole among texts", new Array(1)],
          ["undefined among texts", ["a", undefined]],
        ],
      }
    case "array":
      return { TypeError: [...noArray, ["a detached array", detached()]] }
    default: {
      const least = Number.parseInt(kind, 10)
      const short: [string, unknown][] = [
        ["an empty array", new Uint8Array()],
        ["a byte less", new Uint8Array(least - 1)],
        ["a part that is too short, of an array that is not", new Uint8Array(400).subarray(0, least - 1)],
        ["fewer bytes in as many elements", new Uint8Array(least / 4)],
      ]
      const long: [string, unknown][] = kind.endsWith("exactly") ? [["a byte more", new Uint8Array(least + 1)]] : []
      return { TypeError: [...noArray, ["a detached array", detached()]], RangeError: [...short, ...long] }
    }
  }
}

const examples: Readonly<Record<string, unknown>> = {
  integer: -1,
  long: 0,
  text: "\0",
  texts: ["\0"],
  "text or null": null,
  array: new Uint8Array(64),
  "zero or one": 0,
}
const exampleOf = (kind: Kind) => (kind in examples ? examples[kind] : new Uint8Array(Number.parseInt(kind, 10)))

/** Returns calls with every invalid value in every position, each with the expected error. */
function* wrongCalls(): Generator<{ name: string; values: unknown[]; call: keyof Engine; expected: string }> {
  for (const [call, kinds = []] of Object.entries(parameters) as [keyof Engine, readonly Kind[]][]) {
    for (const [at, kind] of kinds.entries()) {
      const good = kinds.map(exampleOf)
      for (const [expected, wrong] of Object.entries(wrongFor(kind))) {
        for (const [what, value] of wrong) {
          const name = `${call}, argument ${at + 1}: ${what}`
          yield { name, values: good.map((example, other) => (other === at ? value : example)), call, expected }
        }
      }
      yield { name: `${call}, ${at} arguments`, values: good.slice(0, at), call, expected: "TypeError" }
    }
  }
}

export function argumentAnswers(engine: Engine): Record<string, string> {
  const answers: Record<string, string> = {}
  for (const { name, call, values } of wrongCalls()) {
    try {
      const answer = (engine[call] as (...values: unknown[]) => unknown)(...values)
      answers[name] = `nothing; it answered ${String(answer)}`
    } catch (error) {
      answers[name] = error instanceof Error ? error.name : "no error"
    }
  }
  return answers
}

export function expectedForArguments(): Record<string, string> {
  return Object.fromEntries([...wrongCalls()].map(({ name, expected }) => [name, expected]))
}
