import { expect, test } from "bun:test"
import { readdirSync, readFileSync, readlinkSync } from "node:fs"
import { setSocketOption } from "../libc/mod.ts"
import { AF_INET, AF_INET6 } from "../types/mod.ts"
import { listAddresses } from "./addresses.ts"
import { attribute, readAttributes, type UnknownAttribute } from "./attrs.ts"
import { concat } from "./codec.ts"
import { IFF_LOOPBACK } from "./link-table.ts"
import { findLink, getLink, type Ifindex, listLinks, readLink } from "./links.ts"
import { RouteGroup, RouteSocket } from "./route-socket.ts"
import { listRoutes } from "./routes.ts"
import { listRules } from "./rules.ts"
import { hex } from "./testing.ts"

// These tests query the kernel on which they run and change nothing, so they do not need root.

test("every namespace has a loopback link, found by name and by number", () => {
  using route = RouteSocket.open()
  const lo = getLink(route, "lo")
  expect(lo).toMatchObject({ index: 1 as Ifindex, name: "lo", type: 772, mac: "00:00:00:00:00:00" })
  expect(lo.flags & IFF_LOOPBACK).toBe(IFF_LOOPBACK)
  expect(getLink(route, lo.index)).toEqual(lo)
})

test("the links are those that /proc shows", () => {
  using route = RouteSocket.open()
  const lines = readFileSync("/proc/self/net/dev", "utf8").split("\n").slice(2, -1)
  const names = lines.map((line) => line.slice(0, line.indexOf(":")).trim())
  const links = listLinks(route)
  expect(links.map(({ name }) => name).sort()).toEqual(names.sort())
  const inet6 = links.flatMap(({ attributes }) => inside(10, inside(26, attributes.unknown)))
  expect(inet6.filter(({ type }) => type === 3)).toEqual([]) // IFLA_AF_SPEC, AF_INET6, IFLA_INET6_STATS: no counters
})

test("a link that does not exist is ENODEV", () => {
  using route = RouteSocket.open()
  expect(() => getLink(route, "no-such-link")).toThrow('find link "no-such-link": ENODEV')
  expect(() => getLink(route, 0x7ffffff0 as Ifindex)).toThrow("find link number 2147483632: ENODEV")
  expect(findLink(route, "no-such-link")).toBeUndefined()
  expect(findLink(route, "an-alternative-name-of-no-link")).toBeUndefined()
})

test("the sequence numbers of a socket cannot be told from those of another", () => {
  const payload = hex`00 00 0000 01000000 00000000 00000000` // ip link show lo
  const firsts = Array.from({ length: 16 }, () => {
    using route = RouteSocket.open()
    const ask = () => route.get({ type: 18, what: "find link", payload }, ({ sequence }) => sequence)
    const first = ask()
    expect(ask()).toBe(first + 1)
    return first
  })
  const steps = firsts.slice(1).map((first, at) => Math.abs(first - (firsts[at] ?? 0)))
  expect(Math.min(...steps)).toBeGreaterThan(16) // random numbers fail this in one of four million runs
})

test("a request that the kernel does not like is refused in the kernel's own words", () => {
  using route = RouteSocket.open()
  const payload = hex`00 00 0000 01000000 01000000 00000000` // a query must not have flags
  expect(() => route.get({ type: 18, what: "find link", payload }, () => {})).toThrow(
    "find link: Invalid values in header for get link request (EINVAL)",
  )
  expect(() => route.dump({ type: 18, what: "list links", payload }, readLink)).toThrow(
    /list links: Invalid values .* \(EINVAL\)/,
  )
  expect(getLink(route, "lo").name).toBe("lo") // the socket is still usable
})

test("an answer larger than the buffer is received whole", () => {
  using route = RouteSocket.open()
  setSocketOption(route.fd, 270, 10, 0) // SOL_NETLINK, NETLINK_CAP_ACK off: an error repeats the whole request
  const payload = concat([hex`00 00 0000 01000000 01000000 00000000`, attribute(53, new Uint8Array(60_000))])
  for (let time = 0; time < 2; time++) {
    expect(() => route.get({ type: 18, what: "find link", payload }, () => {})).toThrow(
      /^find link: Invalid values in header/,
    )
  }
})

test("addresses, routes and rules belong to links and tables that are there", () => {
  using route = RouteSocket.open()
  const links = new Set(listLinks(route).map(({ index }) => index))
  expect(listAddresses(route).filter(({ index }) => !links.has(index))).toEqual([])
  for (const family of [AF_INET, AF_INET6] as const) {
    const length = family === AF_INET ? 4 : 16
    for (const { dst, index } of listRoutes(route, family)) {
      expect(dst.length).toBe(length)
      expect(index === undefined || links.has(index)).toBe(true)
    }
    expect(listRules(route, family).every((rule) => rule.family === family)).toBe(true)
  }
})

test("a subscriber waits for its time and can ask after it", () => {
  using events = RouteSocket.subscribe(RouteGroup.Ipv6Address)
  const start = performance.now()
  expect(events.nextEvents(30)).toBeUndefined()
  expect(performance.now() - start).toBeGreaterThanOrEqual(29)
  expect(getLink(events, "lo").name).toBe("lo")
})

test("a socket is closed at the end of its scope", () => {
  const open = () => readdirSync("/proc/self/fd").filter((fd) => isSocket(fd)).length
  const before = open()
  {
    using first = RouteSocket.open()
    using second = RouteSocket.open()
    expect(first.fd).not.toBe(second.fd)
    expect(open()).toBe(before + 2)
    first[Symbol.dispose]()
    expect(() => getLink(first, "lo")).toThrow("EBADF")
  }
  expect(open()).toBe(before)
})

function inside(type: number, attributes: readonly UnknownAttribute[] = []): UnknownAttribute[] {
  return attributes.filter((found) => found.type === type).flatMap(({ payload }) => readAttributes(payload))
}

function isSocket(fd: string): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`).startsWith("socket:")
  } catch {
    return false // the descriptor of the directory that was listed
  }
}
