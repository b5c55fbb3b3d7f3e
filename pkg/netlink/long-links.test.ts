import { expect, test } from "bun:test"
import { attribute } from "./attrs.ts"
import { concat, DecodeError } from "./codec.ts"
import { linkAttributes } from "./link-table.ts"
import { decodeAttributes } from "./long-links.ts"
import { hex } from "./testing.ts"

const text = (value: string) => new TextEncoder().encode(`${value}\0`)

/** Returns a nested attribute as the kernel writes it: its length is cut to 16 bits. */
function nest(type: number, content: Uint8Array): Uint8Array {
  const length = 4 + content.length
  return concat([new Uint8Array([length, length >> 8, type, type >> 8]), content])
}

/** Returns this many IFLA_MACVLAN_MACADDR attributes. */
const sources = (count: number) => concat(Array.from({ length: count }, () => attribute(4, hex`0500 2100 0100`)))

/** Returns IFLA_IFNAME, IFLA_LINKINFO with a kind and its settings, and IFLA_LINK. */
const link = (kind: string, data: Uint8Array) =>
  concat([
    attribute(3, text("eth0")),
    nest(18, concat([attribute(1, text(kind)), nest(2, data)])),
    hex`0800 0500 02000000`,
  ])

test("of a link whose settings are too long for their length the kind and what stands before it is known", () => {
  const macvlan = (count: number) => link("macvlan", concat([hex`0800 0100 10000000`, nest(5, sources(count))]))
  for (const count of [5459, 5460, 5461, 5462, 5463, 6000, 10_923, 12_000, 25_000]) {
    const bytes = macvlan(count)
    expect(bytes.length).toBeGreaterThan(0xffff)
    expect(decodeAttributes(bytes, linkAttributes)).toEqual({ name: "eth0", linkInfo: { kind: "macvlan" } })
  }
  expect(decodeAttributes(macvlan(5400), linkAttributes)).toMatchObject({
    name: "eth0",
    linkInfo: { kind: "macvlan" },
    link: 2,
  })
})

test("no bytes of a container behind such a length pass for attributes [S97]", () => {
  // 65,536 bytes that the wrong length does not count. A decoder that trusts the length takes them for the next
  // attributes.
  const forged = concat([attribute(1, text("macvlan")), nest(2, hex``), attribute(3, text("forged"))])
  const rest = new Uint8Array(65_536 - (forged.length - 16))
  for (let at = 0; at < rest.length; at += 4) rest.set(hex`0400 4000`, at)
  const bytes = concat([attribute(3, text("eth0")), nest(18, concat([forged, rest]))])
  expect(linkAttributes.decode(bytes).name).toBe("forged")
  expect(decodeAttributes(bytes, linkAttributes)).toEqual({ name: "eth0", linkInfo: { kind: "macvlan" } })
})

test("a device with as many alternative names as the kernel takes is told by its place on a bus, by more than fit as well", () => {
  const nameOf = (at: number) => `${at}-`.padEnd(127, "n")
  for (const count of [100, 496, 497, 600, 1200]) {
    const names = Array.from({ length: count }, (_, at) => nameOf(at))
    const list = nest(52, concat(names.map((name) => attribute(53, text(name)))))
    const place = concat([attribute(56, text("0000:03:00.0")), attribute(57, text("pci"))])
    const bytes = concat([attribute(3, text("eth0")), list, place])
    expect(decodeAttributes(bytes, linkAttributes)).toMatchObject({
      name: "eth0",
      altNames: names,
      parentName: "0000:03:00.0",
      parentBus: "pci",
    })
    const veth = concat([
      attribute(3, text("eth0")),
      nest(18, attribute(1, text("veth"))),
      list,
      hex`0800 0500 02000000`,
    ])
    expect(decodeAttributes(veth, linkAttributes)).toMatchObject({
      linkInfo: { kind: "veth" },
      altNames: names,
      link: 2,
    })
  }
})

test("any bytes give attributes or a DecodeError", () => {
  const long = link("macvlan", nest(5, sources(6000)))
  for (let bit = 0; bit < 64 * 8; bit++) {
    const broken = long.slice()
    broken[bit >> 3] = (broken[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    expectAttributes(broken)
  }
  for (let length = 65_530; length < 65_600; length++) expectAttributes(long.subarray(0, length))
})

function expectAttributes(bytes: Uint8Array): void {
  try {
    decodeAttributes(bytes, linkAttributes)
  } catch (error) {
    expect(error).toBeInstanceOf(DecodeError)
  }
}
