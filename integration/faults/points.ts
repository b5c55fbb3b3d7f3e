import { constants } from "node:os"
import type { Chance } from "../lab/mod.ts"

/** A system call of a plugin, as `fault-at` prints it. */
export interface Call {
  readonly number: number
  /** The index of the call among the plugin's calls with the same number. */
  readonly nth: number
  /** The kind of the call: "netlink", "peek", "writing", "reading", "standard" for stdin, stdout and stderr, or "-". */
  readonly sort: string
  /** A path, the type and flags of a netlink message, or "". */
  readonly about: string
}

/** When the host must be as before a failed ADD: at once, or after DEL if the fault may affect the undo too. */
export type Owed = "at once" | "after DEL"

/** One fault at one system call. */
export interface Point {
  /** The fault as an argument of `fault-at`. */
  readonly fault: string
  readonly call: Call
  /** The error that the plugin receives, if its message must contain the name. */
  readonly errno?: string
  readonly owed: Owed
}

const names: Readonly<Record<number, string>> = {
  0: "read",
  1: "write",
  3: "close",
  7: "poll",
  9: "mmap",
  10: "mprotect",
  11: "munmap",
  12: "brk",
  13: "rt_sigaction",
  14: "rt_sigprocmask",
  16: "ioctl",
  17: "pread",
  18: "pwrite",
  25: "mremap",
  28: "madvise",
  41: "socket",
  44: "sendto",
  45: "recvfrom",
  46: "sendmsg",
  49: "bind",
  53: "socketpair",
  54: "setsockopt",
  58: "vfork",
  61: "wait4",
  62: "kill",
  72: "fcntl",
  73: "flock",
  74: "fsync",
  77: "ftruncate",
  82: "rename",
  84: "rmdir",
  87: "unlink",
  137: "statfs",
  158: "arch_prctl",
  217: "getdents64",
  218: "set_tid_address",
  231: "exit_group",
  257: "open",
  258: "mkdir",
  265: "link",
  266: "symlink",
  267: "readlink",
  280: "utimensat",
  293: "pipe2",
  302: "prlimit64",
  308: "setns",
  318: "getrandom",
  332: "statx",
  434: "pidfd_open",
}

const disk = ["ENOSPC", "EDQUOT", "EROFS"]

/** The errors that each system call can return. Calls without an entry get `ofAnyCall`. */
const errors: Readonly<Record<string, readonly string[]>> = {
  read: ["EIO", "EINTR"],
  write: ["EIO", "ENOSPC", "EDQUOT", "EINTR"],
  close: ["EIO", "EINTR"],
  poll: ["EINTR", "ENOMEM"],
  mmap: ["ENOMEM", "EAGAIN"],
  mremap: ["ENOMEM", "EAGAIN"],
  mprotect: ["ENOMEM"],
  munmap: ["ENOMEM"],
  ioctl: ["EIO", "EBUSY", "ENOMEM", "EINTR"],
  pread: ["EIO", "EINTR"],
  pwrite: ["EIO", "ENOSPC", "EDQUOT", "EINTR"],
  socket: ["EMFILE", "ENOMEM", "ENOBUFS", "EPERM", "EACCES"],
  sendto: ["ENOBUFS", "ENOMEM", "EINTR", "EPERM"],
  recvfrom: ["ENOBUFS", "ENOMEM", "EINTR", "EAGAIN"],
  sendmsg: ["ENOBUFS", "ENOMEM", "EINTR"],
  bind: ["ENOMEM", "ENOBUFS", "EACCES"],
  socketpair: ["EMFILE", "ENOMEM"],
  setsockopt: ["ENOMEM", "ENOBUFS", "EPERM"],
  vfork: ["EAGAIN", "ENOMEM"],
  wait4: ["EINTR"],
  kill: ["EPERM"],
  fcntl: ["EAGAIN", "EINTR", "ENOMEM"],
  flock: ["EINTR", "EAGAIN"],
  fsync: ["EIO", ...disk, "EINTR"],
  ftruncate: ["EIO", "EINTR", "EPERM"],
  rename: ["EIO", "ENOMEM", "EPERM", "EACCES", "EBUSY", ...disk],
  rmdir: ["EIO", "ENOMEM", "EPERM", "EACCES", "EBUSY", "EROFS"],
  unlink: ["EIO", "ENOMEM", "EPERM", "EACCES", "EBUSY", "EROFS"],
  getdents64: ["EIO"],
  mkdir: ["EIO", "ENOMEM", "EPERM", "EACCES", ...disk],
  link: ["EIO", "ENOMEM", "EPERM", "EACCES", ...disk],
  symlink: ["EIO", "ENOMEM", "EPERM", "EACCES", ...disk],
  readlink: ["EIO", "EACCES", "ENOMEM"],
  utimensat: ["EPERM", "EACCES", "EROFS"],
  pipe2: ["EMFILE", "ENOMEM"],
  prlimit64: ["EPERM"],
  setns: ["EPERM", "ENOMEM", "EMFILE"],
  getrandom: ["EINTR"],
  statx: ["EIO", "EACCES", "ENOMEM", "EINTR"],
  statfs: ["EIO", "EACCES", "ENOMEM", "EINTR"],
  pidfd_open: ["EMFILE", "ENOMEM"],
  // Calls that cannot fail, and calls of which no program checks the error.
  arch_prctl: [],
  set_tid_address: [],
  exit_group: [],
  rt_sigaction: [],
  rt_sigprocmask: [],
  brk: [],
  madvise: [],
}
const ofAnyCall = ["ENOMEM", "EPERM"]
/** The numbers of getpid, getppid and gettid. */
const cannotFail: ReadonlySet<number> = new Set([39, 110, 186])
/** Errors that messages describe in better words than their name. */
const words: ReadonlySet<string> = new Set(["EEXIST", "ENODEV"])
const ends = ["lose", "never"] as const
const answers = ["changed", "changing", "short", "twice", "stray"] as const

