import { describe, expect, test } from "bun:test"
import { NETLINK_ROUTE, NetlinkSocket } from "../../pkg/netlink/mod.ts"
import { routePayload } from "../../pkg/netlink/testing/routes.ts"
import { acknowledge, done, encodeMessage, hex, ip, readMessages, ScriptedKernel } from "../../pkg/netlink/testing.ts"
import type { BlockRoute } from "./plan.ts"
import { ROUTE_PROTOCOL, syncRoutes } from "./sync.ts"

/** <linux/rtnetlink.h>, <linux/netlink.h> */
const [RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE] = [24, 25, 26]
const [NLM_F_ACK, NLM_F_DUMP] = [0x4, 0x300]
const [ESRCH, ENETUNREACH] = [3, 101]

/** A route of the agent in the kernel's list, and one that is wanted. */
const listed = (dst: Uint8Array, prefix: number, gateway: Uint8Array) =>
  routePayload({ dst, prefix, gateway, oif: 2, protocol: ROUTE_PROTOCOL })
const wanted = (dst: string, prefix: number, gateway: string): BlockRoute => ({
  block: { ip: ip(dst), prefix },
  gateway: ip(gateway),
  node: "b",
})

/** The main table as it is, and the errno for a change, by its type and destination; 0 to agree. */
function connect(present: readonly Uint8Array[], refusal: (type: number, dst: string) => number = () => 0) {
  const kernel = new ScriptedKernel((request) => {
    if (request.type === RTM_GETROUTE)
      return [...present.map((each) => encodeMessage(RTM_NEWROUTE, 2, request.sequence, each)), done(request)]
    const errno = refusal(request.type, request.payload.subarray(16, 20).join("."))
    return errno !== 0 || request.flags & NLM_F_ACK ? [acknowledge(request, errno)] : []
  })
  const route = new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
  const datagrams = () => kernel.datagrams.map((each) => readMessages(each).map(({ type }) => type))
  return {
    kernel,
    datagrams,
    sync: (...routes: BlockRoute[]) => syncRoutes(route, { wanted: routes, kept: new Set(), faults: [] }),
  }
}

const count = 40
const numbers = Array.from({ length: count }, (_, at) => at)

describe("a pass over the table", () => {
  test("lists the routes of both families once, and sends nothing where all are there", () => {
    const present = [
      listed(ip("10.64.1.0"), 26, ip("192.0.2.2")),
      listed(ip("fd00:64:0:1:0:0:0:0"), 80, ip("2001:db8:0:0:0:0:0:2")),
    ]
    const { kernel, sync } = connect(present)
    const routes = [wanted("10.64.1.0", 26, "192.0.2.2"), wanted("fd00:64:0:1:0:0:0:0", 80, "2001:db8:0:0:0:0:0:2")]
    expect(sync(...routes)).toEqual({ added: 0, removed: 0, faults: [] })
    // ip route show table main type unicast proto 73, of AF_UNSPEC: struct rtmsg, RTA_TABLE 254
    expect(kernel.requests.map(({ type, flags, payload }) => ({ type, flags: flags & NLM_F_DUMP, payload }))).toEqual([
      { type: RTM_GETROUTE, flags: NLM_F_DUMP, payload: hex`00 00 00 00 fe 49 00 01 00000000 0800 0f00 fe000000` },
    ])
  })

  test("sends all changes of both families in one datagram, removals first", () => {
    const present = numbers.map((at) => listed(ip(`10.64.${at}.0`), 26, ip("192.0.2.2")))
    const { datagrams, sync } = connect(present)
    const four = numbers.map((at) => wanted(`10.65.${at}.0`, 26, "192.0.2.3"))
    const six = numbers.slice(0, 10).map((at) => wanted(`fd00:64:0:${at}:0:0:0:0`, 80, "2001:db8:0:0:0:0:0:3"))
    expect(sync(...four, ...six)).toEqual({ added: count + 10, removed: count, faults: [] })
    const [list = [], changes = [], ...more] = datagrams()
    expect([list, more]).toEqual([[RTM_GETROUTE], []])
    expect(changes).toEqual([...numbers.map(() => RTM_DELROUTE), ...[...four, ...six].map(() => RTM_NEWROUTE)])
  })

  test("goes on after refusals, and asks for none of them again", () => {
    const present = [listed(ip("10.64.1.0"), 26, ip("192.0.2.9")), listed(ip("10.64.2.0"), 26, ip("192.0.2.9"))]
    const { datagrams, sync } = connect(present, (type, dst) => {
      if (type === RTM_DELROUTE) return dst === "10.64.1.0" ? ESRCH : 0 // another program was faster
      return dst === "10.65.1.0" ? ENETUNREACH : 0
    })
    const passed = sync(wanted("10.65.1.0", 26, "198.51.100.9"), wanted("10.65.2.0", 26, "192.0.2.3"))
    const reason = "the address is on no link of this node that is up (ENETUNREACH)"
    expect(passed).toEqual({
      added: 1,
      removed: 1,
      faults: [`Cannot route to the IPv4 blocks of node "b" via 198.51.100.9: ${reason}`],
    })
    expect(datagrams()).toHaveLength(2)
  })
})
