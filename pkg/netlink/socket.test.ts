import { describe, expect, test } from "bun:test"
import { isErrno, SyscallError } from "../libc/mod.ts"
import { concat, DecodeError } from "./codec.ts"
import { encodeMessage, type Message, NetlinkError, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP_INTR } from "./message.ts"
import { NETLINK_NETFILTER, NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import { type Answer, acknowledge, done, hex, ScriptedKernel } from "./testing.ts"

const EINTR = 4
const EAGAIN = 11
const NLM_F_DUMP = 0x300
const ENOMEM = 12
const ENOBUFS = 105

function connect(script: (request: Message) => Answer[] = () => []) {
  const kernel = new ScriptedKernel(script)
  return { kernel, route: new NetlinkSocket(NETLINK_ROUTE, 0, kernel) }
}

const request = { type: 18, what: "find link", payload: hex`aabbccdd` }

/** Returns an entry of a list, or an answer: a message of type 16 with a byte that identifies it. */
function entry({ sequence }: Pick<Message, "sequence">, tag: number, flags = 2): Uint8Array {
  return encodeMessage(16, flags, sequence, Uint8Array.of(tag))
}
const whole = (message: Message) => message
const tags = (messages: readonly Message[]) => messages.map(({ payload }) => payload[0])

function errorOf(action: () => unknown): unknown {
  try {
    action()
  } catch (error) {
    return error
  }
  throw new Error("nothing was thrown")
}

describe("the beginning of a list", () => {
  const beginning = { ...request, flags: NLM_F_DUMP }
  const part = (sent: Message, tag: number, length: number) =>
    encodeMessage(
      16,
      2,
      sent.sequence,
      Uint8Array.from({ length }, () => tag),
    )

  /**
   * Returns a kernel whose lists have this number of datagrams of `length` bytes. It answers other requests with an
   * entry 9.
   */
  const listing = (datagrams: number, length: number) =>
    connect((sent) => {
      if ((sent.flags & NLM_F_DUMP) === 0) return [entry(sent, 9, 0)]
      return [...Array.from({ length: datagrams }, (_, at) => part(sent, at + 1, length)), done(sent)]
    })

  test.each([
    ["is read to its end where that is near", 4, 4_000, 0, 5],
    ["leaves the rest with its socket where the end is not near", 5, 4_000, 1, 5],
    ["leaves the rest at once where the beginning is long", 30, 32_000, 1, 1],
  ])("%s", (_, datagrams, length, renewed, received) => {
    const { kernel, route } = listing(datagrams, length)
    expect(route.get(beginning, whole).payload[0]).toBe(1)
    expect(kernel).toMatchObject({ renewed, handedOut: received })
    expect(route.get(beginning, whole).payload[0]).toBe(1)
    expect(tags([route.get(request, whole)])).toEqual([9])
    expect(kernel.handedOut).toBe(2 * received + 1)
  })

  test("is read to its end, however far that is, where no other socket can be opened", () => {
    const { kernel, route } = listing(30, 32_000)
    kernel.canRenew = false
    expect(route.get(beginning, whole).payload[0]).toBe(1)
    expect(kernel.handedOut).toBe(31)
  })

  test("is all of it where nothing comes behind it, and stays good where the rest is lost", () => {
    const { kernel, route } = connect((sent) => [concat([entry(sent, 1), done(sent)])])
    expect(tags([route.get(beginning, whole)])).toEqual([1])
    // The first datagram contains the end of the list, so the socket is not read again.
    expect(kernel).toMatchObject({ renewed: 0, asked: 1 })
    const lossy = connect((sent) => [entry(sent, 1), ENOBUFS])
    expect(tags([lossy.route.get(beginning, whole)])).toEqual([1])
    expect(lossy.kernel.renewed).toBe(1)
  })
})

describe("a list whose entries may be longer than a page", () => {
  test("is asked for once where it has entries, and where it is short", () => {
    for (const [isShort, answers] of [
      [undefined, [1]],
      [true, []],
    ] as const) {
      const { kernel, route } = connect((sent) => [...answers.map((tag) => entry(sent, tag)), done(sent)])
      kernel.isWide = false
      expect(tags(route.dump({ ...request, ...(isShort && { isShort }) }, whole))).toEqual([...answers])
      expect(kernel).toMatchObject({ requests: { length: 1 }, isWide: !isShort })
    }
  })

  test("is asked for again, with room for them, where it ends before its first: that one may be long", () => {
    const asked: boolean[] = []
    const { kernel, route } = connect((sent) => {
      asked.push(kernel.isWide)
      return kernel.isWide ? [entry(sent, 1), done(sent)] : [done(sent)]
    })
    kernel.isWide = false
    for (let times = 0; times < 2; times++) expect(tags(route.dump(request, whole))).toEqual([1])
    expect(asked).toEqual([false, true, true])
  })

  test("is empty where it is so with room for them", () => {
    const { kernel, route } = connect((sent) => [done(sent)])
    kernel.isWide = false
    expect(route.dump(request, whole)).toEqual([])
    expect(kernel.requests).toHaveLength(2)
  })
})

describe("execute", () => {
  test("asks for an acknowledgement, with a new sequence number each time", () => {
    const { kernel, route } = connect((sent) => [acknowledge(sent)])
    route.execute(request)
    route.execute({ ...request, flags: 0x600 })
    expect(kernel.datagrams).toEqual([
      hex`14000000 1200 0500 01000000 00000000 aabbccdd`, // REQUEST | ACK
      hex`14000000 1200 0506 02000000 00000000 aabbccdd`,
    ])
  })

  test("begins where the transport says, also with several messages at once", () => {
    const kernel = new ScriptedKernel((sent) => [acknowledge(sent)], 0x7ffffffe)
    const route = new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
    route.execute(request)
    route.transact([
      { ...request, flags: NLM_F_ACK },
      { ...request, flags: NLM_F_ACK },
    ])
    expect(kernel.requests.map(({ sequence }) => sequence)).toEqual([0x7fffffff, 0x80000000, 0x80000001])
  })

  test("throws what the kernel says against it, with its extack", () => {
    // The answer to ip route add 10.99.0.0/16 via 172.31.0.1, in which only the header of the request is repeated.
    const { route } = connect(({ sequence }) => {
      const payload = hex`
        9bffffff 2c000000 1800 0506 01000000 00000000
        2000 0100 4e657874686f702068617320696e76616c6964206761746577617900`
      return [encodeMessage(2, 0x300, sequence, payload)]
    })
    const error = errorOf(() => route.execute({ ...request, what: "add route" }))
    expect(error).toBeInstanceOf(NetlinkError)
    expect(error).toMatchObject({
      errno: "ENETUNREACH",
      extack: "Nexthop has invalid gateway",
      message: "add route: Nexthop has invalid gateway (ENETUNREACH)",
    })
  })

  test("passes over answers to earlier requests, notifications, and other messages in the datagram", () => {
    const { route } = connect((sent) => [
      concat([entry(sent, 1), acknowledge({ ...sent, sequence: sent.sequence - 1 }, 1)]),
      concat([entry({ sequence: 0 }, 2), acknowledge(sent)]),
    ])
    expect(() => route.execute(request)).not.toThrow()
  })

  test("without an answer fails with EAGAIN, at once: the kernel answers within the call that asks", () => {
    const { kernel, route } = connect()
    expect(kernel.timeouts).toEqual([]) // the socket never waits for an answer
    expect(errorOf(() => route.execute(request))).toMatchObject({ errno: "EAGAIN", message: "find link: EAGAIN" })
  })

  test("takes a malformed datagram for an answer that was lost", () => {
    const { kernel, route } = connect((sent) => (sent.sequence === 1 ? [hex`01020304`] : [acknowledge(sent)]))
    route.execute(request)
    expect(kernel.requests).toHaveLength(2)
    const always = connect(() => [hex`01020304`])
    expect(errorOf(() => always.route.execute(request))).toMatchObject({ errno: "EBADMSG", isLost: true })
  })

  test("asks once more when the answer is lost, and what is there or gone by then was done", () => {
    const [EEXIST, ENODEV, EPERM] = [17, 19, 1]
    const cases = [
      { type: 16, flags: NLM_F_CREATE, second: EEXIST }, // RTM_NEWLINK
      { type: 17, flags: 0, second: ENODEV }, // RTM_DELLINK
      { type: 20, flags: NLM_F_CREATE, second: 0 }, // RTM_NEWADDR, of which the first copy was not executed
    ]
    for (const { type, flags, second } of cases) {
      for (const lost of [ENOBUFS, EAGAIN, ENOMEM]) {
        const { kernel, route } = connect((sent) => [sent.sequence === 1 ? lost : acknowledge(sent, second)])
        route.execute({ ...request, type, flags })
        expect(kernel.requests.map(({ sequence }) => sequence)).toEqual([1, 2])
      }
      const refused = connect((sent) => [sent.sequence === 1 ? ENOBUFS : acknowledge(sent, EPERM)])
      expect(errorOf(() => refused.route.execute({ ...request, type, flags }))).toMatchObject({ errno: "EPERM" })
    }
    for (const { type, flags, second } of cases.slice(0, 2)) {
      const atOnce = connect((sent) => [acknowledge(sent, second)])
      expect(
        isErrno(
          errorOf(() => atOnce.route.execute({ ...request, type, flags })),
          "EEXIST",
          "ENODEV",
        ),
      ).toBe(true)
      const other = connect((sent) => [sent.sequence === 1 ? ENOBUFS : acknowledge(sent, second)])
      expect(errorOf(() => other.route.execute({ ...request, type: 19, flags: 0 }))).toBeInstanceOf(NetlinkError) // RTM_SETLINK
    }
  })

  test("that cannot be sent was not done, and is not sent again", () => {
    const kernel = new ScriptedKernel()
    let sent = 0
    kernel.send = () => {
      sent++
      throw new SyscallError("sendto", ENOBUFS)
    }
    const route = new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
    expect(errorOf(() => route.execute(request))).toMatchObject({
      message: "find link: the request cannot be sent (ENOBUFS)",
      isLost: false,
    })
    expect(sent).toBe(1)
  })

  test("fails with ENOBUFS when the kernel has lost messages", () => {
    const overrun = connect(() => [encodeMessage(4, 0, 0, hex``)]) // NLMSG_OVERRUN
    expect(errorOf(() => overrun.route.execute(request))).toMatchObject({ name: "NetlinkError", errno: "ENOBUFS" })
    const lost = connect(() => [ENOBUFS])
    expect(errorOf(() => lost.route.execute(request))).toMatchObject({ name: "NetlinkError", errno: "ENOBUFS" })
  })
})

test("an answer that is not what the format says is an error of the request, for each kind of request", () => {
  const garbage = Uint8Array.of(9, 0, 0, 0)
  const { route } = connect(() => [garbage])
  const says = { errno: "EBADMSG", message: expect.stringMatching(/^find link: the kernel's answer cannot be read: /) }
  for (const ask of [
    () => route.get(request, whole),
    () => route.find(request, 2, whole),
    () => route.execute(request),
    () => route.dump(request, whole),
    () => route.transact([{ ...request, flags: 4 }]),
  ])
    expect(errorOf(ask)).toMatchObject(says)
  const { route: torn } = connect((sent) => [encodeMessage(2, 0, sent.sequence, hex`00000000`)]) // NLMSG_ERROR, cut off
  for (const ask of [() => torn.execute(request), () => torn.transact([{ ...request, flags: 4 }])])
    expect(errorOf(ask)).toMatchObject(says)
  const { route: other } = connect((sent) => [entry(sent, 1), done(sent)])
  const refuse = () => {
    throw new DecodeError("no link")
  }
  for (const ask of [
    () => other.get(request, refuse),
    () => other.find(request, 2, refuse),
    () => other.dump(request, refuse),
  ])
    expect(errorOf(ask)).toMatchObject({
      ...says,
      message: "find link: the kernel's answer cannot be read: no link (EBADMSG)",
    })
})

describe("get", () => {
  test("gives the answer, which outlives the next datagram", () => {
    const { kernel, route } = connect((sent) => [entry(sent, sent.sequence)])
    const first = route.get(request, whole)
    const second = route.get(request, whole)
    expect(tags([first, second])).toEqual([1, 2])
    expect(kernel.requests.map(({ flags }) => flags)).toEqual([1, 1]) // REQUEST and nothing else
  })

  test("throws what the kernel says against it", () => {
    const { route } = connect((sent) => [acknowledge(sent, 19)])
    expect(errorOf(() => route.get(request, whole))).toMatchObject({ errno: "ENODEV", message: "find link: ENODEV" })
  })

  test("asks once more when the answer is lost, as a list does, and a transaction does not", () => {
    const answer = connect((sent) => [sent.sequence === 1 ? ENOBUFS : entry(sent, 5)])
    expect(tags([answer.route.get(request, whole)])).toEqual([5])
    const list = connect((sent) => (sent.sequence === 1 ? [entry(sent, 1), ENOBUFS] : [entry(sent, 2), done(sent)]))
    expect(tags(list.route.dump(request, whole))).toEqual([2])
    const batch = connect(() => [ENOBUFS])
    const error = errorOf(() => batch.route.transact([{ ...request, flags: NLM_F_ACK }]))
    expect(error).toMatchObject({ errno: "ENOBUFS", isLost: true })
    expect(batch.kernel.requests).toHaveLength(1)
    const never = connect(() => [ENOBUFS])
    expect(errorOf(() => never.route.get(request, whole))).toMatchObject({ errno: "ENOBUFS", isLost: true })
    expect(never.kernel.requests).toHaveLength(2)
  })

  test("passes over an acknowledgement and answers to others", () => {
    const { route } = connect((sent) => [entry({ sequence: 77 }, 9), concat([acknowledge(sent), entry(sent, 5)])])
    expect(tags([route.get(request, whole)])).toEqual([5])
  })
})

describe("dump", () => {
  test("reads a list whose answer was lost to its end where the kernel begins no other before, and then asks again", () => {
    const EBUSY = 16
    const former = { sequence: 1 }
    const { kernel, route } = connect((sent) => {
      if (sent.sequence === 1) return [entry(sent, 1), ENOBUFS]
      if (sent.sequence > 2) return [entry(sent, 4), done(sent)]
      return [acknowledge(sent, EBUSY), entry(former, 2), concat([entry(former, 3), done(former)])]
    })
    expect(tags(route.dump(request, whole))).toEqual([4])
    expect(kernel.requests.map(({ sequence }) => sequence)).toEqual([1, 2, 3])
    const refused = connect((sent) => (sent.sequence === 1 ? [ENOBUFS] : [acknowledge(sent, 1)]))
    expect(errorOf(() => refused.route.dump(request, whole))).toMatchObject({ errno: "EPERM" })
    expect(refused.kernel.requests).toHaveLength(2)
  })

  test("asks once more when an entry was too long for the first list of a socket", () => {
    const EMSGSIZE = 90
    const { kernel, route } = connect((sent) =>
      sent.sequence === 1 ? [acknowledge(sent, EMSGSIZE)] : [entry(sent, 4), done(sent)],
    )
    expect(tags(route.dump(request, whole))).toEqual([4])
    expect(kernel.requests).toHaveLength(2)
    const always = connect((sent) => [acknowledge(sent, EMSGSIZE)])
    expect(errorOf(() => always.route.dump(request, whole))).toMatchObject({ errno: "EMSGSIZE" })
    expect(always.kernel.requests).toHaveLength(2)
  })

  test("gives all messages of all datagrams until the list ends", () => {
    const { kernel, route } = connect((sent) => [
      concat([entry(sent, 1), entry(sent, 2)]),
      concat([entry({ sequence: 0 }, 9), entry(sent, 3)]),
      done(sent),
    ])
    expect(tags(route.dump(request, whole))).toEqual([1, 2, 3])
    expect(kernel.requests.map(({ flags }) => flags)).toEqual([0x301]) // REQUEST | DUMP
  })

  test("may be empty, and end in the same datagram", () => {
    expect(connect((sent) => [done(sent)]).route.dump(request, whole)).toEqual([])
    const { route } = connect((sent) => [concat([entry(sent, 1), done(sent)])])
    expect(tags(route.dump(request, whole))).toEqual([1])
  })

  test("is held one datagram at a time, and of it what is picked", () => {
    const count = 1000
    let kernel = new ScriptedKernel()
    let seen = 0
    const pick = ({ payload }: Message) => {
      seen += 1
      expect(kernel.handedOut).toBe(seen) // `pick` is called for a datagram before the next one is received
      return payload[0] === 7 ? payload.length : undefined
    }
    const connected = connect((sent) => [
      ...Array.from({ length: count }, (_, index) => entry(sent, index % 256)),
      done(sent),
    ])
    kernel = connected.kernel
    expect(connected.route.dump(request, pick)).toEqual([1, 1, 1, 1])
    expect({ seen, handedOut: kernel.handedOut }).toEqual({ seen: count, handedOut: count + 1 })
  })

  test("gives bytes that stay: what is picked may hold on to them", () => {
    const { route } = connect((sent) => [entry(sent, 1), entry(sent, 2), done(sent)])
    expect(route.dump(request, ({ payload }) => payload).map((payload) => payload[0])).toEqual([1, 2])
  })

  test("that was lost is read again once the kernel is at the end of what it was saying, before which it is busy", () => {
    const { kernel, route } = connect((sent) => {
      if (sent.sequence === 1) return [entry(sent, 1), ENOBUFS]
      if (sent.sequence === 2) return [acknowledge(sent, 16), entry({ sequence: 1 }, 2), done({ sequence: 1 })] // EBUSY
      return [entry(sent, 3), done(sent)]
    })
    expect(tags(route.dump(request, whole))).toEqual([3])
    expect(kernel.requests).toHaveLength(3)
  })

  test("that changed while it was read (NLM_F_DUMP_INTR on any message) is read again, whole", () => {
    const { kernel, route } = connect((sent) => [
      entry(sent, sent.sequence * 10, sent.sequence === 1 ? 2 | NLM_F_DUMP_INTR : 2),
      entry(sent, sent.sequence * 10 + 1),
      done(sent, 0, sent.sequence === 2 ? 2 | NLM_F_DUMP_INTR : 2),
    ])
    expect(tags(route.dump(request, whole))).toEqual([30, 31])
    expect(kernel.requests.map(({ sequence }) => sequence)).toEqual([1, 2, 3])
  })

  test("that ends with EINTR, as of newer kernels, is read again", () => {
    const { route } = connect((sent) => {
      if (sent.sequence === 1) return [entry(sent, 1), done(sent, EINTR)]
      if (sent.sequence === 2) return [acknowledge(sent, EINTR)]
      return [entry(sent, 3), done(sent)]
    })
    expect(tags(route.dump(request, whole))).toEqual([3])
  })

  test("#43 that never stops changing is given up after ten times, as something that will pass", () => {
    const { kernel, route } = connect((sent) => [entry(sent, 1), done(sent, 0, 2 | NLM_F_DUMP_INTR)])
    expect(errorOf(() => route.dump(request, whole))).toMatchObject({
      errno: "EINTR",
      message: "find link: it kept changing while it was read (EINTR)",
      willPass: true,
    })
    expect(kernel.requests).toHaveLength(10)
  })

  test("throws what the kernel says against it, at once or at the end", () => {
    const refused = connect((sent) => [acknowledge(sent, 1)])
    expect(errorOf(() => refused.route.dump(request, whole))).toMatchObject({ errno: "EPERM" })
    expect(refused.kernel.requests).toHaveLength(1)
    const broken = connect((sent) => [entry(sent, 1), done(sent, 12)])
    expect(errorOf(() => broken.route.dump(request, whole))).toMatchObject({ errno: "ENOMEM" })
  })
})

describe("transact", () => {
  /** A batch like that of nf_tables: only the changes between begin and end request an acknowledgement. */
  const batch = [
    { type: 16, what: "begin", payload: hex`01` },
    { type: 0xa00, flags: NLM_F_ACK, what: "add table", payload: hex`02` },
    { type: 0xa03, flags: NLM_F_ACK, what: "add chain", payload: hex`03` },
    { type: 17, what: "end", payload: hex`04` },
  ]
  const wantsAck = ({ flags }: Message) => (flags & NLM_F_ACK) !== 0

  test("sends all messages in one datagram and waits for all that want an acknowledgement", () => {
    const { kernel, route } = connect((sent) => (wantsAck(sent) ? [acknowledge(sent)] : []))
    route.transact(batch)
    expect(kernel.datagrams).toEqual([
      hex`
        11000000 1000 0100 01000000 00000000 01 000000
        11000000 000a 0500 02000000 00000000 02 000000
        11000000 030a 0500 03000000 00000000 03 000000
        11000000 1100 0100 04000000 00000000 04 000000`,
    ])
    route.transact(batch)
    expect(kernel.requests.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    expect(() => kernel.receive()).toThrow("EAGAIN")
  })

  test("throws the first refusal, named for its message", () => {
    const { route } = connect((sent) => (wantsAck(sent) ? [acknowledge(sent, sent.type === 0xa03 ? 17 : 0)] : []))
    expect(errorOf(() => route.transact(batch))).toMatchObject({ errno: "EEXIST", message: "add chain: EEXIST" })
  })

  test("throws the first of several, and leaves the others to be passed over by the next request", () => {
    const { route } = connect((sent) => (wantsAck(sent) ? [acknowledge(sent, sent.sequence < 5 ? 1 : 0)] : []))
    expect(errorOf(() => route.transact(batch))).toMatchObject({ message: "add table: EPERM" })
    expect(() => route.execute(request)).not.toThrow()
  })

  test("throws what is wrong with the whole, which comes as the answer to its beginning", () => {
    const { route } = connect((sent) => (sent.type === 16 ? [acknowledge(sent, 1)] : []))
    expect(errorOf(() => route.transact(batch))).toMatchObject({ message: "begin: EPERM" })
  })

  test("of messages that want no answer does not wait", () => {
    const { kernel, route } = connect()
    route.transact(batch.slice(0, 1))
    expect(kernel.datagrams).toHaveLength(1)
  })
})

describe("nextEvents", () => {
  test("gives one datagram of notifications of each origin", () => {
    const { kernel, route } = connect()
    kernel.push(concat([entry({ sequence: 0 }, 1), entry({ sequence: 99 }, 2)]), entry({ sequence: 0 }, 3))
    expect(tags(route.nextEvents(100) ?? [])).toEqual([1, 2])
    expect(tags(route.nextEvents(100) ?? [])).toEqual([3])
  })

  test("is undefined when the time is over, which is more than nothing", () => {
    const { kernel, route } = connect()
    expect(route.nextEvents(250)).toBeUndefined()
    expect(route.nextEvents(0)).toBeUndefined()
    expect(kernel.timeouts).toEqual([250, 1])
  })

  test("is empty when the kernel had to drop some", () => {
    const { kernel, route } = connect()
    kernel.push(ENOBUFS, encodeMessage(4, 0, 0, hex``))
    expect(route.nextEvents(100)).toEqual([])
    expect(route.nextEvents(100)).toEqual([])
  })

  test("throws other errors as they are", () => {
    const { kernel, route } = connect()
    kernel.push(9)
    const error = errorOf(() => route.nextEvents(100))
    expect(isErrno(error, "EBADF")).toBe(true)
    expect(isErrno(error, "EAGAIN")).toBe(false)
    expect(EAGAIN).toBe(11)
  })
})

test("disposing closes what carries the datagrams", () => {
  const kernel = new ScriptedKernel()
  {
    using socket = new NetlinkSocket(NETLINK_NETFILTER, 0, kernel)
    expect(Number(socket.fd)).toBe(-1)
    expect(kernel.closed).toBe(0)
  }
  expect(kernel.closed).toBe(1)
})

describe("a request that an answer was lost to", () => {
  // <linux/rtnetlink.h> numbers requests from 16 to 255 in groups of four: NEW, DEL, GET, SET. Those of nfnetlink are
  // greater.
  const [ENOENT, ESRCH, ENODEV, EADDRNOTAVAIL, EINVAL] = [2, 3, 19, 99, 22]
  const outcome = (type: number, second: number, flags = 0) => {
    const { route } = connect((sent) => [sent.sequence === 1 ? ENOBUFS : acknowledge(sent, second)])
    try {
      route.execute({ ...request, type, flags })
      return "done"
    } catch (error) {
      return (error as NetlinkError).errno
    }
  }

  test.each([ENOENT, ESRCH, ENODEV, EADDRNOTAVAIL])(
    "was done when it deletes what does not exist by now, errno %d",
    (errno) => {
      for (const type of [17, 21, 253]) expect(outcome(type, errno)).toBe("done")
      for (const type of [13, 16, 18, 19, 257, 0xa09]) expect(outcome(type, errno)).not.toBe("done")
    },
  )

  test("was done when it makes what is there by now, and not for another reason", () => {
    expect(outcome(16, 17, NLM_F_CREATE)).toBe("done")
    expect(outcome(16, 17)).toBe("EEXIST")
    expect(outcome(17, 17)).toBe("EEXIST")
    expect(outcome(17, ENOENT, NLM_F_CREATE)).toBe("ENOENT")
    for (const type of [16, 17]) expect(outcome(type, EINVAL, type === 16 ? NLM_F_CREATE : 0)).toBe("EINVAL")
  })
})
