import { ptr } from "bun:ffi"
import { addressOf, call, callC, SYS } from "./bun-calls.ts"
import { bytesOf, int32, integer, rawBytes, requireBytes } from "./calls.ts"
import type { TypedArray } from "./engine.ts"

/**
 * System calls that the letters in `calls.ts` cannot describe, such as those with addresses in structs. See `Engine`.
 */

export function ioctlIfreq(fd: number, request: number, ifreq: TypedArray): number {
  return call("ioctl", fd, request, addressOf(requireBytes(ifreq, 40)))
}

export function ioctlWinsize(fd: number, request: number, winsize: TypedArray): number {
  return call("ioctl", fd, request, addressOf(requireBytes(winsize, 8)))
}

export function poll(requests: TypedArray, timeoutMs: number): number {
  const bytes = bytesOf(requests)
  integer(timeoutMs, -1, 2 ** 31 - 1)
  return callC("poll", addressOf(bytes), Math.floor(bytes.byteLength / 8), timeoutMs)
}

export function pidfdOpen(pid: number, flags: number): number {
  return callC("syscall", SYS.pidfd_open, int32(pid) | 0, int32(flags) | 0, 0, 0)
}

/** The size in bytes of a set of 64 signals in the kernel. The C library's set is larger. */
const SIGNAL_SET = 8

export function changeSignalMask(how: number, set: TypedArray, size: number): number {
  return callC("syscall", SYS.rt_sigprocmask, int32(how), ptr(requireBytes(set, SIGNAL_SET)), 0, int32(size))
}

export function signalFd(fd: number, set: TypedArray, size: number, flags: number): number {
  const bytes = requireBytes(set, SIGNAL_SET)
  return callC("syscall", SYS.signalfd4, int32(fd) | 0, ptr(bytes), int32(size), int32(flags))
}

/** Returns the SHA-256 of a whole file; see `Engine`. */
export function sha256(fd: number, into: TypedArray): number {
  const [file, target, buffer] = [int32(fd), rawBytes(requireBytes(into, 32)), new Uint8Array(1 << 20)]
  const hash = new Bun.CryptoHasher("sha256")
  for (let at = 0; ; ) {
    const got = call("pread", file, buffer, at)
    if (got < 0) return got
    if (got === 0) break
    hash.update(buffer.subarray(0, got))
    at += got
  }
  target.set(hash.digest())
  return 0
}

/** Attaches a filter by struct sock_fprog of 64-bit Linux, <linux/filter.h>, with the instructions' address. */
export function attachFilter(fd: number, instructions: TypedArray): number {
  const socket = int32(fd) | 0
  const bytes = bytesOf(instructions)
  if (bytes.byteLength > 4096 * 8) throw new RangeError("expected 4096 instructions at most")
  const address = bytes.byteLength === 0 ? 0 : ptr(bytes)
  const program = new BigUint64Array([BigInt(bytes.byteLength >> 3), BigInt(address)])
  return callC("setsockopt", socket, 1, 26, ptr(program), program.byteLength) // SOL_SOCKET, SO_ATTACH_FILTER
}

/** Sends descriptors by struct msghdr and struct cmsghdr of 64-bit Linux, <bits/socket.h>. */
export function sendDescriptors(fd: number, descriptors: TypedArray): number {
  const socket = int32(fd) | 0
  const bytes = bytesOf(descriptors)
  if (bytes.byteLength > 32) throw new RangeError("expected 8 descriptors at most")
  const space = 16 + ((bytes.byteLength + 7) & ~7)
  const control = new Int32Array(space / 4)
  control.set([16 + bytes.byteLength, 0, 1, 1]) // the length of 64 bits, SOL_SOCKET, SCM_RIGHTS
  new Uint8Array(control.buffer).set(rawBytes(bytes), 16)
  const message = new BigUint64Array([0n, 0n, 0n, 0n, BigInt(ptr(control)), BigInt(space), 0n])
  return callC("sendmsg", socket, ptr(message), 0)
}
