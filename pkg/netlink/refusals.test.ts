import { expect, test } from "bun:test"
import * as netlink from "./mod.ts"
import { acknowledge, ip, linkNumber, ScriptedKernel } from "./testing.ts"

const link = linkNumber(7, "eth7")
const address = { ip: ip("10.1.0.5"), prefix: 24 }
const route = { dst: ip("10.9.0.0"), prefix: 16, gateway: ip("10.1.0.1") }
const filter = { kind: "u32", handle: 1, parent: 1, protocol: 3, priority: 1 } as const

type Route = netlink.NetlinkSocket

// The error messages that DEL, GC and CHECK show to the administrator, followed by the kernel's errno.
test.each<[string, (route: Route) => unknown]>([
  ['add address 10.1.0.5/24 to "eth7"', (route) => netlink.addAddress(route, link, address)],
  ['delete address 10.1.0.5/24 from "eth7"', (route) => netlink.deleteAddress(route, link, address)],
  ["list addresses", (route) => netlink.listAddresses(route)],
  ['list addresses of "eth7"', (route) => netlink.listAddresses(route, link)],
  ['add names a, b of link "eth7"', (route) => netlink.addAltNames(route, link, ["a", "b"])],
  ['delete names a of link "eth7"', (route) => netlink.deleteAltNames(route, link, ["a"])],
  ['set hairpin, isolated of port "eth7"', (route) => netlink.setBridgePort(route, link, { hairpin: 1, isolated: 0 })],
  ['add VLANs 5 of port "eth7"', (route) => netlink.addPortVlans(route, link, [{ first: 5, last: 5 }])],
  ['delete VLANs 5-9 of port "eth7"', (route) => netlink.deletePortVlans(route, link, [{ first: 5, last: 9 }])],
  ["list VLANs of bridge ports", (route) => netlink.listPortVlans(route)],
  ['add a filter to "eth7"', (route) => netlink.addFilter(route, link, { ...filter, options: {} })],
  ['list the filters of "eth7"', (route) => netlink.listFilters(route, link, 1)],
  ['delete a filter of "eth7"', (route) => netlink.deleteFilter(route, link, filter)],
  ['create bridge "br0"', (route) => netlink.addLink(route, { kind: "bridge", name: "br0" })],
  ["list links", (route) => netlink.listLinks(route)],
  ['set mtu, up of link "eth7"', (route) => netlink.setLink(route, link, { mtu: 1400, up: true })],
  ['delete link "eth7"', (route) => netlink.deleteLink(route, link)],
  ["list neighbours", (route) => netlink.listNeighbours(route, 2)],
  ['add qdisc tbf to "eth7"', (route) => netlink.addQdisc(route, link, { kind: "tbf", options: {} })],
  ['add qdisc ingress to "eth7"', (route) => netlink.addIngress(route, link)],
  ['find a qdisc of "eth7"', (route) => netlink.findQdisc(route, link, 1)],
  ['delete a qdisc of "eth7"', (route) => netlink.deleteQdisc(route, link, 1)],
  ['add a class to "eth7"', (route) => netlink.addHtbClass(route, link, { id: 0x10001, options: {} })],
  ['list the classes of "eth7"', (route) => netlink.listHtbClasses(route, link)],
  ["find the nsid of namespace descriptor 9", (route) => netlink.findNsid(route, 9)],
  ["assign an nsid to namespace descriptor 9", (route) => netlink.assignNsid(route, 9)],
  ["list nsids", (route) => netlink.listNsids(route)],
  ["append route 10.9.0.0/16 via 10.1.0.1", (route_) => netlink.addRoute(route_, route, "append")],
  ["delete route 10.9.0.0/16 via 10.1.0.1", (route_) => netlink.deleteRoute(route_, route)],
  ["list routes", (route) => netlink.listRoutes(route, 2)],
  ["find the route to 10.9.0.1", (route) => netlink.findRoute(route, ip("10.9.0.1"))],
  ["list rules", (route) => netlink.listRules(route, 2)],
])("what the kernel refuses is told as %j", (what, request) => {
  const kernel = new ScriptedKernel((sent) => [acknowledge(sent, 1)])
  const refused = () => void request(new netlink.NetlinkSocket(netlink.NETLINK_ROUTE, 0, kernel))
  expect(refused).toThrow(new netlink.NetlinkError(what, "EPERM"))
})

test("a request for a link has the family AF_UNSPEC, for each question", () => {
  const kernel = new ScriptedKernel((sent) => [acknowledge(sent)])
  const socket = new netlink.NetlinkSocket(netlink.NETLINK_ROUTE, 0, kernel)
  netlink.setLink(socket, link, { up: true })
  netlink.deleteLink(socket, link)
  // struct ifinfomsg, <linux/rtnetlink.h>: family and type, index 7, IFF_UP of flags and change
  expect(kernel.requests.map(({ payload }) => payload.toHex())).toEqual([
    "00000000070000000100000001000000",
    "00000000070000000000000000000000",
  ])
})
