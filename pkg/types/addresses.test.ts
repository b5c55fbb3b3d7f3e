import { expect, test } from "bun:test"
import fc from "fast-check"
import { IPv4, IPv4CidrRange, IPv6, IPv6CidrRange, Validator } from "ip-num"
import {
  type Cidr,
  contains,
  formatCidr,
  formatIp,
  formatMac,
  isLinkLocal,
  networkOf,
  nextAddress,
  normalCidr,
  normalIp,
  parseCidr,
  parseIp,
  parseMac,
  sameBytes,
  sameIp,
  unmapped,
} from "./mod.ts"

const number = (bytes: Uint8Array) => bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n)
const bytesOf = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
/** Groups with many zeros and small numbers, so that "::" and short groups are frequent. */
const group = fc.oneof(fc.constant(0), fc.nat(0xffff), fc.nat(15))
const groups = fc.array(group, { minLength: 8, maxLength: 8 })
const soup = fc.string({ unit: fc.constantFrom(..."0123456789abcdefABCDEFg:./% "), maxLength: 24 })

test("IPv4 text reads as ip-num reads it", () => {
  fc.assert(
    fc.property(bytesOf(4), (bytes) => {
      const text = bytes.join(".")
      expect(parseIp(text)).toEqual(bytes)
      expect(number(bytes)).toBe(new IPv4(text).value)
      expect(formatIp(bytes)).toBe(text)
    }),
  )
})

/** Returns the value of an address, without the bits that mark an IPv4-mapped one. */
function numberOf({ value }: IPv6): bigint {
  return value >> 32n === 0xffffn ? value & 0xffffffffn : value
}

test("IPv6 text, with or without ::, reads as ip-num reads it", () => {
  fc.assert(
    fc.property(groups, fc.nat(7), fc.nat(7), (all, from, length) => {
      const hex = all.map((each) => each.toString(16))
      const zeros = hex.slice(from, from + length + 1).every((each) => each === "0")
      const short = zeros ? `${hex.slice(0, from).join(":")}::${hex.slice(from + length + 1).join(":")}` : hex.join(":")
      expect(number(parseIp(short) ?? new Uint8Array())).toBe(numberOf(new IPv6(hex.join(":"))))
      expect(parseIp(short.toUpperCase())).toEqual(parseIp(short))
    }),
  )
})

test("what we write, ip-num and we read back as the same address", () => {
  fc.assert(
    fc.property(groups, (all) => {
      const bytes = Uint8Array.from(all.flatMap((each) => [each >> 8, each & 255]))
      const text = formatIp(bytes)
      expect(parseIp(text)).toEqual(unmapped(bytes))
      if (!text.includes(".")) expect(new IPv6(text).value).toBe(number(bytes))
    }),
  )
})

test("what ip-num refuses as IPv4, we refuse, and the other way round", () => {
  const near = fc.array(fc.oneof(fc.nat(300).map(String), fc.constantFrom("", "01", "+1", "1e1", " 1")), {
    maxLength: 5,
  })
  fc.assert(
    fc.property(near, (parts) => {
      const text = parts.join(".")
      expect(parseIp(text) !== undefined).toBe(/^[\d.]+$/.test(text) && Validator.isValidIPv4String(text)[0])
    }),
  )
})

test("noise never throws, and what is read is a whole address", () => {
  fc.assert(
    fc.property(soup, (text) => {
      const ip = parseIp(text)
      if (ip) expect(sameIp(text, formatIp(ip))).toBe(true)
      const cidr = parseCidr(text)
      if (cidr) expect(parseCidr(formatCidr(cidr))).toEqual(cidr)
    }),
    { numRuns: 2000 },
  )
})

