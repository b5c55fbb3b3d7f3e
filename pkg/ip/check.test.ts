import { expect, test } from "bun:test"
import type { Ifindex, RouteSpec } from "../netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../netlink/testing/links.ts"
import { addressPayload, routePayload, type SaidRoute } from "../netlink/testing/routes.ts"
import { type Cidr, parseCidr, parseIp } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { checkAddresses, checkRouteSpecs, checkRoutes, mismatch } from "./check.ts"

const [RTM_GETADDR, RTM_GETROUTE] = [22, 26]
const eth0: KernelLink = { index: 5, name: "eth0" }
const ip = (text: string) => parseIp(text) as Uint8Array
const cidr = (text: string) => parseCidr(text) as Cidr

test("a difference says what was compared, what was expected and what was found", () => {
  const error = mismatch("the weather", "rain", "snow")
  expect([error.code, error.message]).toEqual([999, "Check of the weather failed: expected rain, found snow"])
})

const addressed = (...found: string[]) => {
  const payloads = found.map((text) => addressPayload(5, cidr(text).ip, cidr(text).prefix))
  return new LinksKernel([eth0], { answers: { [RTM_GETADDR]: payloads } }).socket
}

test("every address is looked for, with its prefix length; others may be there", () => {
  const wanted = [cidr("10.1.0.5/24"), cidr("fd00::5/64")]
  const check = (...found: string[]) => checkAddresses(addressed(...found), linkOf(eth0), wanted)
  check("10.9.0.9/8", "fd00::5/64", "10.1.0.5/24")
  const says = (...found: string[]) => refusalOf(() => check(...found)).message
  const missing = 'Check of addresses of "eth0" failed: expected'
  expect(says("10.1.0.5/16", "fd00::5/64")).toBe(`${missing} 10.1.0.5/24, found 10.1.0.5/16, fd00::5/64`)
  expect(says("10.1.0.5/24", "fd00::6/64")).toBe(`${missing} fd00::5/64, found 10.1.0.5/24, fd00::6/64`)
  expect(says()).toBe(`${missing} 10.1.0.5/24, found none`)
})

/** Parses a route: "10.9.0.0/16 via 10.1.0.1,10.1.0.2 dev 5 table 77". */
function said(text: string): SaidRoute {
  const [to = "", ...words] = text.split(" ")
  const { ip: dst, prefix } = cidr(to.replace("default6", "::/0").replace("default", "0.0.0.0/0"))
  const after = (word: string) => (words.includes(word) ? words[words.indexOf(word) + 1] : undefined)
  const oif = after("dev") === undefined ? {} : { oif: Number(after("dev")) }
  const table = after("table") === undefined ? {} : { table: Number(after("table")) }
  const gateways = (after("via") ?? "").split(",").flatMap((gateway) => (gateway ? [ip(gateway)] : []))
  const base = { dst, prefix, ...table }
  if (gateways.length < 2) return { ...base, ...oif, ...(gateways[0] && { gateway: gateways[0] }) }
  return { ...base, hops: gateways.map((gateway) => ({ oif: oif.oif ?? 5, gateway })) }
}

function specOf(text: string): RouteSpec {
  const { dst = new Uint8Array(4), prefix = 0, table, oif, gateway, hops } = said(text)
  const nextHops = hops?.map((hop) => ({ index: hop.oif as Ifindex, ...(hop.gateway && { gateway: hop.gateway }) }))
  const way = { ...(oif !== undefined && { index: oif as Ifindex }), ...(gateway && { gateway }) }
  return { dst, prefix, ...way, ...(table !== undefined && { table }), ...(nextHops && { nextHops }) }
}

function compare(wanted: string[], found: string[]): string {
  const routes = found.map(said)
  // Routes are listed for one family at a time. The first byte of a request has the family, but the answers of this
  // test do not depend on it.
  const families = [2, 10].filter((family) =>
    wanted.some((text) => (specOf(text).dst.length === 4 ? 2 : 10) === family),
  )
  let asked = 0
  const listed = () => {
    const family = families[Math.min(asked++, families.length - 1)]
    return routes.filter(({ dst }) => (dst?.length === 4 ? 2 : 10) === family).map(routePayload)
  }
  const { socket } = new LinksKernel([eth0], { answers: { [RTM_GETROUTE]: listed } })
  try {
    checkRouteSpecs(socket, wanted.map(specOf))
    return "as wanted"
  } catch (error) {
    return (error as Error).message.replace("Check of routes failed: expected ", "")
  }
}

