import { expect, test } from "bun:test"
import type { ListedRoute } from "../../pkg/netlink/mod.ts"
import { parseCidr, parseIp } from "../../pkg/types/mod.ts"
import type { NodeFacts } from "../nodes.ts"
import { isOwnAlone } from "./events.ts"
import { changesFor, planRoutes, presentIn, type RangeRoute } from "./plan.ts"

const own = { ranges: ["10.244.1.0/24", "fd00:1::/64"], addresses: ["192.0.2.1", "fd99::1"] }
const plan = (others: Readonly<Record<string, NodeFacts>>, self: NodeFacts | undefined = own) =>
  planRoutes("a", new Map([...(self ? [["a", self] as const] : []), ...Object.entries(others)]))
const show = ({ range, gateway }: RangeRoute) => `${range} ${gateway ? `via ${gateway}` : "unreachable"}`

test("the own ranges are unreachable, and those of others by their internal address of the same family", () => {
  const { wanted, faults } = plan({
    b: { ranges: ["10.244.2.0/24", "fd00:2::/64"], addresses: ["fd99::2", "192.0.2.2"] },
  })
  expect([...wanted.values()].map(show)).toEqual([
    "10.244.1.0/24 unreachable",
    "fd00:1::/64 unreachable",
    "10.244.2.0/24 via 192.0.2.2",
    "fd00:2::/64 via fd99::2",
  ])
  expect(faults).toEqual([])
})

test("a range that cannot be routed to is a fault, and the others have their routes", () => {
  const { wanted, faults } = plan({
    b: { ranges: ["10.244.2.0/24", "fd00:2::/64"], addresses: ["192.0.2.2"] },
    c: { ranges: ["10.244.2.0/24"], addresses: ["192.0.2.3"] },
    d: { ranges: ["10.244.0.0/16"], addresses: ["192.0.2.4"] },
    e: { ranges: ["10.245.0.0/24"], addresses: ["192.0.2.1"] },
    f: { ranges: ["0.0.0.0/0"], addresses: ["192.0.2.6"] },
    g: { ranges: ["10.244.1.128/25", "fd00:1::/65", "fd00:1:0:0:1::/80"], addresses: ["192.0.2.7", "fd99::7"] },
  })
  expect([...wanted.values()].map(show).slice(2)).toEqual(["10.244.2.0/24 via 192.0.2.2"])
  expect(faults).toEqual([
    'Cannot route to the IPv4 range of node "c": node "b" also has 10.244.2.0/24',
    'Cannot route to the IPv4 range of node "d": node "a" also has 10.244.0.0/16',
    'Cannot route to the IPv4 range of node "e": it has the address of this node',
    'Cannot route to the IPv4 range of node "g": node "a" also has 10.244.1.128/25',
    'Cannot route to the IPv6 range of node "b": it has no IPv6 address of type InternalIP',
    'Cannot route to the IPv6 range of node "g": node "a" also has fd00:1:0:0:1::/80',
    'Cannot route to the IPv6 range of node "g": node "a" also has fd00:1::/65',
  ])
})

const listed = (text: string, gateway?: string): ListedRoute => {
  const { ip, prefix } = parseCidr(text) ?? { ip: new Uint8Array(4), prefix: 0 }
  const more = gateway === undefined ? {} : { gateway: parseIp(gateway) }
  return { dst: ip, prefix, ...more, table: 254, scope: 0, protocol: 73, type: gateway === undefined ? 7 : 1, flags: 0 }
}

test("routes of nodes that are gone go, those by another gateway are created again, and without the own Node all stay", () => {
  const present = presentIn([
    listed("10.244.1.0/24"),
    listed("10.244.2.0/24", "192.0.2.9"),
    listed("10.244.9.0/24", "192.0.2.9"),
    listed("fd00:1::/64", "fd99::9"),
  ])
  const others = { b: { ranges: ["10.244.2.0/24"], addresses: ["192.0.2.2"] } }
  const changes = changesFor(plan(others), present)
  expect(changes.removed).toEqual(present.slice(1))
  expect(changes.added.map(show)).toEqual(["fd00:1::/64 unreachable", "10.244.2.0/24 via 192.0.2.2"])
  const kept = changesFor(planRoutes("a", new Map(Object.entries(others))), present)
  expect(kept.removed).toEqual(present.slice(1, 2))
})

test("new routes of the agent are no reason to look; one that is removed, of another program, or cut is", () => {
  const event = (type: number, protocol: number) => {
    const bytes = new Uint8Array(36)
    const view = new DataView(bytes.buffer)
    view.setUint32(0, 33, true) // padded to 36 digits
    view.setUint16(4, type, true)
    bytes[21] = protocol
    return bytes
  }
  const both = (...events: Uint8Array[]) => isOwnAlone(Uint8Array.from(events.flatMap((bytes) => [...bytes])))
  expect(both(event(24, 73), event(24, 73))).toBe(true)
  expect(both(event(24, 73), event(25, 73))).toBe(false)
  expect(both(event(24, 73), event(24, 3))).toBe(false)
  expect(both(event(24, 73), event(24, 73).subarray(0, 20))).toBe(false)
})
