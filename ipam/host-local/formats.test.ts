import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { IPv4, IPv6 } from "ip-num"
import { crc32 } from "../../pkg/engine/mod.ts"
import { AF_INET, AF_INET6, type Family } from "../../pkg/types/mod.ts"
import { firstFree, mark, pageBytes, placeOf } from "./index.ts"
import { formatOwner, isHeldBy, parseOwner } from "./lease-file.ts"
import { parseResolvConf } from "./main.ts"
import { type Address, formatAddress, parseAddress } from "./ranges.ts"
import { formatRecord, parseRecord } from "./records.ts"

describe("addresses", () => {
  test("are the same numbers as ip-num's", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }), (value) => {
        const text = new IPv4(value).toString()
        expect(parseAddress(text)).toEqual({ family: AF_INET, value })
        expect(formatAddress({ family: AF_INET, value })).toBe(text)
      }),
    )
    fc.assert(
      fc.property(fc.bigInt({ min: 2n ** 48n, max: 2n ** 128n - 1n }), (value) => {
        expect(parseAddress(new IPv6(value).toString())).toEqual({ family: AF_INET6, value })
        expect(parseAddress(formatAddress({ family: AF_INET6, value }))).toEqual({ family: AF_INET6, value })
      }),
    )
  })

  test("IPv4 written as IPv6 is IPv4", () => {
    expect(parseAddress("::ffff:10.0.0.1")).toEqual({ family: AF_INET, value: 0x0a000001n })
    expect(parseAddress("10.0.0.1/24")).toBeUndefined()
  })
})

describe("the bitmap", () => {
  test("finds the first free bit from any bit on, as looking at them one by one does", () => {
    const bits = fc.uniqueArray(fc.integer({ min: 0, max: 63 }), { maxLength: 64 })
    fc.assert(
      fc.property(bits, fc.integer({ min: 0, max: 63 }), (taken, from) => {
        const page = new Uint8Array(8)
        for (const bit of taken) mark(page, bit, true)
        const expected = Array.from({ length: 64 }, (_, bit) => bit).find((bit) => bit >= from && !taken.includes(bit))
        expect(firstFree(page, from)).toBe(expected)
      }),
    )
  })

  test("frees what is unmarked", () => {
    const page = new Uint8Array(1).fill(0xff)
    expect(firstFree(page, 0)).toBeUndefined()
    mark(page, 5, false)
    expect(firstFree(page, 0)).toBe(5)
  })

  test("has a page for 32768 addresses, named for family and number", () => {
    const at = (family: Family, value: bigint) => placeOf({ family, value } satisfies Address)
    expect(at(AF_INET, 0x0a010000n)).toEqual({ page: "used-4-1402", start: 0x0a010000n, bit: 0 })
    expect(at(AF_INET, 0x0a017fffn).bit).toBe(pageBytes * 8 - 1)
    expect(at(AF_INET, 0x0a018000n).page).toBe("used-4-1403")
    expect(at(AF_INET6, 0x0a010000n).page).toBe("used-6-1402")
  })
})

describe("the file of a reservation", () => {
  test("holds container and interface with CR LF between them and nothing after", () => {
    expect(formatOwner({ containerId: " abc ", ifName: "eth0" })).toBe("abc\r\neth0")
  })

  test.each([
    ["abc\r\neth0", { containerId: "abc", ifName: "eth0" }],
    ["  abc\r\neth0\n", { containerId: "abc", ifName: "eth0" }],
    ["abc", { containerId: "abc", ifName: "" }],
    ["abc\r\n", { containerId: "abc", ifName: "" }],
    ["abc\r\nnet-ü", { containerId: "abc", ifName: "net-ü" }],
    ["", "torn"],
    [" \r\n", "torn"],
    ["\0\0\0", "torn"],
    ["abc\r\neth\0", "torn"],
    ["abc\0\0\0\0", "torn"],
    ["ab\0c", "foreign"],
    ["abc\neth0", "foreign"],
    ["kept for the printer", "foreign"],
    ["abc\r\neth0\r\nmore", "foreign"],
    ["../etc\r\neth0", "foreign"],
  ] as const)("%j is read as %p", (text, expected) => {
    expect(parseOwner(text)).toEqual(expected)
  })

  test("any text is read as something", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => expect(parseOwner(text)).toBeDefined()))
  })

  test("is its owner's, and in the old form that of every interface of the container", () => {
    const owner = { containerId: "abc", ifName: "eth0" }
    expect(isHeldBy(owner, owner)).toBe(true)
    expect(isHeldBy({ containerId: "abc", ifName: "" }, owner)).toBe(true)
    expect(isHeldBy({ containerId: "abc", ifName: "eth1" }, owner)).toBe(false)
    expect(isHeldBy({ containerId: "abcd", ifName: "eth0" }, owner)).toBe(false)
    expect(isHeldBy("foreign", owner)).toBe(false)
  })
})

describe("a record of the index", () => {
  test("a line without times in their places is refused, though its checksum is right", () => {
    for (const written of ["", "x", "17,", "1e3", " "]) {
      const text = `abc@eth0 10.0.0.2 b-1 ${written}`
      expect(parseRecord(`${crc32(text).toString(16).padStart(8, "0")} ${text}`)).toBeUndefined()
    }
  })

  const owner = { containerId: "abc", ifName: "eth0" }
  const record = { owner, addresses: ["10.0.0.2", "fd00::2"], bootId: "b-1", written: [17n, 18n] }

  test("reads back as it was written, with and without a namespace", () => {
    const netns = { path: "/var/run/netns/with blank", identity: "0:4:4026532001" }
    const text = "abc@eth0 10.0.0.2,fd00::2 b-1 17,18 0:4:4026532001 /var/run/netns/with blank"
    expect(formatRecord({ ...record, netns })).toBe(`${Bun.hash.crc32(text).toString(16).padStart(8, "0")} ${text}`)
    expect(parseRecord(formatRecord({ ...record, netns }))).toEqual({ ...record, netns })
    expect(parseRecord(formatRecord(record))).toEqual(record)
    const old = { ...record, owner: { containerId: "abc", ifName: "" } }
    expect(parseRecord(formatRecord(old))).toEqual(old)
  })

  test("leaves out a namespace whose path does not fit into a line", () => {
    const netns = { path: "/a\nb", identity: "0:4" }
    expect(parseRecord(formatRecord({ ...record, netns }))).toEqual(record)
  })

  test("with a part missing or wrong is refused", () => {
    const line = formatRecord({ ...record, netns: { path: "/run/netns/a", identity: "0:4" } })
    for (let at = 0; at < line.length; at++) {
      expect(parseRecord(line.slice(0, at))).toBeUndefined()
      expect(parseRecord(`${line.slice(0, at)}_${line.slice(at + 1)}`)).toBeUndefined()
    }
    fc.assert(fc.property(fc.string(), (text) => void parseRecord(text)))
  })
})

test("resolv.conf is read as resolvers read it, line by line", () => {
  const text = `# a comment
; another
nameserver 192.0.2.1
  nameserver\t2001:db8::1  trailing
nameserver
domain first.example
domain second.example
search a.example b.example
search c.example
options ndots:2 edns0
options rotate
sortlist 192.0.2.0
`
  expect(parseResolvConf(text)).toEqual({
    nameservers: ["192.0.2.1", "2001:db8::1"],
    domain: "second.example",
    search: ["a.example", "b.example", "c.example"],
    options: ["ndots:2", "edns0", "rotate"],
  })
  expect(parseResolvConf("")).toEqual({ nameservers: [], search: [], options: [] })
})