test.each<[string, string[], string[]]>([
  ["the same one", ["10.9.0.0/16 via 10.1.0.1 dev 5"], ["10.8.0.0/16 dev 5", "10.9.0.0/16 via 10.1.0.1 dev 5"]],
  ["one through its gateway by another link", ["10.9.0.0/16 via 10.1.0.1 dev 5"], ["10.9.0.0/16 via 10.1.0.1 dev 6"]],
  ["one on the link itself", ["10.9.0.0/16 dev 5"], ["10.9.0.0/16 via 10.1.0.1 dev 5", "10.9.0.0/16 dev 5"]],
  ["a further gateway beside it", ["10.9.0.0/16 via 10.1.0.1 dev 5"], ["10.9.0.0/16 via 10.1.0.2,10.1.0.1 dev 5"]],
  ["several gateways", ["10.9.0.0/16 via 10.1.0.1,10.1.0.2 dev 5"], ["10.9.0.0/16 via 10.1.0.2,10.1.0.1 dev 5"]],
  ["any default route: a later plugin may redirect it", ["default via 10.1.0.1 dev 5"], ["default via 10.2.0.1 dev 9"]],
  ["one of another table", ["10.9.0.0/16 dev 5 table 77"], ["10.9.0.0/16 dev 5 table 77"]],
  [
    "one of main that sbr or vrf has moved",
    ["10.9.0.0/16 via 10.1.0.1 dev 5"],
    ["10.9.0.0/16 via 10.1.0.1 dev 5 table 77"],
  ],
  [
    "one of several gateways that was moved",
    ["10.9.0.0/16 via 10.1.0.1,10.1.0.2 dev 5"],
    ["10.9.0.0/16 via 10.1.0.1,10.1.0.2 dev 5 table 77"],
  ],
  [
    "a default route that was moved with its link",
    ["default via 10.1.0.1 dev 5"],
    ["default via 10.2.0.1 dev 5 table 77"],
  ],
  [
    "both families",
    ["10.9.0.0/16 dev 5", "fd09::/64 dev 5", "10.8.0.0/16 dev 5"],
    ["fd09::/64 dev 5", "10.9.0.0/16 dev 5", "10.8.0.0/16 dev 5"],
  ],
])("a route is there by %s", (_, wanted, found) => {
  expect(compare(wanted, found)).toBe("as wanted")
})

test.each<[string, string[], string[], string]>([
  ["none at all", ["10.9.0.0/16 via 10.1.0.1 dev 5"], [], "10.9.0.0/16 via 10.1.0.1 dev eth0, found no route to it"],
  [
    "another gateway",
    ["10.9.0.0/16 via 10.1.0.1 dev 5"],
    ["10.9.0.0/16 via 10.1.0.2 dev 5"],
    "10.9.0.0/16 via 10.1.0.1 dev eth0, found 10.9.0.0/16 via 10.1.0.2 dev eth0",
  ],
  [
    "a gateway where none is wanted",
    ["10.9.0.0/16 dev 5"],
    ["10.9.0.0/16 via 10.1.0.2 dev 5"],
    "10.9.0.0/16 dev eth0, found 10.9.0.0/16 via 10.1.0.2 dev eth0",
  ],
  [
    "another link, of two, which was deleted",
    ["10.9.0.0/16 dev 5"],
    ["10.9.0.0/16 dev 6", "10.9.0.0/16 dev 7"],
    "10.9.0.0/16 dev eth0, found 10.9.0.0/16 dev number 6, 10.9.0.0/16 dev number 7",
  ],
  [
    "another network",
    ["10.9.0.0/16 dev 5"],
    ["10.9.0.0/24 dev 5", "10.8.0.0/16 dev 5"],
    "10.9.0.0/16 dev eth0, found no route to it",
  ],
  [
    "one gateway of two",
    ["10.9.0.0/16 via 10.1.0.1,10.1.0.2 dev 5"],
    ["10.9.0.0/16 via 10.1.0.1 dev 5"],
    "10.9.0.0/16 via 10.1.0.1 via 10.1.0.2, found 10.9.0.0/16 via 10.1.0.1 dev eth0",
  ],
  [
    "no default route",
    ["default via 10.1.0.1 dev 5"],
    ["10.0.0.0/8 dev 5"],
    "default via 10.1.0.1 dev eth0, found no route to it",
  ],
  [
    "one of another table than the wanted one",
    ["10.9.0.0/16 dev 5 table 77"],
    ["10.9.0.0/16 dev 5"],
    "10.9.0.0/16 dev eth0 table 77, found no route to it",
  ],
  [
    "one of another link in another table",
    ["10.9.0.0/16 via 10.1.0.1 dev 5"],
    ["10.9.0.0/16 via 10.1.0.1 dev 6 table 77"],
    "10.9.0.0/16 via 10.1.0.1 dev eth0, found no route to it",
  ],
  [
    "the second of two",
    ["10.9.0.0/16 dev 5", "10.8.0.0/16 dev 5"],
    ["10.9.0.0/16 dev 5"],
    "10.8.0.0/16 dev eth0, found no route to it",
  ],
])("a route is missing where there is %s", (_, wanted, found, says) => {
  expect(compare(wanted, found)).toBe(says)
})

test("the routes of a result are planned for the link, and compared", () => {
  const result = { ips: [{ address: "10.1.0.5/24", gateway: "10.1.0.1" }], routes: [{ dst: "10.9.0.0/16" }] }
  const found = [routePayload(said("10.9.0.0/16 via 10.1.0.1 dev 5"))]
  const { socket } = new LinksKernel([eth0], { answers: { [RTM_GETROUTE]: found } })
  expect(() => checkRoutes(socket, linkOf(eth0), result)).not.toThrow()
  expect(() => checkRoutes(new LinksKernel([eth0]).socket, linkOf(eth0), result)).toThrow("10.9.0.0/16 via 10.1.0.1")
})
