// Replaces the engine's functions: records what a plugin call changes, and garbles one of its inputs. It must be
// imported before everything else, because modules copy some of these functions when they are loaded.
import type { Engine, TypedArray } from "../../../pkg/engine/engine.ts"
import { Chance } from "../../lab/chance.ts"
import { garbleMore, garbleNetlink, garbleText } from "./bytes.ts"
import type { Garbling, Source } from "./case.ts"

declare const host: { -readonly [K in keyof Engine]: Engine[K] }

/** The original functions of the engine, which are not enumerable. */
const real = Object.fromEntries(
  Object.getOwnPropertyNames(host).map((name) => [name, host[name as keyof Engine]]),
) as unknown as Engine
const AF_UNIX = 1
const AF_NETLINK = 16
const MSG_PEEK = 2
const O_CREAT_OR_TRUNC = 0o1100
/** A descriptor number that the kernel never returns. */
const SCRIPTED = 900_000_000

interface Opened {
  readonly what: "netlink" | "unix" | "file" | "pipe"
  /** A path, or the netlink protocol. */
  readonly name: string
  /** The bytes that replace the file's content. */
  content?: Uint8Array
  at: number
}

const opened = new Map<number, Opened>()
let changes: string[] = []
let garbling: Garbling | undefined
let seen = 0
let touched: string | undefined
let script: Uint8Array | undefined
let hurried = 0

/** The observations of one plugin call. */
export interface Seen {
  /** The requests with effects, the written files and the started programs. */
  readonly changes: readonly string[]
  /** The input that was garbled, or undefined if the call ended before that input. */
  readonly touched: string | undefined
}

/** Runs a plugin call with one of its inputs garbled, and shortens its waits. */
export function watch<T>(asked: Garbling | undefined, run: () => T): Seen & { readonly value: T } {
  ;[changes, garbling, seen, touched] = [[], asked, 0, undefined]
  try {
    const value = run()
    return { value, changes, touched }
  } finally {
    garbling = undefined
  }
}

/** Runs a function while every request to a server is answered with these bytes. */
export function serving<T>(bytes: Uint8Array, run: () => T): T {
  script = bytes
  try {
    return run()
  } finally {
    script = undefined
  }
}

/** Reports whether this is the input to garble. */
function isNext(source: Source, name: string): boolean {
  if (garbling?.source !== source || seen++ !== garbling.nth) return false
  touched = `${source} ${name}`
  return true
}

const chance = () => new Chance((garbling?.seed ?? 0) + 1)
const isHurried = () => garbling !== undefined || script !== undefined

function viewOf(array: TypedArray, length = array.byteLength): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, Math.min(length, array.byteLength))
}

host.open = (path, flags, mode) => {
  const fd = real.open(path, flags, mode)
  if (flags & O_CREAT_OR_TRUNC) changes.push(`open ${path}`)
  if (fd < 0) return fd
  const file: Opened = { what: "file", name: path, at: 0 }
  opened.set(fd, file)
  if ((flags & 3) === 0 && !path.endsWith("/ns/net") && isNext("file", path)) file.content = garbledContent(fd)
  return fd
}

/** Returns a file's content with an error in it. */
function garbledContent(fd: number): Uint8Array {
  const buffer = new Uint8Array(1 << 17)
  let length = 0
  for (let count = 1; count > 0 && length < buffer.length; length += Math.max(0, count))
    count = real.read(fd, buffer.subarray(length))
  const bytes = buffer.slice(0, length)
  const by = chance()
  return by.below(2) === 0 ? garbleMore(by, bytes) : real.encodeUtf8(garbleText(by, real.decodeUtf8(bytes)))
}

function readFrom(file: Opened & { content: Uint8Array }, into: TypedArray, at: number): number {
  const part = file.content.subarray(at, at + into.byteLength)
  viewOf(into).set(part)
  return part.length
}

host.read = (fd, into) => {
  if (fd === SCRIPTED) return readScript(into)
  const from = opened.get(fd)
  if (from?.content) {
    const count = readFrom(from as Opened & { content: Uint8Array }, into, from.at)
    from.at += count
    return count
  }
  const count = real.read(fd, into)
  if (count <= 0 || from?.what !== "pipe" || !isNext("output", "of a program")) return count
  const garbled = garbleMore(chance(), viewOf(into, count).slice()).subarray(0, into.byteLength)
  viewOf(into).set(garbled)
  return garbled.length
}

function readScript(into: TypedArray): number {
  const part = (script ?? new Uint8Array()).subarray(0, into.byteLength)
  viewOf(into).set(part)
  script = script?.subarray(part.length)
  return part.length
}

