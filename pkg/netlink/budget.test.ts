import { describe, expect, test } from "bun:test"
import { Budget } from "./budget.ts"
import { deleteEach, deleteLinks } from "./link-batch.ts"
import { encodeMessage, type Message } from "./message.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import { acknowledge, done, hex, linkNumber, ScriptedKernel } from "./testing.ts"

const [ENODEV, EPERM, EOPNOTSUPP] = [19, 1, 95]
const [RTM_NEWLINK, RTM_DELLINK] = [16, 17]

/** Returns a clock that advances only when the test says so. */
function clockAt(start: number) {
  let now = start
  const pass = (ms: number) => {
    now += ms
  }
  return { read: () => now, pass }
}

/** The share of the processor on an idle machine. */
const alone = () => 1

const errnoOf = (action: () => unknown) => {
  try {
    action()
    return undefined
  } catch (error) {
    return (error as { errno?: string }).errno
  }
}

describe("a budget", () => {
  test("is spent by work, and by nothing that takes its time beside it", () => {
    const { read, pass } = clockAt(500)
    const budget = new Budget(20, 0, read, alone)
    pass(25)
    expect(errnoOf(() => budget.step("list links"))).toBeUndefined()
    budget.spend(() => pass(19))
    expect(errnoOf(() => budget.step("list links"))).toBeUndefined()
    budget.spend(() => pass(1))
    expect(() => budget.step("list links")).toThrow("list links: the container's list is too long (ETIME)")
  })

  test("is over in the midst of work, and counts work within work once", () => {
    const { read, pass } = clockAt(0)
    const budget = new Budget(20, 0, read, alone)
    const errnos = budget.spend(() => {
      pass(5)
      budget.spend(() => pass(10))
      const before = errnoOf(() => budget.step("x"))
      pass(5)
      return [before, errnoOf(() => budget.step("x"))]
    })
    expect(errnos).toEqual([undefined, "ETIME"])
  })

  test("lets its free steps be taken when no time is left", () => {
    const budget = new Budget(0, 2)
    expect([1, 2, 3, 4].map(() => errnoOf(() => budget.step("x")))).toEqual([undefined, undefined, "ETIME", "ETIME"])
  })

  test("counts of the clock's time the share that the thread had of the processor, beside other programs", () => {
    const { read, pass } = clockAt(0)
    let share = 1
    const budget = new Budget(20, 0, read, () => share)
    budget.spend(() => {
      pass(20)
      expect(errnoOf(() => budget.step("delete a link"))).toBe("ETIME")
      share = 0.5
      expect(errnoOf(() => budget.step("delete a link"))).toBeUndefined()
      pass(20)
      expect(errnoOf(() => budget.step("delete a link"))).toBe("ETIME")
      pass(59)
      share = 0.201
      expect(errnoOf(() => budget.step("delete a link"))).toBeUndefined()
    })
    share = 0.202 // the clock has advanced by 99 ms in all
    expect(errnoOf(() => budget.step("delete a link"))).toBeUndefined()
    share = 0.203
    expect(errnoOf(() => budget.step("delete a link"))).toBe("ETIME")
  })

  test("is over after thirty times its time by the clock, with the smallest share of the processor", () => {
    const { read, pass } = clockAt(0)
    const budget = new Budget(20, 0, read, () => 0.001)
    budget.spend(() => pass(599))
    expect([errnoOf(() => budget.step("x")), errnoOf(() => budget.stepOfList("x"))]).toEqual([undefined, undefined])
    budget.spend(() => pass(1))
    expect([errnoOf(() => budget.step("x")), errnoOf(() => budget.stepOfList("x"))]).toEqual(["ETIME", "ETIME"])
  })

  test("has a list go on for five times its time", () => {
    const { read, pass } = clockAt(0)
    const budget = new Budget(20, 0, read, () => 1)
    budget.spend(() => pass(99))
    expect(errnoOf(() => budget.stepOfList("list links"))).toBeUndefined()
    expect(errnoOf(() => budget.step("delete a link"))).toBe("ETIME")
    budget.spend(() => pass(1))
    expect(errnoOf(() => budget.stepOfList("list links"))).toBe("ETIME")
  })

  test("gives one of several containers a quarter of what is left, and four steps, and takes what that one spends", () => {
    const { read, pass } = clockAt(0)
    const budget = new Budget(40, 0, read, alone)
    const ofOne = (ms: number) =>
      budget.share((part) => {
        pass(ms)
        return [1, 2, 3, 4, 5].map(() => errnoOf(() => part.step("x"))).at(-1)
      })
    expect([ofOne(9), ofOne(8), ofOne(6)]).toEqual([undefined, "ETIME", "ETIME"])
    expect(errnoOf(() => budget.step("x"))).toBeUndefined()
    expect(ofOne(17)).toBe("ETIME")
    const listed = budget.share((part) => [1, 2, 3, 4, 5].map(() => errnoOf(() => part.stepOfList("x"))).at(-1))
    expect(listed).toBe("ETIME")
    expect(errnoOf(() => budget.step("x"))).toBe("ETIME")
  })
})

