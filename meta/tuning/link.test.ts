import { expect, test } from "bun:test"
import type { Ifindex, Link } from "../../pkg/netlink/mod.ts"
import { hasValues, valuesOf } from "./link.ts"

const link: Link = {
  index: 2 as Ifindex,
  name: "eth0",
  flags: 0x1043,
  type: 1,
  mac: "0a:00:00:00:00:01",
  mtu: 1500,
  kind: "veth",
  attributes: { txQueueLength: 1000 },
}

test("the values of a link are those that were set", () => {
  expect(valuesOf(link)).toEqual({ mac: "0a:00:00:00:00:01", promisc: false, mtu: 1500, allmulti: false, txQLen: 1000 })
  expect(valuesOf({ ...link, flags: 0x1043 | 0x100 | 0x200 })).toMatchObject({ promisc: true, allmulti: true })
})

test("a link that is promiscuous for a capture is not switched to it", () => {
  expect(valuesOf({ ...link, attributes: { promiscuity: 2, allMulti: 1 } })).toMatchObject({
    promisc: false,
    allmulti: false,
  })
})

test("zero and false are values, undefined means no value", () => {
  expect(hasValues({ txQLen: 0 })).toBe(true)
  expect(hasValues({ allmulti: false })).toBe(true)
  expect(hasValues({ mac: undefined })).toBe(false)
})
