import { describe, expect, test } from "bun:test"
import { NLM_F_ACK, NLM_F_ECHO } from "./message.ts"
import {
  addHtbClass,
  addIngress,
  addQdisc,
  findQdisc,
  listHtbClasses,
  listQdiscs,
  type Qdisc,
  qdiscOptions,
} from "./qdiscs.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import { type Answer, acknowledge, hex, linkNumber, listing, reply, requestOf, ScriptedKernel } from "./testing.ts"
import { TC_H_INGRESS, TC_H_ROOT } from "./traffic-table.ts"

// The bytes below a command are those that Debian's tc (iproute2 6.1.0) or upstream's plugin bandwidth 1.1.1 sent for
// it, without struct nlmsghdr: strace -e trace=sendmsg,sendto -e write=all COMMAND. The kernel's answers are those of
// Linux 6.18. RTM_NEWQDISC is 36, RTM_DELQDISC 37, RTM_GETQDISC 38, RTM_NEWTCLASS 40; flags 0x605 are REQUEST | ACK |
// EXCL | CREATE.

const v0 = linkNumber(3, "v0")
const veth = linkNumber(2, "v0")

describe("tbf", () => {
  // Upstream's plugin bandwidth, "ingressRate": 8000000, "ingressBurst": 800000
  test("is asked for as upstream's plugin does it", () => {
    const parameters = { rate: 1_000_000, limit: 125_000, buffer: 1_562_500 }
    const add = { kind: "tbf", handle: 0x10000, options: { parameters } } as const
    expect(requestOf((route) => addQdisc(route, veth, add))).toEqual({
      type: 36,
      flags: 0x605,
      payload: hex`
        00000000 02000000 00000100 ffffffff 00000000       # struct tcmsg: link 2, 1:, root
        0800 0100 74626600                                 # TCA_KIND
        2c00 0200 2800 0100                                # TCA_OPTIONS, TCA_TBF_PARMS
          00000000 00000000 40420f00 00000000 00000000 00000000 48e80100 84d71700 00000000`,
    })
  })

  // tc qdisc add dev v1 root handle 1: tbf rate 40gbit burst 10mb limit 20000000, without two parts that only tc sends:
  // the table of times (TCA_TBF_RTAB), which the kernel ignores, and the link layer
  test("has a rate of more than 32 bits, and a burst in bytes, in attributes of their own", () => {
    const parameters = { rate: 0xffffffff, limit: 20_000_000, buffer: 0x94fc }
    const options = { parameters, burst: 10 * 2 ** 20, rate64: 5_000_000_000n }
    const { payload } = requestOf((route) => addQdisc(route, veth, { kind: "tbf", handle: 0x10000, options }))
    expect(payload.subarray(20)).toEqual(hex`
      0800 0100 74626600
      4000 0200
        2800 0100 00000000 00000000 ffffffff 00000000 00000000 00000000 002d3101 fc940000 00000000
        0800 0600 0000a000
        0c00 0400 00f2052a01000000`)
  })

  test("is read as the kernel shows it", () => {
    const route = answering(hex`
      00000000 03000000 00000100 ffffffff 03000000
      0800 0100 74626600
      3800 0200
        2800 0100 00010000 00000000 ffffffff 00000000 00000000 00000000 002d3101 ff7f0000 00000000
        0c00 0400 00f2052a01000000
      0500 0c00 00 000000`)
    const found = findQdisc(route, v0, TC_H_ROOT) as Qdisc
    expect(found).toMatchObject({ kind: "tbf", handle: 0x10000, parent: TC_H_ROOT })
    expect(qdiscOptions(found, "tbf")).toMatchObject({
      parameters: { table: 0x100n, rate: 0xffffffff, limit: 20_000_000, buffer: 0x7fff },
      rate64: 5_000_000_000n,
    })
    expect(qdiscOptions(found, "htb")).toBeUndefined()
  })
})

/** Returns a socket to a kernel that answers its single request with these payloads and an acknowledgement. */
function answering(...payloads: Uint8Array[]): NetlinkSocket {
  const script = (request: Parameters<typeof reply>[0] & { type: number }): Answer[] => [
    ...payloads.map((payload) => reply(request, 36, payload)),
    acknowledge(request),
  ]
  return new NetlinkSocket(NETLINK_ROUTE, 0, new ScriptedKernel(script))
}

