import { describe, expect, test } from "bun:test"
import { AF_INET, AF_INET6 } from "../../../pkg/types/mod.ts"
import type { ClientState, Lease } from "../protocol/types.ts"
import { missingOf, mtuOf, resultOf } from "./result.ts"

function lease(more: Partial<Lease>): Lease {
  const server = { server: "10.1.2.1", serverMac: "0a:00:00:00:00:01", since: 0 }
  return { address: "10.1.2.3/24", ...server, routes: [], nameservers: [], search: [], ...more } as Lease
}

const four = lease({
  gateway: "10.1.2.1",
  routes: [{ dst: "0.0.0.0/0", gw: "10.1.2.1" }],
  nameservers: ["10.1.2.53", "10.1.2.54"],
  search: ["a.example"],
  mtu: 1400,
})
const six = lease({
  address: "fd00::3/64",
  nameservers: ["fd00::53", "10.1.2.53"],
  search: ["a.example", "b.example"],
  domain: "six.example",
  mtu: 1300,
})

describe("the result of ADD", () => {
  test("has addresses and routes of every lease, and DNS where the options are asked for, each name once", () => {
    expect(resultOf([four, six], { priority: 0, useOptions: true })).toEqual({
      interfaces: [],
      ips: [{ address: "10.1.2.3/24", gateway: "10.1.2.1" }, { address: "fd00::3/64" }],
      routes: [{ dst: "0.0.0.0/0", gw: "10.1.2.1" }],
      dns: {
        nameservers: ["10.1.2.53", "10.1.2.54", "fd00::53"],
        domain: "six.example",
        search: ["a.example", "b.example"],
      },
    })
    expect(resultOf([four, six], { priority: 0, useOptions: false }).dns).toEqual({})
    expect(resultOf([lease({})], { priority: 0, useOptions: true }).dns).toEqual({})
  })

  test("has the priority that is configured in every route", () => {
    expect(resultOf([four], { priority: 7, useOptions: false }).routes).toEqual([
      { dst: "0.0.0.0/0", gw: "10.1.2.1", priority: 7 },
    ])
  })

  test("comes with the first MTU that a server says, where the options are asked for", () => {
    const wishes = { priority: 0, useOptions: true }
    expect(mtuOf([lease({}), six, four], wishes)).toBe(1300)
    expect(mtuOf([lease({})], wishes)).toBeUndefined()
    expect(mtuOf([four], { ...wishes, useOptions: false })).toBeUndefined()
  })
})

describe("what is missing until there is a lease", () => {
  const client = (family: number, phase: string, offer?: Lease) =>
    ({ config: { family }, phase, ...(offer && { offer }) }) as unknown as ClientState

  test.each([
    [AF_INET, "selecting", "OFFER"],
    [AF_INET, "waiting", "OFFER"],
    [AF_INET, "requesting", "ACK"],
    [AF_INET, "rebooting", "ACK"],
    [AF_INET, "probing", "end of the ARP probe"],
    [AF_INET6, "selecting", "ADVERTISE"],
    [AF_INET6, "requesting", "REPLY"],
    [AF_INET6, "rebooting", "REPLY"],
    [AF_INET6, "routing", "router advertisement"],
  ])("is said of the first client that has none: family %d, %s: %s", (family, phase, awaited) => {
    expect(missingOf([client(family, "bound"), client(family, phase)])).toBe(awaited)
    expect(missingOf([client(family, phase, four), client(family, "other")])).toBe(`${awaited} from server 10.1.2.1`)
  })

  test("is the carrier before the first client, and the link-local address when all clients have a lease", () => {
    expect(missingOf([])).toBe("carrier")
    expect(missingOf([client(AF_INET6, "bound")])).toBe("link-local IPv6 address")
  })
})
