import { expect, test } from "bun:test"
import type { Ifindex } from "../../../pkg/netlink/mod.ts"
import { reportsCarrier } from "./sockets.ts"

// struct nlmsghdr, struct ifinfomsg: recorded with `strace -x -e recvfrom` while the other end of the pair was a port
// of a bridge.
const event = (flags: string, change: string, type = "1000") =>
  Uint8Array.fromHex(`20000000${type}0000${"0".repeat(16)}0000010002000000${flags}${change}`)

test.each([
  ["set up, no carrier yet", "03100000", "01000000", false],
  ["set up, running from before it was set down", "43100100", "01000000", false],
  ["the kernel has dealt with the carrier", "43100100", "00000000", true],
  ["the carrier was lost", "03100000", "00000000", false],
])("an event of a link: %s", (_, flags, change, expected) => {
  expect(reportsCarrier(event(flags, change), 2 as Ifindex)).toBe(expected)
  expect(reportsCarrier(event(flags, change), 3 as Ifindex)).toBe(false)
  expect(reportsCarrier(event(flags, change, "1400"), 2 as Ifindex)).toBe(false) // RTM_NEWADDR
  expect(reportsCarrier(event(flags, change).subarray(0, 31), 2 as Ifindex)).toBe(false)
})