/** Returns a scripted kernel and a socket to it, whose budget has no time and this many free steps. */
function connect(script: (request: Message) => ReturnType<typeof acknowledge>[], freeSteps = 1000) {
  const kernel = new ScriptedKernel(script)
  return { kernel, route: new NetlinkSocket(NETLINK_ROUTE, 0, kernel, new Budget(0, freeSteps)) }
}

test("a list is broken off at the datagram at which the budget is over, and the next one is not asked for [S66]", () => {
  const entry = ({ sequence }: Message) => encodeMessage(16, 2, sequence, hex`01`)
  const { kernel, route } = connect((sent) => [entry(sent), entry(sent), entry(sent), done(sent)], 3)
  const list = () => route.dump({ type: 18, what: "list links", payload: hex`` }, () => true)
  expect(errnoOf(list)).toBe("ETIME")
  expect(kernel.handedOut).toBe(3)
  expect(errnoOf(list)).toBe("ETIME")
  expect(kernel.requests).toHaveLength(1)
})

describe("many links are deleted at once", () => {
  const links = (count: number) => Array.from({ length: count }, (_, at) => linkNumber(at + 1, `x${at}`))
  const answering = (errno: (request: Message) => number) => (request: Message) =>
    request.flags & 4 || errno(request) !== 0 ? [acknowledge(request, errno(request))] : []

  test("by a group that they are given in one datagram, whose last message is answered", () => {
    const { kernel, route } = connect(answering(() => 0))
    deleteLinks(route, links(3))
    const group = kernel.requests[0]?.payload.subarray(16) ?? hex``
    // struct ifinfomsg with the index, and IFLA_GROUP 27; <linux/if_link.h>
    expect(group.subarray(0, 4)).toEqual(hex`0800 1b00`)
    expect(kernel.datagrams).toHaveLength(2)
    expect(kernel.requests.map(({ type, flags }) => [type, flags])).toEqual([
      [RTM_NEWLINK, 1],
      [RTM_NEWLINK, 1],
      [RTM_NEWLINK, 5],
      [RTM_DELLINK, 5],
    ])
    expect(kernel.requests.map(({ payload }) => payload[4])).toEqual([1, 2, 3, 0])
    for (const { payload } of kernel.requests) expect(payload.subarray(16)).toEqual(group)
  })

  test("in batches, each of which is a step of the budget; one by itself needs no group", () => {
    const { kernel, route } = connect(
      answering(() => 0),
      3,
    )
    deleteLinks(route, links(501))
    expect(kernel.requests.filter(({ type }) => type === RTM_DELLINK).map(({ payload }) => payload[4])).toEqual([
      0,
      501 & 255,
    ])
    expect(kernel.requests).toHaveLength(502)
    expect(() => deleteLinks(route, links(1700))).toThrow("delete 1700 links: the container's list is too long (ETIME)")
  })

  test("where one was deleted, and all of them one by one where the group has a link that cannot be deleted", () => {
    const gone = connect(answering(({ type, payload }) => (type === RTM_NEWLINK && payload[4] === 2 ? ENODEV : 0)))
    deleteLinks(gone.route, links(3))
    expect(gone.kernel.requests.filter(({ type }) => type === RTM_DELLINK)).toHaveLength(1)
    const refused = connect(
      answering(({ type, payload }) => (type === RTM_DELLINK && payload[4] === 0 ? EOPNOTSUPP : 0)),
    )
    deleteLinks(refused.route, links(3))
    expect(refused.kernel.requests.filter(({ type }) => type === RTM_DELLINK).map(({ payload }) => payload[4])).toEqual(
      [0, 1, 2, 3],
    )
  })

  test("and what the kernel refuses otherwise is thrown", () => {
    expect(errnoOf(() => deleteLinks(connect(answering(() => EPERM)).route, links(2)))).toBe("EPERM")
    const { kernel, route } = connect(answering(({ payload }) => (payload[4] === 1 ? ENODEV : EPERM)))
    expect(errnoOf(() => deleteEach(route, links(3), 7))).toBe("EPERM")
    // IFLA_TARGET_NETNSID 46
    expect(kernel.requests[1]?.payload.subarray(16)).toEqual(hex`0800 2e00 07000000`)
  })
})
