import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { formatAttribute, parseAttributes } from "netlink/dist/structs"
import { align, attribute, attrs, forEachAttribute, listOf, readAttributes } from "./attrs.ts"
import { bytes, concat, DecodeError, flag, text } from "./codec.ts"
import { struct, u8, u16, u16be, u32 } from "./integers.ts"
import { expectOnlyDecodeErrors, hex } from "./testing.ts"

// IFLA_INFO_DATA of kind "vlan", <linux/if_link.h>
const vlanData = attrs({
  id: [1, u16],
  flags: [2, struct({ flags: u32, mask: u32 })],
  protocol: [5, u16be],
})
const linkInfo = attrs({ kind: [1, text], data: [2, vlanData] })

describe("a table", () => {
  // ip link add link eth0 name v type vlan protocol 802.1Q id 101 reorder_hdr on
  test("writes each attribute with length, number and padding, in the order of the value", () => {
    const wire = hex`
      0600 0100 6500 0000          # IFLA_VLAN_ID 101, two bytes of padding
      0c00 0200 01000000 ffffffff  # IFLA_VLAN_FLAGS, struct ifla_vlan_flags
      0600 0500 8100 0000          # IFLA_VLAN_PROTOCOL 802.1Q, network order`
    const value = { id: 101, flags: { flags: 1, mask: 0xffffffff }, protocol: 0x8100 }
    expect(vlanData.encode(value)).toEqual(wire)
    expect(vlanData.decode(wire)).toEqual(value)
    expect(vlanData.encode({ protocol: 0x8100, id: 101 })).toEqual(hex`0600 0500 8100 0000 0600 0100 6500 0000`)
  })

  test("inside a table carries NLA_F_NESTED, and is read with or without it", () => {
    const wire = hex`
      0900 0100 766c616e00 000000  # IFLA_INFO_KIND
      0c00 0280 0600 0100 6500 0000  # IFLA_INFO_DATA | NLA_F_NESTED`
    expect(linkInfo.encode({ kind: "vlan", data: { id: 101 } })).toEqual(wire)
    expect(linkInfo.decode(wire)).toEqual({ kind: "vlan", data: { id: 101 } })
    expect(linkInfo.decode(hex`0c00 0200 0600 0100 6500 0000`)).toEqual({ data: { id: 101 } })
    expect(linkInfo.decode(hex`0900 0140 766c616e00 000000`)).toEqual({ kind: "vlan" }) // NLA_F_NET_BYTEORDER
  })

  test("leaves out what is undefined, and sends what is zero", () => {
    expect(vlanData.encode({ id: 0, protocol: undefined })).toEqual(hex`0600 0100 0000 0000`)
    expect(vlanData.encode({})).toEqual(hex``)
    expect(attrs({ on: [4, flag] }).encode({ on: true })).toEqual(hex`0400 0400`)
    expect(attrs({ on: [4, flag] }).decode(hex`0400 0400`)).toEqual({ on: true })
  })

  test("keeps attributes that it does not know, and sends them back", () => {
    const wire = hex`0600 0100 6500 0000 0700 0900 010203 00`
    const value = vlanData.decode(wire)
    expect(value).toEqual({ id: 101, unknown: [{ type: 9, payload: hex`010203` }] })
    expect(vlanData.encode(value)).toEqual(wire)
    wire.fill(0xff)
    expect(value.unknown?.[0]?.payload).toEqual(hex`010203`)
  })

  test("takes a number beyond eight bits for another attribute", () => {
    expect(vlanData.decode(hex`0600 0101 6500 0000`)).toEqual({ unknown: [{ type: 0x101, payload: hex`6500` }] })
    expect(vlanData.decode(hex`0600 0002 6500 0000`)).toEqual({ unknown: [{ type: 0x200, payload: hex`6500` }] })
    const far = attrs({ far: [0x102, u16] })
    expect(far.decode(hex`0600 0201 6500 0000`)).toEqual({ far: 101 })
    expect(far.encode({ far: 101 })).toEqual(hex`0600 0201 6500 0000`)
  })

  test("takes the last of an attribute that comes twice, as the kernel does", () => {
    expect(vlanData.decode(hex`0600 0100 0100 0000 0600 0100 0200 0000`)).toEqual({ id: 2 })
  })

  test("refuses a property that it does not have", () => {
    const value: object = { vlan: 1 }
    expect(() => vlanData.encode(value)).toThrow('no attribute is called "vlan"')
  })

  test("refuses an attribute of a wrong length", () => {
    expect(() => vlanData.decode(hex`0800 0100 65000000`)).toThrow("expected 2 bytes, found 4")
  })
})

