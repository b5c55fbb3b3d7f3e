import { describe, expect, test } from "bun:test"
import type { Fd } from "../libc/mod.ts"
import { type Message, NetlinkError, NLM_F_ACK, NLM_F_EXCL, type Request } from "../netlink/mod.ts"
import { toErrorObject } from "../types/mod.ts"
import { add, type Operation } from "./rule-set.ts"
import { atomically, commit, commitQuickly, dryRun, type Generation, getGeneration } from "./transaction.ts"

/** Stands for a lost answer in the refusals of `kernel`. */
const lost = "lost"

/** Returns a kernel whose generation grows with each read, and that refuses the first transactions with `refusals`. */
function kernel(...refusals: string[]) {
  const sent: (readonly Request[])[] = []
  let generation = 0x01020303
  return {
    sent,
    fd: -1 as Fd,
    get<T>(_request: Request, read: (message: Message) => T): T {
      // struct nfgenmsg, then NFTA_GEN_ID, <linux/netfilter/nf_tables.h>
      const payload = new Uint8Array([0, 0, 0, 0, 8, 0, 1, 0, 0, 0, 0, 0])
      new DataView(payload.buffer).setUint32(8, ++generation)
      return read({ type: 0, flags: 0, sequence: 0, payload })
    },
    transact(requests: readonly Request[]) {
      sent.push(requests)
      const errno = refusals.shift()
      if (errno === lost) throw new NetlinkError("transact", "ENOBUFS", undefined, { isLost: true })
      if (errno) throw new NetlinkError("transact", errno)
    },
  }
}

const table = add.table({ family: "ip", name: "t" })
const chain = add.chain({ table: { family: "ip", name: "t" }, name: "c" })

test("a transaction is enclosed in a batch, and its last change is acknowledged", () => {
  const socket = kernel()
  commit(socket, [table, chain])
  const [requests = []] = socket.sent
  // NFNL_MSG_BATCH_BEGIN and _END for NFNL_SUBSYS_NFTABLES, 10 in network order, <linux/netfilter/nfnetlink.h>
  expect(requests.map(({ type }) => type)).toEqual([0x10, 0xa00, 0xa03, 0x11])
  expect(new Uint8Array(requests[0]?.payload ?? []).toHex()).toBe("0000000a")
  expect(new Uint8Array(requests[3]?.payload ?? []).toHex()).toBe("0000000a")
  expect(requests.map(({ flags = 0 }) => (flags & NLM_F_ACK) !== 0)).toEqual([false, false, true, false])
})

test("a transaction for one generation only says so", () => {
  const socket = kernel()
  commit(socket, [table], 0x01020304 as Generation)
  const begin = socket.sent[0]?.[0]
  expect(new Uint8Array(begin?.payload ?? []).toHex()).toBe("0000000a 08000100 01020304".replaceAll(" ", ""))
})

/** Returns the size of the datagram of a transaction, in which each message has a header of 16 bytes. */
function sizeOf(operations: readonly Operation[]): number {
  const { sent, ...socket } = kernel()
  commit(socket, operations)
  return (sent[0] ?? []).reduce((sum, { payload }) => sum + 16 + payload.length, 0)
}

/** Returns rules whose transaction is a datagram of this many bytes, a multiple of four. */
function rulesOf(bytes: number): Operation[] {
  const ruleOf = (length: number) =>
    add.rule({ chain: { table: { family: "ip", name: "t" }, name: "c" }, statements: [], comment: "x".repeat(length) })
  const frame = 2 * sizeOf([ruleOf(1)]) - sizeOf([ruleOf(1), ruleOf(1)]) // the size of the first and the last message
  const sizes = new Map(Array.from({ length: 127 }, (_, at) => [sizeOf([ruleOf(at + 1)]) - frame, ruleOf(at + 1)]))
  const [[size, rule] = expect.unreachable()] = sizes
  for (let count = Math.floor((bytes - frame) / size); ; count--) {
    const last = sizes.get(bytes - frame - count * size)
    if (last) return [...Array.from({ length: count }, () => rule), last]
  }
}

describe("a transaction that is longer than what a socket takes", () => {
  test("of 128 KiB is sent as it is", () => {
    const operations = rulesOf(128 << 10)
    expect(sizeOf(operations)).toBe(128 << 10)
  })

  // <asm-generic/socket.h>: SOL_SOCKET 1, SO_SNDBUFFORCE 32. The kernel refuses the option because the descriptor is
  // not open.
  test("has the socket take more, before anything is sent", () => {
    const socket = kernel()
    expect(() => commit(socket, rulesOf((128 << 10) + 4))).toThrow(/^setsockopt 1\/32: .*EBADF/)
    expect(socket.sent).toEqual([])
  })
})

test("no changes are no transaction", () => {
  const socket = kernel()
  commit(socket, [])
  commit(socket, [add.elements({ table: { family: "ip", name: "t" }, name: "s", key: [] }, [])])
  atomically(socket, () => [])
  expect(socket.sent).toEqual([])
})

