import { describe, expect, test } from "bun:test"
import { fromHex } from "./bytes.ts"
import { type Circumstances, leaseOf } from "./lease4.ts"
import * as captured from "./testing/captured.ts"
import { messageOf, serverMac } from "./testing/link.ts"

const moment = { now: 5000, random: () => 0 }

describe("a lease", () => {
  const leaseWith = (options: Record<number, string>, before?: Circumstances["before"], asked = [3, 1, 121]) => {
    const message = messageOf(captured.ack)
    const changed = new Map(message.options)
    for (const [code, value] of Object.entries(options)) {
      if (value === "") changed.delete(Number(code))
      else changed.set(Number(code), fromHex(value))
    }
    return leaseOf({ ...message, options: changed }, { serverMac, moment, asked, before })
  }

  test("is for an hour, half and seven eighths of it, when the server does not say", () => {
    expect(leaseWith({ 51: "", 58: "", 59: "" })).toMatchObject({
      renewAt: 1_805_000,
      rebindAt: 3_155_000,
      expiresAt: 3_605_000,
    })
  })

  test("never ends when the server says so", () => {
    const lease = leaseWith({ 51: "ffffffff" })
    expect(lease).not.toHaveProperty("expiresAt")
    expect(lease).not.toHaveProperty("renewAt")
  })

  test.each(["00000000", "00000001"])(
    "of %s seconds lasts four, so that it is not renewed all the time [S75]",
    (seconds) => {
      const times = { renewAt: 7000, rebindAt: 8500, expiresAt: 9000 }
      expect(leaseWith({ 51: seconds, 58: "", 59: "" })).toMatchObject(times)
      expect(leaseWith({ 51: seconds, 58: seconds, 59: seconds })).toMatchObject(times)
    },
  )

  test("is not renewed within two seconds, though the server says so", () => {
    expect(leaseWith({ 58: "00000001", 59: "0000003c" })).toMatchObject({ renewAt: 65_000, rebindAt: 110_000 })
  })

  test("is renewed after half of it where the server says only until when it is rebound", () => {
    expect(leaseWith({ 58: "", 59: "00000064" })).toMatchObject({ renewAt: 65_000, rebindAt: 105_000 })
    expect(leaseWith({ 58: "00000032", 59: "" })).toMatchObject({ renewAt: 55_000, rebindAt: 110_000 })
  })

  test("ignores times that are out of order", () => {
    for (const times of [
      { 58: "00000069", 59: "0000003c" },
      { 58: "0000003c", 59: "00000079" },
    ]) {
      expect(leaseWith(times)).toMatchObject({ renewAt: 65_000, rebindAt: 110_000, expiresAt: 125_000 })
    }
  })

  test("has no gateway and no default route where routers were not asked for, though the server sends them", () => {
    // RFC 3442: 10.9.0.0/24 via 10.1.2.9, default via 10.1.2.1.
    const classless = { 3: "0a010201", 121: "180a09000a010209000a010201" }
    const routes = [{ dst: "10.9.0.0/24", gw: "10.1.2.9" }]
    for (const asked of [[1], [1, 33, 51]]) {
      const lease = leaseWith(classless, undefined, asked)
      expect(lease).toMatchObject({ routes })
      expect(lease).not.toHaveProperty("gateway")
      expect(leaseWith({ 3: "0a010201", 121: "", 33: "" }, undefined, asked)).toMatchObject({ routes: [] })
    }
    const byRouter = { dst: "0.0.0.0/0", gw: "10.1.2.1" }
    expect(leaseWith(classless, undefined, [3])).toMatchObject({ gateway: "10.1.2.1", routes: [...routes, byRouter] })
    expect(leaseWith(classless, undefined, [121])).toMatchObject({ routes: [...routes, byRouter] })
    expect(leaseWith({ 3: "0a010201", 121: "", 33: "" }, undefined, [121])).toMatchObject({ routes: [] })
  })

  test("is renewed a little sooner by chance", () => {
    const late = leaseOf(messageOf(captured.ack), { serverMac, moment: { now: 5000, random: () => 0.999 }, asked: [3] })
    expect(late).toMatchObject({ renewAt: 63_127, rebindAt: 106_722, expiresAt: 125_000 })
  })

  test("needs a mask and a server, unless it goes on", () => {
    expect(leaseWith({ 1: "" })).toBe("no subnet mask (option 1)")
    expect(leaseWith({ 1: "ff00ff00" })).toBe("255.0.255.0 is not a subnet mask (option 1)")
    expect(leaseWith({ 54: "" })).toBe("no server identifier (option 54)")
    const before = leaseWith({})
    if (typeof before === "string") throw new Error(before)
    expect(leaseWith({ 1: "", 54: "" }, before)).toMatchObject({ address: "10.1.2.50/24", server: "10.1.2.1" })
  })

  test.each(["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"])("is not of %s", (yourAddress) => {
    expect(leaseOf({ ...messageOf(captured.ack), yourAddress }, { serverMac, moment, asked: [3] })).toBe(
      `${yourAddress} is not a host address`,
    )
  })

  test("has a default route by its first router, and none besides classless routes (RFC 3442)", () => {
    expect(leaseWith({ 121: "" })).toMatchObject({
      gateway: "10.1.2.1",
      routes: [{ dst: "0.0.0.0/0", gw: "10.1.2.1" }],
    })
    expect(leaseWith({ 121: "", 33: "0a0909090a010202" })).toMatchObject({
      routes: [
        { dst: "10.0.0.0/8", gw: "10.1.2.2" },
        { dst: "0.0.0.0/0", gw: "10.1.2.1" },
      ],
    })
    const without = leaseWith({ 121: "", 3: "" })
    expect(without).toMatchObject({ routes: [] })
    expect(without).not.toHaveProperty("gateway")
  })

  const onLink = (dst: string) => ({ dst, gw: "0.0.0.0", scope: 253 })
  const outside = { dst: "0.0.0.0/0", gw: "198.51.100.1" }

  test("has a route on the link to a router outside of its network, before the routes by it", () => {
    expect(leaseWith({ 1: "ffffffff", 121: "" })).toMatchObject({
      address: "10.1.2.50/32",
      gateway: "10.1.2.1",
      routes: [onLink("10.1.2.1/32"), { dst: "0.0.0.0/0", gw: "10.1.2.1" }],
    })
    // Option 121: 172.16/12 via 198.51.100.1, default via 10.1.2.1, 10/8 via 198.51.100.1.
    const classless = "0cac10c6336401000a010201080ac6336401"
    expect(leaseWith({ 121: classless })).toMatchObject({
      routes: [
        onLink("198.51.100.1/32"),
        { dst: "172.16.0.0/12", gw: "198.51.100.1" },
        { dst: "0.0.0.0/0", gw: "10.1.2.1" },
        { dst: "10.0.0.0/8", gw: "198.51.100.1" },
      ],
    })
    // Option 33: 203.0.113.9 via 198.51.100.1.
    expect(leaseWith({ 121: "", 33: "cb007109c6336401" })).toMatchObject({
      routes: [onLink("198.51.100.1/32"), { dst: "203.0.113.0/24", gw: "198.51.100.1" }, { gw: "10.1.2.1" }],
    })
  })

  test("has no such route where the server gives one, which comes first then", () => {
    // Option 121: default via 198.51.100.1, 198.51.100.0/24 on the link; the second time 198.51.100.1/32.
    expect(leaseWith({ 121: "00c633640118c6336400000000" })).toMatchObject({
      routes: [onLink("198.51.100.0/24"), outside],
    })
    expect(leaseWith({ 121: "20c63364010000000000c6336401" })).toMatchObject({
      routes: [onLink("198.51.100.1/32"), outside],
    })
  })

  test("leaves out a route by an address that no router can have", () => {
    // Option 121: 10.9.9.9/32 via 224.0.0.1, and via 127.0.0.1.
    for (const router of ["e0000001", "7f000001"]) {
      expect(leaseWith({ 121: `200a090909${router}` })).toMatchObject({ routes: [] })
    }
  })

  test("has no MTU below the smallest", () => {
    expect(leaseWith({ 26: "0043" })).not.toHaveProperty("mtu")
  })
})
