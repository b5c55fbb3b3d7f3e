import { expect, test } from "bun:test"
import { type ErrnoName, errnoNumber } from "../../pkg/libc/mod.ts"
import { isPending, outcomeOf } from "./probe.ts"

// All errors of connect(2), tcp(7), ip(7) and ipv6(7), and those that packet filters and BPF programs return.
test.each<[ErrnoName, string]>([
  ["ECONNREFUSED", "refused"],
  ["ECONNRESET", "refused"],
  ["ETIMEDOUT", "no answer"],
  ["EACCES", "unreachable"],
  ["EPERM", "unreachable"],
  ["EADDRINUSE", "unreachable"],
  ["EADDRNOTAVAIL", "unreachable"],
  ["EAFNOSUPPORT", "unreachable"],
  ["EAGAIN", "unreachable"],
  ["EALREADY", "unreachable"],
  ["EBADF", "unreachable"],
  ["ECONNABORTED", "unreachable"],
  ["EFAULT", "unreachable"],
  ["EHOSTDOWN", "unreachable"],
  ["EHOSTUNREACH", "unreachable"],
  ["EINVAL", "unreachable"],
  ["EISCONN", "unreachable"],
  ["ENETDOWN", "unreachable"],
  ["ENETUNREACH", "unreachable"],
  ["ENOBUFS", "unreachable"],
  ["ENODEV", "unreachable"],
  ["ENOMEM", "unreachable"],
  ["ENONET", "unreachable"],
  ["ENOPROTOOPT", "unreachable"],
  ["ENOTCONN", "unreachable"],
  ["ENOTSOCK", "unreachable"],
  ["EOPNOTSUPP", "unreachable"],
  ["EPROTO", "unreachable"],
  ["EPROTOTYPE", "unreachable"],
])("%s of connect ends a probe: %s", (name, outcome) => {
  expect([isPending(errnoNumber(name)), outcomeOf(errnoNumber(name))]).toEqual([false, outcome as never])
})

test.each<ErrnoName>(["EINPROGRESS", "EINTR"])("%s of connect is waited for", (name) => {
  expect(isPending(errnoNumber(name))).toBe(true)
})