describe("changes that depend on nothing that was read", () => {
  const plan = () => [chain]

  test("are made quickly, and no other plan is asked for", () => {
    const agreeing = kernel()
    expect(commitQuickly(agreeing, [table], () => expect.unreachable())).toBe(true)
    expect(agreeing.sent).toHaveLength(1)
  })

  test("are planned after all where there is no quick way, where something is in the way or missing, and where the answer is lost", () => {
    for (const [quick, ...refusals] of [
      [undefined],
      [[table], "EEXIST"],
      [[table], "ENOTEMPTY"],
      [[table], "ENOENT"],
      [[table], lost],
    ] as const) {
      const refusing = kernel(...refusals)
      expect(commitQuickly(refusing, quick, plan)).toBe(false)
      expect(refusing.sent).toHaveLength(quick ? 2 : 1)
    }
  })

  test("are not planned where the kernel refuses them for another reason", () => {
    expect(() => commitQuickly(kernel("EPERM"), [table], () => expect.unreachable())).toThrow("EPERM")
  })
})

test("what a dry run is refused for another reason than its changes is not an answer", () => {
  const answer = (errno: string) => dryRun(kernel(errno), { family: "ip", name: "t" }, () => [table])
  for (const errno of ["ENOMEM", "ENOBUFS", "EAGAIN", "EINTR", "EBUSY", "EPERM"])
    expect(() => answer(errno)).toThrow(errno)
  for (const errno of ["ENOENT", "EOPNOTSUPP", "EINVAL"]) expect(answer(errno)).toBe(false)
  const changing = () => {
    throw new NetlinkError("list sets", "EINTR", "it kept changing", { willPass: true })
  }
  expect(() => dryRun(kernel(), { family: "ip", name: "t" }, changing)).toThrow("it kept changing")
})

test("a transaction whose answer is lost is planned again, once, since it may have been made", () => {
  const made = kernel(lost)
  const plans: Operation[][] = [[table], []] // the second plan finds the change already made
  atomically(made, () => plans.shift() ?? [chain])
  expect([made.sent.length, plans.length]).toEqual([1, 0])
  const never = kernel(lost, lost, lost)
  expect(() => atomically(never, () => [table])).toThrow("ENOBUFS")
  expect(never.sent).toHaveLength(2)
})

describe("a dry run", () => {
  const t = { family: "ip", name: "t" } as const
  const plan = () => [table, chain]

  test("ends with what must be refused: then all else was agreed to", () => {
    const socket = kernel("EEXIST")
    expect(dryRun(socket, t, plan)).toBe(true)
    const [requests = []] = socket.sent
    expect(requests.map(({ type }) => type)).toEqual([0x10, 0xa00, 0xa03, 0xa00, 0x11])
    expect((requests[3]?.flags ?? 0) & NLM_F_EXCL).toBe(NLM_F_EXCL)
  })

  test("of nothing sends nothing, and is agreed to", () => {
    const socket = kernel()
    expect(dryRun(socket, t, () => [])).toBe(true)
    expect(socket.sent).toEqual([])
  })

  test("is no when the kernel refuses, also what is to be read for it; what is not an answer is an error", () => {
    expect(dryRun(kernel("EOPNOTSUPP"), t, plan)).toBe(false)
    const throwing = (error: Error) => () =>
      dryRun(kernel(), t, () => {
        throw error
      })
    expect(throwing(new NetlinkError("list", "EINVAL"))()).toBe(false)
    expect(throwing(new NetlinkError("list", "EPERM"))).toThrow("EPERM")
    expect(throwing(new RangeError("out of memory"))).toThrow("out of memory")
    expect(() => dryRun(kernel("EPERM"), t, plan)).toThrow("EPERM")
  })
})

test("the generation is read in network order", () => {
  expect(getGeneration(kernel())).toBe(0x01020304 as Generation)
})

test("a plan that another program overtook is made again for the current rule set", () => {
  const socket = kernel("ERESTART", "ERESTART")
  const plans: Operation[][] = [[table], [table, chain], [chain]]
  let asked = 0
  atomically(socket, () => plans[asked++] ?? [])
  expect(asked).toBe(3)
  const begins = socket.sent.map(([begin]) => new Uint8Array(begin?.payload ?? []).toHex().slice(-2))
  expect(begins).toEqual(["04", "05", "06"])
  expect(socket.sent.at(-1)?.map(({ type }) => type)).toEqual([0x10, 0xa03, 0x11])
})

test("a plan that is refused for another reason is not made again", () => {
  const socket = kernel("EEXIST")
  expect(() => atomically(socket, () => [table])).toThrow("EEXIST")
  expect(socket.sent).toHaveLength(1)
})

test("#43 a rule set that never stands still is code 11 in the end, and one refusal for another reason is not", () => {
  const restless = kernel(...Array.from({ length: 2000 }, () => "ERESTART"))
  expect(codeOf(() => atomically(restless, () => [table]))).toBe(11)
  expect(restless.sent).toHaveLength(1000)
  expect(codeOf(() => atomically(kernel("ERESTART", "EEXIST"), () => [table]))).toBe(999)
})

function codeOf(action: () => void): number | undefined {
  try {
    action()
    return undefined
  } catch (error) {
    return toErrorObject(error, "1.1.0").code
  }
}
