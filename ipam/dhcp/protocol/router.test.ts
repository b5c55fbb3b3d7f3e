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

  /** RFC 4861, 4.2: lifetime 9 s and high preference, or as said; then options. */
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
    expect(said("1802 3000 00000000 20010db800010000")?.routes).toEqual([]) // no lifetime
    expect(said("1802 8000 00000e10 20010db800010000")?.routes).toEqual([]) // 128 bits are not there
    expect(said("0501 0000 00000400")).not.toHaveProperty("mtu") // 1024
    expect(said("0304 4000 00000e10 00000e10 00000000 20010db8000000000000000000000000")?.onLink).toEqual([]) // not on the link
  })

  test("is none with an option of no length, or beyond the end", () => {
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
  expect(heard("3", "18", "0708")).toBe("fe80::1") // low
  expect(heard("4", "08", "0000")).toBe("fe80::1") // high, but none
  expect(heard("5", "08", "0708")).toBe("fe80::5")
  expect(heard("5", "08", "0000")).toBe("fe80::5") // it goes
  expect(heard("1", "00", "0708")).toBe("fe80::1")
})
