import { expect, test } from "bun:test"
import { FileDescriptor, Open, statOpen } from "../libc/mod.ts"
import { NETLINK_ROUTE } from "./socket.ts"
import { KernelTransport } from "./transport.ts"

test.each([
  ["left", (transport: KernelTransport) => transport.leave()],
  ["closed", (transport: KernelTransport) => transport[Symbol.dispose]()],
] as const)("a socket that was %s is done with: what has its number by now stays open", (_, end) => {
  const transport = new KernelTransport(NETLINK_ROUTE)
  end(transport)
  using other = FileDescriptor.open("/dev/null", Open.ReadOnly)
  expect(other.fd).toBe(transport.fd)
  transport.leave()
  transport[Symbol.dispose]()
  expect(statOpen(other.fd).inode).toBeGreaterThan(0n)
})
