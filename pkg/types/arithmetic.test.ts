import { expect, test } from "bun:test"
import fc from "fast-check"
import { IPv4, IPv4CidrRange, IPv6, IPv6CidrRange } from "ip-num"
import { contains, networkOf, nextAddress, sameBytes } from "./arithmetic.ts"
import { type Cidr, formatIp, parseCidr, parseIp } from "./ip.ts"

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
