import { expect, test } from "bun:test"
import { u32 } from "../netlink/mod.ts"
import { hex } from "../netlink/testing.ts"
import { dataTypes, ifnameValue, joinParts, keyLength, splitParts, typeId } from "./data-types.ts"

// The values as `nft` prints them: NFPROTO_*, IPPROTO_*, IP_CT_* and IPS_* of <linux/netfilter/nf_conntrack_common.h>,
// RTN_*.
test.each<[keyof typeof dataTypes, Uint8Array, string]>([
  ["family", hex`02`, "ipv4"],
  ["family", hex`0a`, "ipv6"],
  ["family", hex`07`, "7"],
  ["ipv4", hex`0a010002`, "10.1.0.2"],
  ["ipv6", hex`fd000000000000000000000000000002`, "fd00::2"],
  ["ether", hex`0a580a010203`, "0a:58:0a:01:02:03"],
  ["protocol", hex`01`, "icmp"],
  ["protocol", hex`06`, "tcp"],
  ["protocol", hex`11`, "udp"],
  ["protocol", hex`3a`, "ipv6-icmp"],
  ["protocol", hex`84`, "sctp"],
  ["protocol", hex`02`, "2"],
  ["port", hex`1f90`, "8080"],
  ["mark", u32.encode(0x2000), "0x2000"],
  ["ifindex", u32.encode(258), "258"],
  ["ctState", u32.encode(1 | 2 | 4 | 8 | 64), "invalid,established,related,new,untracked"],
  ["ctState", u32.encode(6), "established,related"],
  ["ctState", u32.encode(16), "16"],
  ["ctStatus", u32.encode(1 | 2 | 4 | 8), "expected,seen-reply,assured,confirmed"],
  ["ctStatus", u32.encode(16 | 32 | 512), "snat,dnat,dying"],
  ["ctStatus", u32.encode(0), "0"],
  ["ctDirection", hex`00`, "original"],
  ["ctDirection", hex`01`, "reply"],
  ["addressType", u32.encode(1), "unicast"],
  ["addressType", u32.encode(2), "local"],
  ["addressType", u32.encode(3), "broadcast"],
  ["addressType", u32.encode(5), "multicast"],
  ["addressType", u32.encode(6), "6"],
  ["ifname", hex`65746830 00000000 00000000 00000000`, '"eth0"'],
])("a value of %s, %p, reads as %s", (name, value, text) => {
  expect(dataTypes[name].print(value)).toBe(text)
})

test("the name of an interface is filled up with zeros to 16 bytes", () => {
  expect(ifnameValue("eth0")).toEqual(hex`65746830 00000000 00000000 00000000`)
  expect(ifnameValue("fifteen-bytes15")).toHaveLength(16)
  expect(() => ifnameValue("sixteen-bytes-16")).toThrow(
    'interface name "sixteen-bytes-16" has 16 bytes: at most 15 fit',
  )
})

const { ipv4, port, protocol, ether } = dataTypes

test("the parts of a key begin at multiples of four bytes; one alone is as long as it is", () => {
  const parts = [hex`06`, hex`1f90`, hex`0a580a010203`]
  const whole = hex`06000000 1f900000 0a580a01 02030000`
  expect(joinParts([protocol, port, ether], parts)).toEqual(whole)
  expect(splitParts([protocol, port, ether], whole)).toEqual(parts)
  expect(joinParts([port], [hex`1f90`])).toEqual(hex`1f90`)
  expect([keyLength([]), keyLength([port]), keyLength([port, port]), keyLength([ether, ipv4])]).toEqual([0, 2, 8, 12])
})

test("a part of another size than its type's, or one too many, is refused", () => {
  expect(() => joinParts([port, ipv4], [hex`1f90`])).toThrow("expected 2 values, found 1")
  expect(() => joinParts([port], [hex`1f`])).toThrow("inet_service has 2 bytes, found 1")
})

// The number of a concatenation has six bits for each part, the first in the highest bits: 12 << 6 | 13.
test("a type of several parts has a number of theirs", () => {
  expect([typeId([port]), typeId([protocol, port]), typeId([ipv4, protocol, port])]).toEqual([13, 781, 29_453])
})