// RFC 5952 section 4
test.each([
  ["2001:0DB8::0001", "2001:db8::1"],
  ["2001:db8:0:0:0:0:2:1", "2001:db8::2:1"],
  ["2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
  ["2001:0:0:1:0:0:0:1", "2001:0:0:1::1"],
  ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
  ["0:0:0:0:0:0:0:0", "::"],
  ["0:0:0:0:0:0:0:1", "::1"],
  ["1:0:0:0:0:0:0:0", "1::"],
  ["64:ff9b::192.0.2.1", "64:ff9b::c000:201"],
  ["::1.2.3.4", "::102:304"],
])("%s is written %s", (text, canonical) => {
  expect(formatIp(parseIp(text) ?? new Uint8Array())).toBe(canonical)
})

test.each([
  "",
  "1.2.3",
  "1.2.3.4.5",
  "1.2.3.256",
  "1.2.3.04",
  "1.2.3.x",
  "1.2.3.4 ",
  "::1%eth0",
  ":",
  ":::",
  "1::2::3",
  "1:2:3:4:5:6:7",
  "1:2:3:4:5:6:7:8:9",
  "1:2:3:4::5:6:7:8",
  ":1:2:3:4:5:6:7",
  "1:2:3:4:5:6:7:",
  "00001::",
  "1.2.3.4::",
  "::1.2.3.4:5",
  "::1.2.3.256",
  "1:2:3:4:5:6:7:1.2.3.4",
  "[::1]",
])("%j is not an address", (text) => {
  expect(parseIp(text)).toBeUndefined()
})

// The results of Go's net.ParseIP and net.IP.String.
test.each([
  ["::ffff:10.9.9.9", "10.9.9.9"],
  ["::FFFF:10.9.9.9", "10.9.9.9"],
  ["::ffff:0a09:0909", "10.9.9.9"],
  ["::ffff:a09:909", "10.9.9.9"],
  ["0:0:0:0:0:ffff:10.9.9.9", "10.9.9.9"],
  ["0::ffff:10.9.9.9", "10.9.9.9"],
  ["0000:0000:0000:0000:0000:ffff:0a09:0909", "10.9.9.9"],
  ["::ffff:0:0", "0.0.0.0"],
  ["::ffff:0:10.9.9.9", "::ffff:0:a09:909"],
  ["::10.9.9.9", "::a09:909"],
  ["::fffe:10.9.9.9", "::fffe:a09:909"],
  ["1::ffff:10.9.9.9", "1::ffff:a09:909"],
  ["64:ff9b::10.9.9.9", "64:ff9b::a09:909"],
])("%s is the address %s", (text, normal) => {
  expect(normalIp(text)).toBe(normal)
  expect(parseIp(text)).toHaveLength(normal.includes(":") ? 16 : 4)
  expect(sameIp(text, normal)).toBe(true)
})

// The results of Go's net.IPNet.String for networks parsed by net.ParseCIDR. For mapped networks with other than IPv4
// addresses Go prints "/0".
test.each([
  ["::ffff:10.1.0.2/120", "10.1.0.2/24"],
  ["::ffff:0a01:0002/128", "10.1.0.2/32"],
  ["0:0:0:0:0:ffff:10.1.0.2/97", "10.1.0.2/1"],
  ["::ffff:0:0/96", "0.0.0.0/0"],
  ["::ffff:10.1.0.2/95", undefined],
  ["::ffff:10.1.0.2/24", undefined],
  ["::ffff:10.1.0.2/129", undefined],
  ["::/0", "::/0"],
  ["2001:DB8:0::1/064", "2001:db8::1/64"],
])("%s is %s", (text, normal) => {
  expect(normalCidr(text)).toBe(normal as string)
})

test("a network of IPv4-mapped addresses has the IPv4 addresses that it has by ip-num", () => {
  fc.assert(
    fc.property(v4, fc.integer({ min: 97, max: 128 }), (bytes, prefix) => {
      const mapped = `0:0:0:0:0:ffff:${bytes.toHex().replace(/^.{4}/, "$&:")}/${prefix}`
      const wanted = IPv6CidrRange.fromCidr(mapped).getFirst().getValue() & 0xffffffffn
      const read = cidr(mapped)
      expect([read.ip, number(networkOf(read))]).toEqual([bytes, wanted])
    }),
  )
})

test("the bytes of a mapped address are told from others", () => {
  const mapped = Uint8Array.of(...new Uint8Array(10), 255, 255, 1, 2, 3, 4)
  expect(unmapped(mapped)).toEqual(Uint8Array.of(1, 2, 3, 4))
  expect(unmapped(ip("::1"))).toHaveLength(16)
  expect(formatIp(mapped)).toBe("::ffff:1.2.3.4") // as in the kernel
  expect(sameIp("2001:DB8:0::1", "2001:db8::1")).toBe(true)
  expect(sameIp("1.2.3.4", "1.2.3.5")).toBe(false)
  expect(sameIp("nonsense", "nonsense")).toBe(false)
})

test("a CIDR keeps its host bits", () => {
  expect(parseCidr("10.1.2.3/24")).toEqual({ ip: Uint8Array.of(10, 1, 2, 3), prefix: 24 })
  expect(parseCidr("::/0")).toEqual({ ip: new Uint8Array(16), prefix: 0 })
  expect(formatCidr({ ip: Uint8Array.of(10, 1, 2, 3), prefix: 24 })).toBe("10.1.2.3/24")
})

test.each(["1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "::/129", "1.2.3/24", "1.2.3.4/-1", "1.2.3.4/+1", "1.2.3.4/1/2", "/8"])(
  "%p is no CIDR",
  (text) => {
    expect(parseCidr(text)).toBeUndefined()
  },
)

test("only 4 or 16 bytes can be written", () => {
  expect(() => formatIp(new Uint8Array(5))).toThrow("Cannot write an address of 5 bytes")
})

function cidr(text: string): Cidr {
  const found = parseCidr(text)
  if (!found) throw new Error(text)
  return found
}

function ip(text: string): Uint8Array {
  const found = parseIp(text)
  if (!found) throw new Error(text)
  return found
}

const v4 = fc.uint8Array({ minLength: 4, maxLength: 4 })
const v6 = fc.uint8Array({ minLength: 16, maxLength: 16 })

test("networks are those of ip-num, an independent implementation", () => {
  fc.assert(
    fc.property(v4, fc.integer({ min: 1, max: 32 }), (bytes, prefix) => {
      const wanted = IPv4CidrRange.fromCidr(`${formatIp(bytes)}/${prefix}`)
        .getFirst()
        .toString()
      return formatIp(networkOf({ ip: bytes, prefix })) === wanted
    }),
  )
  fc.assert(
    fc.property(v6, fc.integer({ min: 1, max: 128 }), (bytes, prefix) => {
      const wanted = IPv6CidrRange.fromCidr(`${new IPv6(BigInt(`0x${bytes.toHex()}`))}/${prefix}`).getFirst()
      return BigInt(`0x${networkOf({ ip: bytes, prefix }).toHex()}`) === wanted.getValue()
    }),
  )
})

test("the next address is one more, and all ones wraps", () => {
  fc.assert(
    fc.property(v4, (bytes) => {
      const number = new IPv4(formatIp(bytes)).getValue()
      return new IPv4(formatIp(nextAddress(bytes))).getValue() === (number + 1n) % 2n ** 32n
    }),
  )
  expect(formatIp(nextAddress(ip("10.0.255.255")))).toBe("10.1.0.0")
  expect(formatIp(nextAddress(ip("255.255.255.255")))).toBe("0.0.0.0")
  expect(formatIp(nextAddress(ip("fd00::ffff")))).toBe("fd00::1:0")
})

test("a network holds its own addresses and none of the other family", () => {
  expect(contains(cidr("10.1.2.3/16"), ip("10.1.200.1"))).toBe(true)
  expect(contains(cidr("10.1.2.3/16"), ip("10.2.0.1"))).toBe(false)
  expect(contains(cidr("0.0.0.0/0"), ip("fd00::1"))).toBe(false)
  expect(contains(cidr("fd00::/127"), ip("fd00::1"))).toBe(true)
  expect(contains(cidr("fd00::/127"), ip("fd00::2"))).toBe(false)
})

test("bytes are the same when all are, and as many", () => {
  expect(sameBytes(ip("10.0.0.1"), ip("10.0.0.1"))).toBe(true)
  expect(sameBytes(ip("10.0.0.1"), ip("10.0.0.2"))).toBe(false)
  expect(sameBytes(ip("0.0.0.0"), ip("::"))).toBe(false)
})

test("the three spellings of one address read alike", () => {
  const bytes = Uint8Array.of(0x0a, 0x58, 0xc0, 0x00, 0x02, 0x09)
  for (const text of ["0a:58:c0:00:02:09", "0A-58-C0-00-02-09", "0a58.c000.0209"]) expect(parseMac(text)).toEqual(bytes)
})

test("6, 8 and 20 bytes round-trip, the lengths of Ethernet, EUI-64 and InfiniBand", () => {
  const mac = fc.constantFrom(6, 8, 20).chain((length) => fc.uint8Array({ minLength: length, maxLength: length }))
  fc.assert(fc.property(mac, (bytes) => expect(parseMac(formatMac(bytes))).toEqual(bytes)))
})

test.each([
  "",
  "0a:58:c0:00:02",
  "0a:58:c0:00:02:09:11",
  "0a:58-c0:00:02:09",
  "a:58:c0:00:02:09",
  "0a:58:c0:00:02:0g",
  "0a58c0000209",
  "0a:58:c0:00:02:09\n",
  " 0a:58:c0:00:02:09",
])("%j is not a hardware address", (text) => {
  expect(parseMac(text)).toBeUndefined()
})

// RFC 4291, 2.4
test.each([
  ["fe80::1", true],
  ["febf:ffff::1", true],
  ["fec0::1", false],
  ["fe7f::1", false],
  ["169.254.1.1", false],
])("%s is a link-local IPv6 address: %p", (text, expected) => {
  expect(isLinkLocal(parseIp(text) ?? new Uint8Array())).toBe(expected)
})
