import { expect, test } from "bun:test"
import { type Message, NetlinkError, type Request } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import { dataTypes } from "./data-types.ts"
import { getElement, hasRules, sampleElements } from "./lookup.ts"
import type { NamedSet } from "./rule-set.ts"

const { ipv4, port, protocol } = dataTypes
const table = { family: "ip", name: "t" } as const
const ports: NamedSet = { table, name: "ports", key: [protocol, port], value: [ipv4, port] }
const tcp8080 = [Uint8Array.of(6), Uint8Array.of(0x1f, 0x90)]

const hex = (text: string) => Uint8Array.fromHex(text.replace(/#.*|\s/g, ""))

/** A kernel with one answer, from struct nfgenmsg on. */
function kernel(answer: Uint8Array) {
  const asked: Request[] = []
  const message: Message = { type: 0, flags: 0, sequence: 0, port: 0, payload: answer }
  const reply = (request: Request) => {
    asked.push(request)
    return message
  }
  return { asked, get: reply, dump: dumping((request) => [reply(request)]) }
}

function refusing(errno: string) {
  const refuse = (): never => {
    throw new NetlinkError("ask", errno)
  }
  return { get: refuse, dump: refuse }
}

// The answer of Linux 6.18, from struct nfgenmsg on; in the user data a comment, and a note of type 200.
const element = hex(`02000002
  0600 0100 74000000 0a00 0200 706f727473000000
  4400 0300 4000 0100
    1000 0100 0c00 0100 06000000 1f900000
    1000 0200 0c00 0100 0a010002 00500000
    1a00 0600 000c 6e65742f63312f6574683000 c806 3209096e7300 0000`)

test("an element is asked for by its key, and read with its comment and what is kept beside it", () => {
  const socket = kernel(element)
  expect(getElement(socket, ports, tcp8080)).toEqual({
    key: tcp8080,
    value: [Uint8Array.of(10, 1, 0, 2), Uint8Array.of(0, 80)],
    comment: "net/c1/eth0",
    note: "2\t\tns",
  })
  // The attributes that nft 1.0.6 sends for `nft get element ip t ports { tcp . 8080 }`, the table's name first.
  expect(socket.asked[0]).toMatchObject({ type: 0xa0d })
  expect(socket.asked[0]?.payload).toEqual(
    hex(
      `02000000 0600 0100 74000000 0a00 0200 706f727473000000 1800 0380 1400 0180 1000 0180 0c00 0100 06000000 1f900000`,
    ),
  )
})

test("what is not there is undefined, another refusal is an error", () => {
  expect(getElement(refusing("ENOENT"), ports, tcp8080)).toBeUndefined()
  expect(() => getElement(refusing("EPERM"), ports, tcp8080)).toThrow("EPERM")
})

test("a sample counts the elements and those with the very comment", () => {
  const sample = (comment: string) => sampleElements(kernel(element), ports, comment)
  expect(sample("net/c1/eth0")).toEqual({ count: 1, commented: 1 })
  expect(sample("net/c1/eth")).toEqual({ count: 1, commented: 0 })
  expect(sample("et/c1/eth0")).toEqual({ count: 1, commented: 0 })
  expect(sampleElements(refusing("ENOENT"), ports, "x")).toEqual({ count: 0, commented: 0 })
  expect(() => sampleElements(refusing("EPERM"), ports, "x")).toThrow("EPERM")
})

test("rules are known to be there by their comments, each whole", () => {
  const rule = hex(`02000000 0600 0100 74000000 0600 0200 63000000 0c00 0700 0006 7468656e00 000000`)
  expect(hasRules(kernel(rule), table, ["then"])).toBe(true)
  expect(hasRules(kernel(rule), table, ["the"])).toBe(false)
  expect(hasRules(kernel(rule), table, ["then", "again"])).toBe(false)
  expect(hasRules(kernel(rule), { family: "ip", name: "other" }, ["then"])).toBe(false)
  expect(hasRules(kernel(rule), table, [])).toBe(true)
})
