import { expect, test } from "bun:test"
import type { RouteSocket } from "../netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../netlink/testing/links.ts"
import { addressPayload } from "../netlink/testing/routes.ts"
import { parseIp } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { isOperational, waitForDetection, waitOperational, waitUntil } from "./wait.ts"

/** Returns a socket that receives an event at every wait, and the time limits of the waits. */
function events(onEvent: () => void = () => {}) {
  const waits: number[] = []
  const nextEvents = (leftMs: number) => {
    waits.push(leftMs)
    onEvent()
    return []
  }
  return { socket: { nextEvents } as unknown as RouteSocket, waits }
}

test("a condition is looked at before the first event, and after each", () => {
  const { socket, waits } = events()
  let looks = 0
  expect(waitUntil(socket, 60_000, () => ++looks === 1)).toBe(true)
  expect([looks, waits]).toEqual([1, []])
  expect(waitUntil(socket, 60_000, () => ++looks === 4)).toBe(true)
  expect(waits).toHaveLength(2)
  for (const wait of waits) expect(wait).toBeWithin(59_000, 60_001)
})

test("events that do not concern it are passed over, and dropped ones are not", () => {
  const heard = [[7], [8, 9], [7], [], [9]].map((types) => types.map((type) => ({ type })))
  const socket = { nextEvents: () => heard.shift() ?? [] } as unknown as RouteSocket
  const left: number[] = []
  const isThird = () => left.push(heard.length) === 4
  expect(waitUntil(socket, 60_000, isThird, ({ type }) => type === 9)).toBe(true)
  expect(left).toEqual([5, 3, 1, 0])
})

test("at the deadline it is given up, and no event is waited for", () => {
  const { socket, waits } = events()
  expect(waitUntil(socket, 0, () => false)).toBe(false)
  expect(waits).toEqual([])
})

// IF_OPER_UNKNOWN 0, DOWN 2, DORMANT 5, UP 6, RFC 2863; IFF_UP 1
test.each([
  [6, 0, true],
  [0, 1, true],
  [undefined, 1, true],
  [0, 2, false],
  [undefined, 0, false],
  [2, 1, false],
  [5, 1, false],
])("a link of state %p with flags %p passes traffic: %p", (operState, flags, passes) => {
  const said = operState === undefined ? {} : { operState }
  expect(isOperational(linkOf({ index: 5, name: "eth0", flags, ...said }))).toBe(passes)
})

const down: KernelLink = { index: 5, name: "eth0", flags: 1, operState: 2 }

test("a link that passes traffic is not asked for again; one that does by now is returned as it is now", () => {
  const { socket } = new LinksKernel([{ ...down, operState: 6, mtu: 1300 }])
  const up = linkOf({ ...down, operState: 6 })
  expect(waitOperational(socket, up)).toBe(up)
  expect(waitOperational(socket, linkOf(down))).toMatchObject({ mtu: 1300, attributes: { operState: 6 } })
})

test("a link that no longer exists is not waited for", () => {
  expect(refusalOf(() => waitOperational(new LinksKernel([]).socket, linkOf(down)))).toMatchObject({
    code: 11,
    message: 'Cannot bring up "eth0" within 2550 ms: it was deleted',
  })
})

// <linux/if_addr.h>
const [IFA_F_DADFAILED, IFA_F_TENTATIVE, IFA_F_PERMANENT] = [0x08, 0x40, 0x80]
const RTM_GETADDR = 22

/**
 * Waits for the addresses of eth0, which have the next flags of `rounds` after each event. Returns the number of
 * events.
 */
function detect(...rounds: readonly (readonly number[])[]): number {
  let round = 0
  const listed = () =>
    (rounds[round] ?? []).map((flags, at) => addressPayload(5, parseIp(`fd00::${at + 5}`) as Uint8Array, 64, flags))
  const { socket } = new LinksKernel([], { answers: { [RTM_GETADDR]: listed } })
  const { socket: heard, waits } = events(() => round++)
  waitForDetection(socket, linkOf(down), heard)
  return waits.length
}

test("detection is over when no address is tentative", () => {
  expect(detect([])).toBe(0)
  expect(detect([IFA_F_PERMANENT, 0])).toBe(0)
  expect(detect([IFA_F_PERMANENT, IFA_F_TENTATIVE], [IFA_F_TENTATIVE | IFA_F_PERMANENT, 0], [IFA_F_PERMANENT, 0])).toBe(
    2,
  )
})

test("an address that another host has is named at once, also while others are undecided", () => {
  const taken = IFA_F_DADFAILED | IFA_F_TENTATIVE
  expect(refusalOf(() => detect([IFA_F_TENTATIVE, IFA_F_TENTATIVE], [IFA_F_TENTATIVE, taken]))).toMatchObject({
    code: 999,
    message: 'Cannot use fd00::6 on "eth0": another host has it',
  })
})