/** Returns the name of a system call for messages. */
export function nameOf({ number, about }: Call): string {
  return `${names[number] ?? `call ${number}`}${about === "" ? "" : ` (${about})`}`
}

function plausible(call: Call): readonly string[] {
  const name = names[call.number] ?? ""
  if (cannotFail.has(call.number)) return []
  // For /proc/sys, which has no disk, EIO means that a setting has no readable value.
  if (call.about.startsWith("/proc/sys") && name === "read") return ["ENOMEM", "EINTR"]
  if (call.about.startsWith("/proc/sys") && name === "write") return ["ENOMEM", "EINTR", "EIO"]
  // open(2) of a setting never returns EIO.
  if (call.sort !== "writing" && call.about.startsWith("/proc/sys") && name === "open")
    return ["EMFILE", "EACCES", "ENOMEM", "EINTR"]
  // Missing write permission of settings has its own tests, because for some settings even DEL ignores the error.
  if (call.sort === "writing" && call.about.startsWith("/proc/sys")) return ["EMFILE", "ENOMEM", "EINTR", "EIO"]
  if (name === "open")
    return call.sort === "writing"
      ? ["EMFILE", "EACCES", "ENOMEM", "EINTR", "EIO", ...disk]
      : ["EMFILE", "EACCES", "ENOMEM", "EIO", "EINTR"]
  if (name === "write" && call.sort === "standard") return ["EIO", "ENOSPC", "EINTR", "EAGAIN"]
  return errors[name] ?? ofAnyCall
}

/**
 * Returns the errors for a netlink request. Only requests that create an object get EEXIST, because a plugin may rely
 * on ENOENT and EEXIST.
 */
function refusalsOf({ about }: Call): readonly string[] {
  const [, type, flags = ""] = /^type (\d+) flags (\w+)/.exec(about) ?? []
  const makes = Number(type) < 256 && (Number.parseInt(flags, 16) & 0x600) === 0x600 // NLM_F_CREATE | NLM_F_EXCL
  return ["EBUSY", "EPERM", "ENOBUFS", "ENOMEM", ...(makes ? ["EEXIST", "ENODEV"] : [])]
}

/**
 * Reports whether a call sends NFNL_MSG_BATCH_BEGIN, which the kernel does not answer. A refused transaction changes
 * nothing.
 */
function beginsTransaction({ about }: Call): boolean {
  return about === "type 16 flags 1"
}

/** Reports whether the plugin takes an error to mean that a setting has no readable value. */
function saysNoValue({ about }: Call, errno: string): boolean {
  return about.startsWith("/proc/sys") && (errno === "EIO" || errno === "EACCES")
}

/** Parses the system calls that `fault-at` prints. */
export function parseCalls(list: string): Call[] {
  return [...list.matchAll(/^(\d+) (\d+) (\S+) (.*)$/gm)].map(([, number, nth, sort = "", about = ""]) => ({
    number: Number(number),
    nth: Number(nth),
    sort,
    about,
  }))
}

/**
 * Returns a point for every error of every call and for every fault of netlink requests and answers. Some faults
 * persist from their call on.
 */
export function pointsOf(calls: readonly Call[], chance: Chance): Point[] {
  return calls.flatMap((call) => {
    const number = (name: string) => constants.errno[name as keyof typeof constants.errno] ?? 0
    const place = `${call.number}:${call.nth}`
    const possible = plausible(call)
    const points: Point[] = possible.map((errno) => {
      const fault = `fail:${place}:${number(errno)}`
      return { fault, call, owed: "at once", ...(saysNoValue(call, errno) ? {} : { errno }) }
    })
    if (possible.length === 0) return points
    const some = chance.of(possible.filter((errno) => errno !== "EINTR").concat(possible.length === 1 ? possible : []))
    points.push({
      fault: `fail:${place}:${number(some)},then:${1 + chance.below(6)}:${number("ENOMEM")}`,
      call,
      owed: "after DEL",
    })
    if (some !== "EINTR") points.push({ fault: `always:${place}:${number(some)}`, call, owed: "after DEL" })
    if (possible.includes("ENOSPC") && call.sort !== "standard") {
      points.push({ fault: `disk:${place}:${number("ENOSPC")}`, call, errno: "ENOSPC", owed: "at once" })
    }
    if (call.sort !== "netlink") return points
    if (names[call.number] === "sendto") {
      for (const errno of refusalsOf(call))
        points.push({
          fault: `refuse:${place}:${number(errno)}`,
          call,
          owed: "at once",
          ...(words.has(errno) ? {} : { errno }),
        })
      for (const errno of ["EBUSY", "ENOMEM"])
        points.push({
          fault: `lie:${place}:${number(errno)}`,
          call,
          errno,
          owed: beginsTransaction(call) ? "after DEL" : "at once",
        })
      for (const kind of ends) points.push({ fault: `${kind}:${place}`, call, owed: "at once" })
    } else {
      for (const kind of answers)
        points.push({ fault: `${kind}:${place}`, call, owed: kind === "changing" ? "after DEL" : "at once" }) // permanent
    }
    return points
  })
}