// NFTA_SET_ELEM_LIST_ELEMENTS contains several NFTA_LIST_ELEM 1, <linux/netfilter/nf_tables.h>
test("a list has one number for all its entries", () => {
  const numbers = listOf(1, u8)
  expect(numbers.encode([7, 8])).toEqual(hex`0500 0100 07 000000 0500 0100 08 000000`)
  expect(numbers.decode(hex`0500 0100 07 000000 0500 0100 08 000000`)).toEqual([7, 8])
  const tables = listOf(1, attrs({ n: [2, u8] }))
  expect(tables.encode([{ n: 1 }])).toEqual(hex`0c00 0180 0500 0200 01 000000`)
  expect(tables.decode(hex`0c00 0180 0500 0200 01 000000`)).toEqual([{ n: 1 }])
})

describe("attributes", () => {
  test("are read one by one, padding at the end or not", () => {
    expect(readAttributes(hex`0500 0180 07 000000 0400 0200 0500 0300 09`)).toEqual([
      { type: 1, payload: hex`07` },
      { type: 2, payload: hex`` },
      { type: 3, payload: hex`09` },
    ])
    expect(readAttributes(hex``)).toEqual([])
  })

  test("are looked at where they stand, and counted, until one is found", () => {
    const three = hex`0500 0180 07 000000 0400 0200 0500 0300 09`
    const places: [start: number, end: number][] = []
    const look = (from: Uint8Array, last: number) =>
      forEachAttribute(from, (...place) => {
        places.push(place)
        return places.length === last
      })
    expect(look(three, 0)).toBe(3)
    expect(places.splice(0)).toEqual([
      [4, 5],
      [12, 12],
      [16, 17],
    ])
    expect(look(three, 2)).toBe(2)
    expect(look(hex``, 0)).toBe(0)
    expect(() => look(hex`0400 0100 0900 0200 00000000`, 0)).toThrow("the attribute at byte 4 has length 9")
  })

  test("with a length that cannot be are refused", () => {
    expect(() => readAttributes(hex`0300 0100`)).toThrow(
      "the attribute at byte 0 has length 3, but only 4 bytes are left",
    )
    expect(() => readAttributes(hex`0400 0100 0900 0200 00000000`)).toThrow(
      "the attribute at byte 4 has length 9, but only 8 bytes are left",
    )
    expect(() => readAttributes(hex`0000 0000 0000 0000`)).toThrow(DecodeError)
  })

  test("may hold 65531 bytes and no more: the length has 16 bits", () => {
    expect(attribute(1, new Uint8Array(65_531)).subarray(0, 4)).toEqual(hex`ffff 0100`)
    expect(() => attribute(1, new Uint8Array(65_532))).toThrow("attribute 1 has 65532 bytes: at most 65531 fit")
  })

  test("are aligned to four bytes, numbers beyond 31 bits included", () => {
    expect([0, 1, 4, 5, 0xfffffffd].map(align)).toEqual([0, 4, 4, 8, 0x100000000])
  })

  test("are the same bytes in node-netlink", () => {
    const one = fc.record({ type: fc.nat(0x3fff), nested: fc.boolean(), data: fc.uint8Array({ maxLength: 40 }) })
    const check = (items: { type: number; nested: boolean; data: Uint8Array }[]) => {
      const ours = concat(items.map(({ type, nested, data }) => attribute(nested ? type | 0x8000 : type, data)))
      const theirs = items.flatMap((item) => {
        const parts = formatAttribute(item)
        const length = 4 + item.data.length
        return [...parts, new Uint8Array(align(length) - length)]
      })
      expect(ours).toEqual(concat(theirs))
      const read: { type: number; payload: Uint8Array }[] = []
      parseAttributes(Buffer.from(ours), ({ type, data }) => read.push({ type, payload: new Uint8Array(data) }))
      expect(readAttributes(ours)).toEqual(read)
    }
    fc.assert(fc.property(fc.array(one, { maxLength: 6 }), check))
  })
})

test("tables and lists answer any bytes with a value or a DecodeError", () => {
  const good = linkInfo.encode({ kind: "vlan", data: { id: 1, flags: { flags: 1, mask: 1 }, protocol: 0x8100 } })
  expectOnlyDecodeErrors(linkInfo.decode, good)
  expectOnlyDecodeErrors(readAttributes, good)
  expectOnlyDecodeErrors((bytes) => forEachAttribute(bytes, () => false), good)
  expectOnlyDecodeErrors(listOf(1, attrs({ a: [1, u32], b: [2, bytes] })).decode)
})
