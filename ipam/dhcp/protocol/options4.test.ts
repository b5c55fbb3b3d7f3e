import { describe, expect, test } from "bun:test"
import { fromHex, toHex } from "./bytes.ts"
import { leaseOf } from "./lease4.ts"
import { encodeMessage, readMessage } from "./message4.ts"
import { encodeOptions, encodeUserClass, option, optionOf, readOptions } from "./options4.ts"
import * as captured from "./testing/captured.ts"
import { config4, messageOf, serverMac } from "./testing/link.ts"

const moment = { now: 5000, random: () => 0 }

describe("a message", () => {
  test("of ours is that of upstream's daemon, filled up to 300 bytes", () => {
    const payload = encodeMessage(
      { xid: 0x1a51d24c, secs: 0, flags: 0, clientAddress: 0x0a010232 },
      fromHex("0a580a010203"),
      new Map([option("messageType", 7), option("server", "10.1.2.1"), option("clientId", fromHex(config4.clientId))]),
    )
    expect(payload.length).toBe(300)
    expect(toHex(payload.subarray(0, 272))).toBe(toHex(captured.goRelease.subarray(42)))
    expect(payload.subarray(272)).toEqual(new Uint8Array(28))
  })

  test("of dnsmasq is a lease", () => {
    expect(leaseOf(messageOf(captured.ack), { serverMac, moment, asked: [3, 121] })).toMatchObject({
      address: "10.1.2.50/24",
      server: "10.1.2.1",
      serverMac,
      since: 5000,
      renewAt: 65_000,
      rebindAt: 110_000,
      expiresAt: 125_000,
      gateway: "10.1.2.1",
      routes: [
        { dst: "10.9.0.0/24", gw: "0.0.0.0", scope: 253 },
        { dst: "192.168.0.0/16", gw: "10.1.2.1" },
        { dst: "0.0.0.0/0", gw: "10.1.2.1" },
      ],
      mtu: 1400,
      nameservers: ["10.1.2.1", "10.1.2.2"],
      domain: "lab.example",
      search: ["eng.example.com", "example.com"],
      ntp: ["10.1.2.9"],
    })
  })

  const broken: [string, (payload: Uint8Array) => Uint8Array][] = [
    ["a request", (payload) => payload.with(0, 1)],
    ["another kind of hardware", (payload) => payload.with(1, 6)],
    ["a longer hardware address", (payload) => payload.with(2, 16)],
    ["BOOTP, without the cookie", (payload) => payload.with(236, 0)],
    ["an option beyond the end", (payload) => payload.with(payload.length - 6, 200)],
    ["no type", (payload) => payload.with(240, 0).with(241, 0).with(242, 0)],
  ]
  test.each(broken)("is not read from %s", (_what, breakIt) => {
    const payload = captured.offer.slice(42)
    expect(readMessage(payload)).toBeDefined()
    expect(readMessage(breakIt(payload))).toBeUndefined()
  })
})

describe("options", () => {
  test("of more than 255 bytes are sent in parts, and parts are joined, in any place (RFC 3396)", () => {
    const long = new Uint8Array(600).map((_, at) => at)
    const wire = encodeOptions(new Map([[121, long]]))
    expect([wire[0], wire[1], wire[257], wire[258], wire[514], wire[515], wire.at(-1)]).toEqual([
      121, 255, 121, 255, 121, 90, 255,
    ])
    const found = new Map<number, Uint8Array>()
    expect(readOptions(wire, found)).toBe(true)
    expect(found.get(121)).toEqual(long)
    found.clear()
    readOptions(fromHex("0c0161 0f0178 0c0162 ff 0c0163".replaceAll(" ", "")), found)
    expect(Array.from(found, ([code, value]) => [code, toHex(value)])).toEqual([
      [12, "6162"],
      [15, "78"],
    ])
  })

  test("go in the order of their codes, an empty one, too", () => {
    expect(
      toHex(
        encodeOptions(
          new Map([
            [61, fromHex("00")],
            [12, fromHex("61")],
            [80, new Uint8Array()],
          ]),
        ),
      ),
    ).toBe("0c01613d01005000ff")
  })

  test("go on in the fields for file and server name, when option 52 says so", () => {
    const payload = captured.offer.slice(42)
    payload.set(fromHex("0c0161ff"), 108) // the field for the file name
    payload.set(fromHex("0c0162ff"), 44) // the field for the server name
    const withOverload = (value: number) => {
      const whole = new Uint8Array(payload.length + 3)
      whole.set(payload.subarray(0, -1))
      whole.set([52, 1, value, 255], payload.length - 1)
      return optionOf(readMessage(whole)?.options ?? new Map(), "hostname")
    }
    expect([0, 1, 2, 3].map(withOverload)).toEqual([undefined, "a", "b", "ab"])
  })

  const values: [Parameters<typeof optionOf>[1], string, unknown][] = [
    [
      "classlessRoutes",
      "18 0a0102 0a010201 00 00000000",
      [
        { dst: "10.1.2.0/24", gw: "10.1.2.1" },
        { dst: "0.0.0.0/0", gw: "0.0.0.0", scope: 253 },
      ],
    ],
    ["classlessRoutes", "13 0a01ff 0a010201", [{ dst: "10.1.224.0/19", gw: "10.1.2.1" }]], // bits beyond the prefix are cleared
    ["classlessRoutes", "21 0a01020304 0a010201", undefined], // /33
    ["classlessRoutes", "18 0a0102 0a0102", undefined],
    ["classlessRoutes", "", undefined],
    ["staticRoutes", "e0000001 0a010201", undefined], // an address without a class
    [
      "staticRoutes",
      "0a090909 0a010201 c0a80505 0a010202",
      [
        { dst: "10.0.0.0/8", gw: "10.1.2.1" },
        { dst: "192.168.5.0/24", gw: "10.1.2.2" },
      ],
    ],
    [
      "staticRoutes",
      "ac100101 0a010201 e0000001 0a010201 00000000 0a010201",
      [{ dst: "172.16.0.0/16", gw: "10.1.2.1" }],
    ], // class D, default
    ["routers", "0a010201 0a0102", undefined],
    ["subnetMask", "ffff", undefined],
    ["mtu", "05dc", 1500],
    ["domain", "6c61622e6578616d706c6500", "lab.example"], // contains a NUL
    ["domain", "610a6e616d65736572766572", undefined], // contains a line for resolv.conf
    ["hostname", "2e2e", undefined],
    ["message", "6e6f0a1b5b", "no??["],
    ["search", "0161 00 0162 c000", ["a", "b.a"]],
    ["search", "c000", undefined], // points to itself
    ["search", "0161 c004 0162 c000", undefined], // two pointers to each other
    ["search", "0161 c002", undefined],
    ["search", "0161", undefined], // without an end
    ["search", "40", undefined],
  ]
  test.each(values)("%s of %s", (key, bytes, value) => {
    const code = {
      classlessRoutes: 121,
      staticRoutes: 33,
      routers: 3,
      subnetMask: 1,
      mtu: 26,
      domain: 15,
      hostname: 12,
      message: 56,
      search: 119,
    }
    const found = new Map([[code[key as keyof typeof code], fromHex(bytes.replaceAll(" ", ""))]])
    expect(optionOf(found, key) as unknown).toEqual(value)
  })

  test("have a user class with its length before it (RFC 3004)", () => {
    expect(toHex(encodeUserClass(["k8s", "a"]))).toBe("036b38730161")
  })
})
