import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { pathsIn } from "./bus.ts"
import { DbusError, decodeMessage, encodeCall, messageLength, PREAMBLE_SIZE } from "./message.ts"

/** Returns the bytes of hex digits, which `strace -xx` prints with backslashes. */
const hex = (text: string) => Uint8Array.fromHex(text.replace(/\s/g, ""))

const zone = {
  destination: "org.fedoraproject.FirewallD1",
  path: "/org/fedoraproject/FirewallD1",
  interface: "org.fedoraproject.FirewallD1.zone",
}

// The messages between dbus-send 1.14.10 and firewalld 1.3.3:
//   strace -xx -e trace=sendmsg,recvmsg dbus-send --system --print-reply --dest=org.fedoraproject.FirewallD1
//   /org/fedoraproject/FirewallD1 org.fedoraproject.FirewallD1.zone.addSource string:trusted string:10.1.0.2/32
const addSource = hex(`
  6c0100011c00000002000000a0000000 01016f001d0000002f6f72672f6665646f726170726f6a6563742f4669726577616c6c4431000000
  02017300210000006f72672e6665646f726170726f6a6563742e4669726577616c6c44312e7a6f6e6500000000000000
  0301730009000000616464536f7572636500000000000000
  060173001c0000006f72672e6665646f726170726f6a6563742e4669726577616c6c443100000000 0801670002737300
  070000007472757374656400 0b00000031302e312e302e322f333200`)
const added = hex(`
  6c0201010c000000890300002d000000 06017300040000003a312e3300000000 0501750002000000 0801670001730000
  07017300040000003a312e3100000000 070000007472757374656400`)
// … getSources string:trusted
const sources = hex(`
  6c020101140000008e0300002d000000 06017300040000003a312e3400000000 0501750002000000 0801670002617300
  07017300040000003a312e3100000000 100000000b00000031302e312e302e322f333200`)
// … addSource string:nozone string:10.1.0.2/32
const refused = hex(`
  6c03010119000000930300005d000000 06017300040000003a312e3500000000
  04017300260000006f72672e6665646f726170726f6a6563742e4669726577616c6c44312e457863657074696f6e0000
  0501750002000000 0801670001730000 07017300040000003a312e3100000000
  14000000494e56414c49445f5a4f4e453a206e6f7a6f6e6500`)

test("a call has the bytes of dbus-send's", () => {
  expect(encodeCall({ ...zone, member: "addSource", args: ["trusted", "10.1.0.2/32"] }, 2)).toEqual(addSource)
})

test("answers are read: a text, a list of strings, an error with its name", () => {
  expect(decodeMessage(added)).toEqual({
    type: 2,
    replySerial: 2,
    errorName: undefined,
    sender: ":1.1",
    body: ["trusted"],
  })
  expect(decodeMessage(sources).body).toEqual([["10.1.0.2/32"]])
  expect(decodeMessage(refused)).toEqual({
    type: 3,
    replySerial: 2,
    sender: ":1.1",
    errorName: "org.fedoraproject.FirewallD1.Exception",
    body: ["INVALID_ZONE: nozone"],
  })
})

test("the length of a message stands in its preamble, and one that is too long is refused", () => {
  for (const message of [addSource, added, sources, refused]) {
    expect(messageLength(message.subarray(0, PREAMBLE_SIZE))).toBe(message.length)
  }
  const long = added.slice(0, PREAMBLE_SIZE).with(7, 1)
  expect(() => messageLength(long)).toThrow("a message of")
})

test("the other byte order is read, too, and of types that are not read what comes before them", () => {
  // Answers to call 7: a boolean and an integer; a boolean and a variant.
  const plain = hex("42020101000000080000000100000010 0501750000000007 0801670002626900 00000001fffffffe")
  expect(decodeMessage(plain)).toEqual({ type: 2, replySerial: 7, errorName: undefined, body: [true, -2] })
  const unknown = hex("42020101000000040000000100000010 0501750000000007 0801670002627600 00000001")
  expect(decodeMessage(unknown).body).toEqual([true])
})

test("a number of four bytes is written with each of them, and a text with the length of its UTF-8", () => {
  const call = { ...zone, member: "x", args: ["é".repeat(150)] }
  const bytes = encodeCall(call, 0x81020304)
  expect(bytes.slice(8, 12)).toEqual(Uint8Array.of(4, 3, 2, 0x81))
  expect(bytes.slice(4, 8)).toEqual(Uint8Array.of(0x31, 1, 0, 0)) // 4 + 300 + 1 bytes
  expect(bytes.slice(-305, -299)).toEqual(Uint8Array.of(0x2c, 1, 0, 0, 0xc3, 0xa9))
  expect(encodeCall({ ...call, args: [] }, 1).subarray(4, 8)).toEqual(new Uint8Array(4))
})

test("numbers, paths, signatures and lists without anything in them are read from a body", () => {
  const body = "05000000 02000000 2f6100 01 73 00 0000 00000000"
  const fields = "0501750007000000 08016700 05 756f676173 00"
  const message = hex(`6c02010114000000 01000000 13000000 ${fields} 0000000000 ${body}`)
  expect(decodeMessage(message).body).toEqual([5, "/a", "s", []])
  expect(() => decodeMessage(message.subarray(0, -1))).toThrow("the message ends before byte 60")
})

test("a field of a type that no field has is refused by its number", () => {
  const message = hex("6c02010100000000 01000000 08000000 0901790007000000")
  expect(() => decodeMessage(message)).toThrow("field 9 has an unknown type")
})

test("a message may have 1 MiB, with what aligns its body", () => {
  const preamble = (body: number, fields: number) => {
    const bytes = hex("6c02010100000000 0100000000000000")
    new DataView(bytes.buffer).setUint32(4, body, true)
    new DataView(bytes.buffer).setUint32(12, fields, true)
    return bytes
  }
  expect(messageLength(preamble((1 << 20) - 24, 1))).toBe(1 << 20)
  expect(() => messageLength(preamble((1 << 20) - 23, 1))).toThrow("a message of 1048577 bytes")
})

describe("bytes of any kind are read, or are a DbusError", () => {
  const attempt = (bytes: Uint8Array) => {
    for (const read of [decodeMessage, messageLength]) {
      try {
        read(bytes)
      } catch (error) {
        if (!(error instanceof DbusError)) throw error
      }
    }
  }
  test("of chance", () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => attempt(Uint8Array.of(0x6c, ...bytes))))
  })
  test("of messages that are damaged or cut off", () => {
    const damaged = fc
      .tuple(
        fc.constantFrom(addSource, added, sources, refused),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 4 }),
      )
      .map(([message, part, changes]) => {
        const bytes = message.slice(0, Math.ceil(part * message.length))
        for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value
        return bytes
      })
    fc.assert(fc.property(damaged, attempt), { numRuns: 2000 })
  })
})

test("of a bus' addresses those are taken that have a path", () => {
  expect(pathsIn("unix:path=/run/dbus/system_bus_socket")).toEqual(["/run/dbus/system_bus_socket"])
  expect(pathsIn("tcp:host=x,port=1;unix:abstract=/y;unix:guid=0,path=/run/a%2cb,x=y;unix:path=/z")).toEqual([
    "/run/a,b",
    "/z",
  ])
  expect(pathsIn("")).toEqual([])
})
