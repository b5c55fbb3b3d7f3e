import { describe, expect, test } from "bun:test"
import { type Ifindex, type ListedRoute, NETLINK_ROUTE, NetlinkSocket } from "../../pkg/netlink/mod.ts"
import { acknowledge, ScriptedKernel } from "../../pkg/netlink/testing.ts"
import { AF_INET, AF_INET6, type Family, formatCidr, parseCidr, parseIp } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { addSourceRule, gatewayFor, planTable } from "./tables.ts"

const ipOf = (text: string) => parseIp(text) ?? expect.unreachable()
const addressOf = (text: string, gateway?: string) => ({
  ...(parseCidr(text) ?? expect.unreachable()),
  ...(gateway === undefined ? {} : { gateway: ipOf(gateway) }),
})

/** Parses a route of the interface: "10.1.0.0/16", "0.0.0.0/0 via 10.1.0.1", "10.1.0.0/16 src 10.1.0.2". */
function routeOf(text: string, priority?: number): ListedRoute {
  const [dst = "", word, ip = ""] = text.split(" ")
  const { ip: network, prefix } = parseCidr(dst) ?? expect.unreachable()
  const more = word === "via" ? { gateway: ipOf(ip) } : word === "src" ? { preferredSource: ipOf(ip) } : {}
  return {
    dst: network,
    prefix,
    index: 5 as Ifindex,
    ...more,
    ...(priority && { priority }),
  } as Partial<ListedRoute> as ListedRoute
}

const printed = ({ dst, prefix, gateway, priority, protocol }: ReturnType<typeof planTable>[number]) =>
  [
    formatCidr({ ip: dst, prefix }),
    ...(gateway ? [`via ${gateway.length === 4 ? gateway.join(".") : gateway.toHex()}`] : []),
    ...(priority ? [`metric ${priority}`] : []),
    ...(protocol === 67 ? ["proto 67"] : []),
  ].join(" ")

const plan = (address: string, gateway: string | undefined, ...main: ListedRoute[]) =>
  planTable(addressOf(address), gateway === undefined ? undefined : ipOf(gateway), main, { index: 5 as Ifindex }).map(
    printed,
  )

describe("the table of an address has", () => {
  test("the routes of its family, those by gateways last, and a default route by the gateway at the end", () => {
    const main = [routeOf("10.9.0.0/16 via 10.1.0.9"), routeOf("10.1.0.0/16"), routeOf("fd00::/64")]
    expect(plan("10.1.0.2/16", "10.1.0.1", ...main)).toEqual([
      "10.1.0.0/16",
      "10.9.0.0/16 via 10.1.0.9",
      "0.0.0.0/0 via 10.1.0.1 proto 67",
    ])
    expect(plan("fd00::2/64", undefined, ...main)).toEqual(["fd00::/64"])
  })

  test("no routes that have another network's source or gateway", () => {
    const main = [
      routeOf("10.1.0.0/16 src 10.1.0.2"),
      routeOf("10.2.0.0/16 src 10.2.0.2"),
      routeOf("10.8.0.0/16 via 10.2.0.1"),
      routeOf("10.9.0.0/16 via 10.1.0.1"),
    ]
    expect(plan("10.1.0.2/16", undefined, ...main)).toEqual(["10.1.0.0/16", "10.9.0.0/16 via 10.1.0.1"])
  })

  test("the default route that main has by this gateway, instead of one that is made, and no other without a metric", () => {
    const main = [routeOf("0.0.0.0/0 via 10.1.0.1"), routeOf("0.0.0.0/0 via 10.1.0.9")]
    expect(plan("10.1.0.2/16", "10.1.0.1", ...main)).toEqual(["0.0.0.0/0 via 10.1.0.1"])
    expect(plan("10.1.0.2/16", "10.1.0.7", ...main)).toEqual(["0.0.0.0/0 via 10.1.0.7 proto 67"])
    expect(plan("10.1.0.2/16", undefined, ...main)).toEqual(["0.0.0.0/0 via 10.1.0.1", "0.0.0.0/0 via 10.1.0.9"])
  })

  test("default routes with a metric besides; of IPv6 1024 is the default", () => {
    const four = routeOf("0.0.0.0/0 via 10.1.0.1", 7)
    expect(plan("10.1.0.2/16", "10.1.0.1", four)).toEqual([
      "0.0.0.0/0 via 10.1.0.1 metric 7",
      "0.0.0.0/0 via 10.1.0.1 proto 67",
    ])
    const six = routeOf("::/0 via fd00::1", 1024)
    expect(plan("fd00::2/64", "fd00::1", six)).toEqual(["::/0 via fd000000000000000000000000000001 metric 1024"])
  })
})

describe("the gateway of an address", () => {
  const [a, b] = [addressOf("10.1.0.2/16", "10.1.0.1"), addressOf("10.2.0.2/16", "10.2.0.1")]
  const six = addressOf("fd00::2/64")
  const gateways = (...given: [Family, string][]) => new Map(given.map(([family, text]) => [family, ipOf(text)]))

  test("is the result's where the configuration has none of its family", () => {
    expect(gatewayFor(a, [a], new Map())).toEqual(ipOf("10.1.0.1"))
    expect(gatewayFor(a, [a], gateways([AF_INET6, "fd00::1"]))).toEqual(ipOf("10.1.0.1"))
    expect(gatewayFor(six, [six], gateways([AF_INET, "10.1.0.9"]))).toBeUndefined()
  })

  test("of the configuration is for the addresses of its network alone, or for all where it is in none", () => {
    const of = (text: string) => [a, b].map((one) => gatewayFor(one, [a, b], gateways([AF_INET, text])))
    expect(of("10.2.0.9")).toEqual([ipOf("10.1.0.1"), ipOf("10.2.0.9")])
    expect(of("10.3.0.9")).toEqual([ipOf("10.3.0.9"), ipOf("10.3.0.9")])
  })
})

// <linux/rtnetlink.h>, <asm/errno.h>
const [RTM_NEWRULE, RTM_DELRULE] = [32, 33]
const [ENOENT, ENOMEM, EEXIST, ENOBUFS] = [2, 12, 17, 105]

test.each([
  ["when its answer is lost", ENOBUFS, true],
  ["but not when the kernel has refused it", ENOMEM, false],
  ["and not that of another ADD, which was there", EEXIST, false],
])("the rule of a failed ADD is deleted, %s", (_when, errno, isDeleted) => {
  const kernel = new ScriptedKernel(({ type, ...request }) => {
    if (type !== RTM_NEWRULE) return [acknowledge({ type, ...request }, ENOENT)]
    return [errno === ENOBUFS ? ENOBUFS : acknowledge({ type, ...request }, errno)]
  })
  const log: string[] = []
  const add = () => {
    using undo = new Undo((line) => log.push(line))
    addSourceRule(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), ipOf("10.1.0.2"), 100, undo)
  }
  expect(add).toThrow()
  expect(kernel.requests.some(({ type }) => type === RTM_DELRULE)).toBe(isDeleted)
  expect(log).toEqual([])
})
