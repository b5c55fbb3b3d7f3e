import { describe, expect, test } from "bun:test"
import { fromHex } from "./bytes.ts"
import { encodeIcmpv6, readPacket } from "./frames.ts"
import { advertisementOf, readAdvertisement } from "./router.ts"
import * as captured from "./testing/captured.ts"
import { clientMac, config6, ip, serverMac, TestClient } from "./testing/link.ts"

describe("a router advertisement", () => {
  test("of dnsmasq is read whole", () => {
    const router = readAdvertisement(captured.routerAdvertisement, 5)
    expect(router).toMatchObject({ address: "fe80::858:aff:fe01:201", at: 5 })
    expect(router && advertisementOf(router)).toEqual({
      lifetimeSeconds: 1800,
      preference: 0,
      onLink: [{ ip: ip("2001:db8::"), prefix: 64 }],
      routes: [],
      mtu: 1500,
      nameservers: ["2001:db8::53"],
      search: ["six.example"],
    })
  })

  /** Decodes an advertisement with lifetime 9 s, `flags` (default: high preference) and `options` (RFC 4861, 4.2). */
  const said = (options: string, flags = "08") =>
    advertisementOf({
      address: "",
      at: 0,
      message: `8600000040${flags}00090000000000000000${options}`.replaceAll(" ", ""),
    })

  test("has routes, prefixes and an MTU as far as they make sense", () => {
    expect(said("")).toMatchObject({ lifetimeSeconds: 9, preference: 1 })
    expect(said("", "18")).toMatchObject({ preference: -1 })
    expect(said("1802 3000 00000e10 20010db800010000")?.routes).toEqual([{ dst: "2001:db8:1::/48" }])
    expect(said("1801 0000 00000e10")?.routes).toEqual([{ dst: "::/0" }])
    expect(said("1802 3000 00000000 20010db800010000")?.routes).toEqual([]) // lifetime 0
    expect(said("1802 8000 00000e10 20010db800010000")?.routes).toEqual([]) // the 128 bits are missing
    expect(said("0501 0000 00000400")).not.toHaveProperty("mtu") // 1024
    expect(said("0304 4000 00000e10 00000e10 00000000 20010db8000000000000000000000000")?.onLink).toEqual([]) // the flag "on link" is not set
  })

  const prefix = "20010db8000000000000000000000000"
  test.each([
    ["a prefix", "onLink", (lifetime: string) => `0304 40c0 ${lifetime} 00000000 00000000 ${prefix}`],
    ["a route, of high preference", "routes", (lifetime: string) => `1802 3008 ${lifetime} 20010db800010000`],
    ["a name server", "nameservers", (lifetime: string) => `1903 ffff ${lifetime} ${prefix}`],
    ["a search list", "search", (lifetime: string) => `1f02 ffff ${lifetime} 0161016200000000`],
  ] as const)("has %s for as long as it has a lifetime", (_, key, option) => {
    expect(said(option("00000000"))?.[key]).toHaveLength(0)
    for (const lifetime of ["00000001", "01000000"]) expect(said(option(lifetime))?.[key]).toHaveLength(1)
  })

  test("has a route or a prefix of up to 128 bits, and an MTU that IPv6 can have", () => {
    const route = (bits: string) => said(`1803 ${bits}00 00000e10 ${prefix}`)?.routes
    expect([route("80"), route("81")]).toEqual([[{ dst: "2001:db8::/128" }], []])
    const onLink = (bits: string) => said(`0304 ${bits}80 00000e10 00000e10 00000000 ${prefix}`)?.onLink
    expect([onLink("80")?.[0]?.prefix, onLink("81")]).toEqual([128, []])
    const mtu = (digits: string) => said(`0501 0000 ${digits}`)?.mtu
    expect(["000004ff", "00000500", "0000ffff", "00010000"].map(mtu)).toEqual([undefined, 1280, 65535, undefined])
  })

  // RFC 8106, 5.2: labels, a zero at the end of each name, then zeros up to a multiple of eight bytes.
  test.each([
    ["1f02 0000 00000001 0161 0162 0163 0000", ["a.b.c"]],
    ["1f02 0000 00000001 0161 00 0162 00 0000", ["a", "b"]],
    ["1f02 0000 00000001 06616263646566 00", ["abcdef"]],
    ["1f02 0000 00000001 0161 00 0000000000", ["a"]],
    ["1f02 0000 00000001 40616263646566 00", []],
    ["1f02 0000 00000001 0961626364656600", []],
  ])("has the names of its search list: %s", (option, names) => {
    expect(said(option)?.search).toEqual(names)
  })

  test("with an option of length 0, or beyond the end, is ignored", () => {
    expect(said("0500 0000 000005dc")).toBeUndefined()
    expect(said("0502 0000 000005dc")).toBeUndefined()
    expect(said("05")).toBeUndefined()
  })

  test("is not taken from an address that is not of the link", () => {
    const packet = readPacket(captured.routerAdvertisement)
    if (packet?.kind !== "icmpv6") throw new Error("This is no ICMPv6")
    const from = (address: string) =>
      encodeIcmpv6({ mac: serverMac, ip: ip(address) }, { mac: clientMac, ip: ip("ff02::1") }, packet.message)
    expect(readAdvertisement(from("fe80::1"), 0)).toMatchObject({ address: "fe80::1" })
    expect(readAdvertisement(from("2001:db8::1"), 0)).toBeUndefined()
  })
})

test("a client takes of several routers the one that is preferred, and of equals the one that came first", () => {
  const client = new TestClient(config6)
  client.start()
  const heard = (last: string, flags: string, lifetime: string) => {
    const message = fromHex(`8600000040${flags}${lifetime}0000000000000000`)
    const from = { mac: "0a:58:0a:01:02:01", ip: ip(`fe80::${last}`) }
    client.frame(encodeIcmpv6(from, { mac: "33:33:00:00:00:01", ip: ip("ff02::1") }, message))
    return client.state.router?.address
  }
  expect(heard("1", "00", "0708")).toBe("fe80::1")
  expect(heard("2", "00", "0708")).toBe("fe80::1")
  expect(heard("3", "18", "0708")).toBe("fe80::1") // low preference
  expect(heard("4", "08", "0000")).toBe("fe80::1") // high preference, but lifetime 0
  expect(heard("5", "08", "0708")).toBe("fe80::5")
  expect(heard("5", "08", "0000")).toBe("fe80::5") // withdraws itself
  expect(heard("1", "00", "0708")).toBe("fe80::1")
})
