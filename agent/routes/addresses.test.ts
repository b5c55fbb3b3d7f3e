import { expect, test } from "bun:test"
import {
  type Address,
  IFA_F_TEMPORARY,
  IFA_F_TENTATIVE,
  type Ifindex,
  type ListedRoute,
} from "../../pkg/netlink/mod.ts"
import { formatIp, parseIp } from "../../pkg/types/mod.ts"
import { sameAddresses, sourceOf } from "./addresses.ts"

const ip = (text: string) => parseIp(text) ?? expect.unreachable()
const eth0 = 2 as Ifindex
const route = (keys: Partial<ListedRoute>) => ({ dst: ip("0.0.0.0"), prefix: 0, index: eth0, ...keys }) as ListedRoute
const address = (text: string, keys: Partial<Address> = {}): Address => ({
  ip: ip(text.split("/")[0] ?? ""),
  prefix: Number(text.split("/")[1]),
  index: eth0,
  flags: 0x80,
  scope: 0,
  ...keys,
})
const source = (routes: ListedRoute[], ...addresses: Address[]) => {
  const found = sourceOf(routes, addresses)
  return found && formatIp(found)
}

test("the address whose network has the gateway, of the route with the lowest metric", () => {
  const routes = [
    route({ priority: 200, gateway: ip("10.0.0.1"), index: 3 as Ifindex }),
    route({ priority: 100, gateway: ip("192.0.2.1") }),
  ]
  const addresses = [
    address("10.0.0.5/24", { index: 3 as Ifindex }),
    address("198.51.100.5/24"),
    address("192.0.2.5/24"),
  ]
  expect(source(routes, ...addresses)).toBe("192.0.2.5")
})

test("the one that the route names; else the first of the link, for a gateway of link-local scope", () => {
  expect(
    source([route({ preferredSource: ip("198.51.100.9"), gateway: ip("192.0.2.1") })], address("192.0.2.5/24")),
  ).toBe("198.51.100.9")
  expect(
    source(
      [route({ gateway: ip("fe80::1") })],
      address("fe80::5/64", { scope: 253 }),
      address("2001:db8::7/64", { flags: IFA_F_TEMPORARY }),
      address("2001:db8::6/64", { flags: IFA_F_TENTATIVE }),
      address("2001:db8::5/64"),
    ),
  ).toBe("2001:db8::5")
})

test("the link of the first of several next hops; nothing without a default route", () => {
  const nextHops = [{ index: 3 as Ifindex, gateway: ip("192.0.2.1") }, { index: eth0 }]
  const other = address("192.0.2.5/24", { index: 3 as Ifindex })
  expect(source([route({ index: undefined, nextHops })], address("10.0.0.5/24"), other)).toBe("192.0.2.5")
  expect(source([], other)).toBeUndefined()
})

test("lists of addresses are the same in any order", () => {
  expect(sameAddresses(["a", "b"], ["b", "a"])).toBe(true)
  expect(sameAddresses(["a"], ["a", "b"])).toBe(false)
  expect(sameAddresses(["a", "b"], ["a", "c"])).toBe(false)
})
