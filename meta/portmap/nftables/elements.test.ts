import { expect, test } from "bun:test"
import fc from "fast-check"
import { create, printTransaction } from "../../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6, type Family, formatIp, parseCidr } from "../../../pkg/types/mod.ts"
import { type MappedAddress, type Mapping, printHostPort, printIpPort } from "../mapping.ts"
import { decodeNote, elementsOf, encodeNote, readDnat } from "./elements.ts"
import { tableLayout } from "./table.ts"

const web: Mapping = { protocol: "tcp", hostPort: 8080, containerPort: 80, family: undefined, hostIp: undefined }
const dns: Mapping = { ...web, protocol: "udp", hostPort: 53, containerPort: 5353 }

function address(text: string) {
  return parseCidr(text) ?? { ip: new Uint8Array(4), prefix: 0 }
}

function printed(family: Family, cidr: string, hostIp: Uint8Array, options = { snat: true, masqAll: false }) {
  const layout = tableLayout(family)
  const mapped = { family, address: address(cidr), mappings: [web, { ...dns, hostIp }] }
  return printTransaction(
    elementsOf(layout, mapped, options).map(({ set, elements }) => create.elements(set, elements)),
  )
}

test("a mapping is one element, and a container one for each way of masquerading", () => {
  expect(printed(AF_INET, "10.1.2.3/20", Uint8Array.of(192, 0, 2, 1))).toBe(
    `create element ip cni_hostports ports { tcp . 8080 : 10.1.2.3 . 80 }
create element ip cni_hostports address_ports { 192.0.2.1 . udp . 53 : 10.1.2.3 . 5353 }
create element ip cni_hostports hairpin { 10.1.0.0 . 10.1.2.3 }
create element ip cni_hostports localhost { 10.1.2.3 }
`,
  )
  expect(printed(AF_INET6, "fd00::2/64", new Uint8Array(16).with(0, 0x20))).toBe(
    `create element ip6 cni_hostports ports { tcp . 8080 : fd00::2 . 80 }
create element ip6 cni_hostports address_ports { 2000:: . udp . 53 : fd00::2 . 5353 }
create element ip6 cni_hostports hairpin { fd00:: . fd00::2 }
`,
  )
})

test("masqAll is one element in the place of the others, and without snat there are no such elements", () => {
  const host = Uint8Array.of(192, 0, 2, 1)
  const lines = (options: { snat: boolean; masqAll: boolean }) =>
    printed(AF_INET, "10.1.2.3/20", host, options).trim().split("\n").slice(2)
  expect(lines({ snat: true, masqAll: true })).toEqual(["create element ip cni_hostports everybody { 10.1.2.3 }"])
  expect(lines({ snat: false, masqAll: true })).toEqual([])
})

test("an element is read back as the mapping that it was", () => {
  const layout = tableLayout(AF_INET)
  const mapped: MappedAddress = {
    family: AF_INET,
    address: address("10.1.2.3/20"),
    mappings: [web, { ...dns, hostIp: Uint8Array.of(192, 0, 2, 1) }],
  }
  const read = elementsOf(layout, mapped, { snat: false, masqAll: false }).flatMap(({ elements }) =>
    elements.map(readDnat),
  )
  expect(
    read.map((found) => found && `${printHostPort(found)} to ${printIpPort(found.containerIp, found.containerPort)}`),
  ).toEqual(["8080/tcp to 10.1.2.3:80", "192.0.2.1:53/udp to 10.1.2.3:5353"])
  expect(read.map((found) => found && formatIp(found.containerIp))).toEqual(["10.1.2.3", "10.1.2.3"])
  expect(readDnat({ key: [Uint8Array.of(1), Uint8Array.of(0, 1)] })).toBeUndefined()
})

test("a note is four fields", () => {
  const note = { count: 3, isConditional: false, prefix: 16, netns: "/run/netns/x y" }
  expect(encodeNote(note)).toBe("3\t\t16\t/run/netns/x y")
  expect(decodeNote("3\t\t16\t/run/netns/x y")).toEqual(note)
  const odd = { ...note, netns: "/run/netns/with\ta tab" }
  expect(decodeNote(encodeNote(odd))).toEqual(odd)
  expect(decodeNote("3\tconditional\t64\t")).toEqual({ count: 3, isConditional: true, prefix: 64, netns: undefined })
})

test("a path that is too long is left out, and everything else stays", () => {
  const note = { count: 3, isConditional: true, prefix: 16, netns: `/${"ü".repeat(60)}` }
  expect(decodeNote(encodeNote(note))).toEqual({ ...note, netns: undefined })
})

test("text that is not a note is not read as one", () => {
  for (const text of [undefined, "", "3", "x\t\t16\t", "3\t\tx\t", "3\t\t16"]) expect(decodeNote(text)).toBeUndefined()
  fc.assert(fc.property(fc.string(), (text) => decodeNote(text) === undefined || text.includes("\t")))
})