describe("looking for a qdisc", () => {
  test("asks for the answer to be sent here too, and for an acknowledgement, which is all there is of a default qdisc", () => {
    const kernel = new ScriptedKernel((request) => [acknowledge(request)])
    expect(findQdisc(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), v0, TC_H_INGRESS)).toBeUndefined()
    const [request] = kernel.requests
    expect(request).toMatchObject({ type: 38, flags: 1 | NLM_F_ECHO | NLM_F_ACK })
    expect(request?.payload).toEqual(hex`00000000 03000000 00000000 f1ffffff 00000000`)
  })

  test("finds none where the kernel says so, and fails for every other reason", () => {
    const refusing = (errno: number) =>
      new NetlinkSocket(NETLINK_ROUTE, 0, new ScriptedKernel((request) => [acknowledge(request, errno)]))
    expect(findQdisc(refusing(2), v0, TC_H_ROOT)).toBeUndefined()
    expect(() => findQdisc(refusing(1), v0, TC_H_ROOT)).toThrow('find a qdisc of "v0": EPERM')
  })

  test("takes one without a handle, such as a card's own mq, for none", () => {
    const mq = answering(hex`00000000 03000000 00000000 ffffffff 03000000 0700 0100 6d7100 00`)
    expect(findQdisc(mq, v0, TC_H_ROOT)).toBeUndefined()
  })
})

// Upstream's plugin bandwidth; tc qdisc add dev v0 ingress, without the empty TCA_OPTIONS; tc qdisc show: tbf at v0,
// and at v1 the kernel's default qdisc noqueue
test("the list of all has those that were made, each with its link", () => {
  const tbf = hex`00000000 03000000 00000100 ffffffff 01000000 0800 0100 74626600`
  const noqueue = hex`00000000 04000000 00000000 ffffffff 02000000 0c00 0100 6e6f717565756500`
  expect(listQdiscs(listing(tbf, noqueue))).toEqual([
    { kind: "tbf", handle: 0x10000, parent: TC_H_ROOT, index: v0.index },
  ])
})

test("ingress hangs at its own place", () => {
  expect(requestOf((route) => addIngress(route, veth))).toEqual({
    type: 36,
    flags: 0x605,
    payload: hex`00000000 02000000 0000ffff f1ffffff 00000000 0c00 0100 696e677265737300 0400 0200`,
  })
})

describe("htb", () => {
  // tc qdisc add dev v0 root handle 1: htb default 30
  test("has a default class", () => {
    const glob = { version: 3, rateToQuantum: 10, defaultClass: 0x30 }
    const { payload } = requestOf((route) => addQdisc(route, v0, { kind: "htb", handle: 0x10000, options: { glob } }))
    expect(payload).toEqual(hex`
      00000000 03000000 00000100 ffffffff 00000000
      0800 0100 68746200
      1c00 0200 1800 0200 03000000 0a000000 30000000 00000000 00000000`)
  })

  // tc class add dev v0 parent 1: classid 1:1 htb rate 800gbit ceil 800gbit burst 100000 cburst 100000 quantum 200000
  test("has classes with rates of more than 32 bits", () => {
    const rates = { rate: 0xffffffff, ceil: 0xffffffff, buffer: 15, ceilBuffer: 15, quantum: 200_000 }
    const tables = { table: 0xffff_0000_0103n, ceilTable: 0xffff_0000_0103n }
    const options = {
      rate64: 100_000_000_000n,
      ceil64: 100_000_000_000n,
      parameters: { ...tables, ...rates },
    }
    const { type, flags, payload } = requestOf((route) => addHtbClass(route, v0, { id: 0x10001, options }))
    expect({ type, flags }).toEqual({ type: 40, flags: 0x605 })
    expect(payload).toEqual(hex`
      00000000 03000000 01000100 00000100 00000000
      0800 0100 68746200
      4c00 0200
        0c00 0600 00e8764817000000
        0c00 0700 00e8764817000000
        3000 0100 03010000 ffff0000 ffffffff 03010000 ffff0000 ffffffff 0f000000 0f000000 400d0300 00000000 00000000`)
  })

  // tc class show dev v1
  const shown = hex`
    00000000 02000000 30000100 ffffffff 00000000
    0800 0100 68746200
    3400 0200 3000 0100
      00010000 01000000 40420f00 00010000 00000000 40420f00 84d71700 84d71700 a0860100 00000000 00000000
    1800 0400 00000000 00000000 00000000 84d71700 84d71700`
  test("shows its classes", () => {
    const tbfClass = hex`00000000 03000000 01000100 00000100 00000000 0800 0100 74626600 0400 0700`
    const [found, ...more] = listHtbClasses(listing(shown, tbfClass), veth)
    expect(more).toEqual([])
    expect(found?.id).toBe(0x10030)
    expect(found?.options.parameters).toMatchObject({
      rate: 1_000_000,
      ceil: 1_000_000,
      buffer: 1_562_500,
      quantum: 100_000,
    })
  })

  // tc qdisc add dev v0 parent 1:30 bfifo limit 125000
  test("has a queue below a class, whose options are a struct", () => {
    const spec = { kind: "bfifo", parent: 0x10030, options: { limit: 125_000 } } as const
    expect(requestOf((route) => addQdisc(route, v0, spec)).payload).toEqual(hex`
      00000000 03000000 00000000 30000100 00000000
      0a00 0100 626669666f00 0000
      0800 0200 48e80100`)
  })
})
