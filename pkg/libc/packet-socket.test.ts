import { expect, test } from "bun:test"
import { encodeFilter } from "./packet-socket.ts"

// struct sock_filter, <linux/filter.h>: __u16 code; __u8 jt, jf; __u32 k, in the machine's order.
test("a filter is its instructions, eight bytes each", () => {
  const filter = encodeFilter([
    [0x28, 0, 0, 12],
    [0x15, 1, 2, 0x88b5],
    [0xff06, 3, 255, 0xffffffff],
  ])
  expect(filter.toHex()).toBe("280000000c000000" + "15000102b5880000" + "06ff03ffffffffff")
  expect(encodeFilter([])).toHaveLength(0)
})
