import { expect, test } from "bun:test"
import type { Request } from "./channel.ts"
import { DecodeError } from "./codec.ts"
import { listIpsec } from "./ipsec.ts"
import { type Message, NetlinkError } from "./message.ts"

const bytes = (text: string) => Uint8Array.fromHex(text.replaceAll(/\s/g, ""))
const LIFETIMES = `${"ff".repeat(32)}${"00".repeat(64)}`

// Captured on Linux 6.18: the answers to `ip xfrm policy` after
// ip xfrm policy add src fd00::/64 dst ::/0 proto tcp dport 80 dir in tmpl proto esp mode transport level use
const NARROW =
  bytes(`00000000000000000000000000000000 fd000000000000000000000000000000 0050ffff00000000 0a000040 06000000 00000000 00000000
  ${LIFETIMES} 00000000 10000000 00000000 00000000
  44000500 00000000000000000000000000000000 00000000 32000000 0a000000 00000000000000000000000000000000 00000000 00000100 ffffffff ffffffff ffffffff
  0a001000 00000000 00000000`)
// ip xfrm policy add src 10.85.0.0/24 dst 10.9.0.0/16 dir out priority 50 tmpl src 192.0.2.2 dst 192.0.2.9 proto esp
// reqid 7 mode tunnel
const TUNNEL =
  bytes(`0a090000000000000000000000000000 0a550000000000000000000000000000 0000000000000000 02001018 00000000 00000000 00000000
  ${LIFETIMES} 32000000 09000000 01000000 00000000
  44000500 c0000209000000000000000000000000 00000000 32000000 02000000 c0000202000000000000000000000000 07000000 01000000 ffffffff ffffffff ffffffff
  0a001000 00000000 00000000`)
// ip xfrm policy add src 10.85.0.0/24 dst 0.0.0.0/0 dir fwd priority 100 action block
const BLOCK =
  bytes(`00000000000000000000000000000000 0a550000000000000000000000000000 0000000000000000 02000018 00000000 00000000 00000000
  ${LIFETIMES} 64000000 02000000 02010000 00000000 0a001000 00000000 00000000`)
// struct xfrm_usersa_info, <linux/xfrm.h>: selector, id, source, lifetimes, statistics, seq, reqid 7, AF_INET, tunnel
const STATE =
  bytes(`${"00".repeat(56)} c0000209000000000000000000000000 00001234 32000000 c0000202000000000000000000000000
  ${"00".repeat(96)} 000000000000000000000000 00000000 07000000 0200 01 00 0000000000000000`)

function socketWith({ policies = [] as Uint8Array[], states = [] as Uint8Array[], defaults = bytes("020202") }) {
  const asked: number[] = []
  const dump = <T>({ type }: Request, pick: (message: Message) => T | undefined): T[] => {
    asked.push(type)
    const answers = type === 0x15 ? policies : states
    return answers.flatMap((payload) => pick({ payload } as Message) ?? [])
  }
  const get = <T>({ type }: Request, read: (message: Message) => T): T => {
    asked.push(type)
    return read({ payload: defaults } as Message)
  }
  return { asked, socket: { dump, get } }
}

const cidr = (ip: number[], prefix: number) => ({ ip: Uint8Array.from(ip), prefix })

test("policies have selector, direction, action and templates, in the order in which the kernel asks them", () => {
  const { socket, asked } = socketWith({ policies: [BLOCK, NARROW, TUNNEL], states: [STATE] })
  const { policies, states, blockedByDefault } = listIpsec(socket)
  expect(policies as unknown[]).toEqual([
    {
      family: 10,
      direction: "in",
      src: cidr([0xfd, ...new Array(15).fill(0)], 64),
      dst: cidr(new Array(16).fill(0), 0),
      priority: 0,
      index: 16,
      isBlocking: false,
      templates: [{ dst: new Uint8Array(16), protocol: 50, reqid: 0, isTunnel: false, isOptional: true }],
      isNarrow: true,
    },
    {
      family: 2,
      direction: "out",
      src: cidr([10, 85, 0, 0], 24),
      dst: cidr([10, 9, 0, 0], 16),
      priority: 50,
      index: 9,
      isBlocking: false,
      templates: [{ dst: Uint8Array.of(192, 0, 2, 9), protocol: 50, reqid: 7, isTunnel: true, isOptional: false }],
      isNarrow: false,
    },
    {
      family: 2,
      direction: "fwd",
      src: cidr([10, 85, 0, 0], 24),
      dst: cidr([0, 0, 0, 0], 0),
      priority: 100,
      index: 2,
      isBlocking: true,
      templates: [],
      isNarrow: false,
    },
  ])
  expect(states).toEqual([{ dst: Uint8Array.of(192, 0, 2, 9), protocol: 50, reqid: 7, isTunnel: true }])
  expect(blockedByDefault).toEqual([])
  expect(asked).toEqual([0x15, 0x28, 0x12])
})

// Captured after `ip xfrm policy setdefault fwd block`: struct xfrm_userpolicy_default contains in, fwd and out.
test("defaults that block are told, and states are asked for only where a policy has templates", () => {
  const { socket, asked } = socketWith({ policies: [BLOCK], defaults: bytes("02010200") })
  expect(listIpsec(socket)).toMatchObject({ blockedByDefault: ["fwd"], states: [] })
  expect(asked).toEqual([0x15, 0x28])
})

test("a kernel before 5.14 has no defaults, and policies of sockets are left out", () => {
  const ofSocket = BLOCK.slice()
  ofSocket[160] = 3 // dir
  const { socket } = socketWith({ policies: [ofSocket] })
  const get = () => {
    throw new NetlinkError("find the default IPsec policy", 22)
  }
  expect(listIpsec({ ...socket, get })).toEqual({ policies: [], states: [], blockedByDefault: [] })
})

test("an answer that was cut short is an error", () => {
  const { socket } = socketWith({ policies: [BLOCK.subarray(0, 100)] })
  expect(() => listIpsec(socket)).toThrow(DecodeError)
})
