import { expect, test } from "bun:test"
import { AF_INET, AF_INET6 } from "../types/mod.ts"
import { listAddresses } from "./addresses.ts"
import { encodeMessage } from "./message.ts"
import { listRoutes } from "./routes.ts"
import { listRoutingTables } from "./routing-tables.ts"
import { listRules } from "./rules.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import { addressPayload, routePayload } from "./testing/routes.ts"
import { acknowledge, done, ip, ScriptedKernel } from "./testing.ts"

const [EAFNOSUPPORT, EOPNOTSUPP, EPERM] = [97, 95, 1]
/** struct fib_rule_hdr */
const rule = Uint8Array.of(AF_INET, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0)

/** Returns a socket to a kernel like 6.1 with `ipv6.disable=1`, which answers IPv6 requests with other families. */
function withoutIpv6(payload: Uint8Array): NetlinkSocket {
  const kernel = new ScriptedKernel((request) => [
    encodeMessage(request.type - 2, 2, request.sequence, payload),
    done(request),
  ])
  return new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
}

const refusing = (errno: number) =>
  new NetlinkSocket(NETLINK_ROUTE, 0, new ScriptedKernel((request) => [acknowledge(request, errno)]))

const lists = {
  addresses: [addressPayload(2, ip("10.1.0.2"), 16), (route, family) => listAddresses(route, undefined, family)],
  routes: [routePayload({ oif: 2, gateway: ip("10.1.0.1") }), (route, family) => listRoutes(route, family)],
  tables: [routePayload({ oif: 2, table: 5000 }), (route, family) => [...listRoutingTables(route, family)]],
  rules: [rule, (route, family) => listRules(route, family)],
} satisfies Record<string, [Uint8Array, (route: NetlinkSocket, family: typeof AF_INET | typeof AF_INET6) => unknown[]]>

for (const [name, [payload, list]] of Object.entries(lists)) {
  test(`${name} of a family that the kernel does not have are an empty list, with a refusal and with those of another family`, () => {
    expect(list(withoutIpv6(payload), AF_INET)).toHaveLength(1)
    expect(list(withoutIpv6(payload), AF_INET6)).toEqual([])
    for (const errno of [EAFNOSUPPORT, EOPNOTSUPP]) expect(list(refusing(errno), AF_INET6)).toEqual([])
    expect(() => list(refusing(EPERM), AF_INET6)).toThrow("EPERM")
  })
}

test("addresses of all families are asked for as one list", () => {
  expect(listAddresses(withoutIpv6(addressPayload(2, ip("10.1.0.2"), 16)))).toHaveLength(1)
  expect(() => listAddresses(refusing(EOPNOTSUPP))).toThrow("EOPNOTSUPP")
})

test("the table of a route is its attribute, in any place, else the byte of its header", () => {
  const noAttribute = Uint8Array.of(AF_INET, 16, 0, 0, 99, 3, 0, 1, 0, 0, 0, 0)
  const later = Uint8Array.of(
    ...noAttribute.with(4, 252),
    ...[8, 0, 4, 0, 2, 0, 0, 0],
    ...[8, 0, 15, 0, 0x88, 0x13, 0, 0],
  )
  expect(listRoutingTables(withoutIpv6(noAttribute), AF_INET)).toEqual(new Map([[99, new Set([0])]]))
  expect(listRoutingTables(withoutIpv6(later), AF_INET)).toEqual(new Map([[5000, new Set([2])]]))
})