host.pread = (fd, into, offset) => {
  const from = opened.get(fd)
  return from?.content ? readFrom(from as Opened & { content: Uint8Array }, into, offset) : real.pread(fd, into, offset)
}

host.close = (fd) => {
  opened.delete(fd)
  return fd === SCRIPTED ? 0 : real.close(fd)
}

host.socket = (family, type, protocol) => {
  if (family === AF_UNIX && script) return SCRIPTED
  const fd = real.socket(family, type, protocol)
  if (fd >= 0) opened.set(fd, { what: family === AF_NETLINK ? "netlink" : "unix", name: String(protocol), at: 0 })
  return fd
}

host.connect = (fd, address) => (fd === SCRIPTED ? 0 : real.connect(fd, address))

host.pipe2 = (pair, flags) => {
  const result = real.pipe2(pair, flags)
  if (result === 0) opened.set((pair as Int32Array)[0] ?? -1, { what: "pipe", name: "", at: 0 })
  return result
}

host.sendto = (fd, bytes, flags) => {
  const socket = opened.get(fd)
  if (socket?.what === "netlink" && isChange(socket.name, viewOf(bytes)))
    changes.push(`a request of netlink ${socket.name}`)
  return real.sendto(fd, bytes, flags)
}

/**
 * Reports whether a netlink request changes something, by its type: <linux/rtnetlink.h>, <linux/netfilter/nf_tables.h>,
 * …/nfnetlink_conntrack.h.
 */
function isChange(protocol: string, request: Uint8Array): boolean {
  const [low = 0, high = 0] = request.subarray(4)
  if (protocol === "0") return (low & 3) !== 2 || high !== 0
  const gets = high === 10 ? [1, 4, 7, 10, 13, 16, 19, 23] : [1]
  return high === 0 || !gets.includes(low)
}

host.recvfrom = (fd, into, flags, from) => {
  const count = real.recvfrom(fd, into, flags, from)
  if (count <= 0 || flags & MSG_PEEK || opened.get(fd)?.what !== "netlink" || !isNext("netlink", "answer")) return count
  const garbled = garbleNetlink(chance(), viewOf(into, count).slice()).subarray(0, into.byteLength)
  viewOf(into).set(garbled)
  return garbled.length
}

host.wait4 = (pid, status, options) => {
  const result = real.wait4(pid, status, options)
  if (result > 0 && isNext("status", "of a program"))
    viewOf(status)[chance().below(2)] = chance().of([0, 1, 2, 9, 11, 127, 255])
  return result
}

host.poll = (requests, timeoutMs) => {
  const scripted = requests.byteLength > 0 && requests[0] === SCRIPTED
  if (!scripted) return real.poll(requests, isHurried() ? Math.min(timeoutMs < 0 ? 2000 : timeoutMs, 2000) : timeoutMs)
  const view = new Int32Array(requests.buffer, requests.byteOffset, 2)
  view[1] = ((view[1] ?? 0) & 0xffff) | ((view[1] ?? 0) << 16)
  return 1
}

/** A clock with which every deadline passes soon, because an expected event may never happen. */
host.monotonicMs = () => {
  if (isHurried()) hurried += 100
  return real.monotonicMs() + hurried
}

host.setsockopt = (fd, level, option, value) => {
  const isTimeout = level === 1 && option === 20 // SO_RCVTIMEO
  return real.setsockopt(fd, level, option, isTimeout && isHurried() ? new Uint32Array([0, 0, 20_000, 0]) : value)
}

host.write = (fd, bytes) => {
  if (fd === SCRIPTED) return bytes.byteLength
  const to = opened.get(fd)
  if (to?.what === "file") changes.push(`write ${to.name}`)
  return real.write(fd, bytes)
}

function noting<
  K extends
    | "pwrite"
    | "ftruncate"
    | "linkat"
    | "mkdirat"
    | "rename"
    | "unlink"
    | "rmdir"
    | "utimensat"
    | "startProcess"
    | "ioctlIfreq",
>(name: K): void {
  const call = real[name] as (...values: unknown[]) => number
  host[name] = ((...values: unknown[]) => {
    changes.push(`${name} ${typeof values[0] === "number" ? opened.get(values[0])?.name : values[0]}`)
    return call(...values)
  }) as (typeof host)[K]
}

for (const name of [
  "pwrite",
  "ftruncate",
  "linkat",
  "mkdirat",
  "rename",
  "unlink",
  "rmdir",
  "utimensat",
  "startProcess",
  "ioctlIfreq",
] as const)
  noting(name)
