import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { Code, convertResult, encodeResult, isCniError, type JsonObject, supportedVersions } from "./mod.ts"
import { anyResult } from "./result.fixture.ts"

/** A document of 0.2.0 with every key of its layout. */
const two = {
  cniVersion: "0.2.0",
  ip4: {
    ip: "192.0.2.9/24",
    gateway: "192.0.2.1",
    routes: [{ dst: "0.0.0.0/0", gw: "192.0.2.1" }, { dst: "10.0.0.0/8" }],
  },
  ip6: { ip: "2001:db8::9/64", gateway: "2001:db8::1", routes: [{ dst: "::/0", gw: "2001:db8::1" }] },
  dns: { nameservers: ["192.0.2.53"], domain: "lab" },
}

/** The same data in 0.4.0. */
const four = {
  cniVersion: "0.4.0",
  ips: [
    { version: "4", address: "192.0.2.9/24", gateway: "192.0.2.1" },
    { version: "6", address: "2001:db8::9/64", gateway: "2001:db8::1" },
  ],
  routes: [{ dst: "0.0.0.0/0", gw: "192.0.2.1" }, { dst: "10.0.0.0/8" }, { dst: "::/0", gw: "2001:db8::1" }],
  dns: { nameservers: ["192.0.2.53"], domain: "lab" },
}

/** A document of 1.1.0 with keys that 0.4.0 lacks. */
const eleven = {
  cniVersion: "1.1.0",
  interfaces: [{ name: "eth0", mac: "0a:00:00:00:00:08", mtu: 1400, sandbox: "/ns", socketPath: "/s", pciID: "p" }],
  ips: [
    { address: "192.0.2.9/24", interface: 0 },
    { address: "2001:db8::9/64", interface: 0 },
  ],
  routes: [
    { dst: "0.0.0.0/0", priority: 7 },
    { dst: "::/0", gw: "2001:db8::1", table: 0 },
  ],
}

function refusal(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    if (isCniError(error, Code.IncompatibleVersion)) return error.message
    throw error
  }
  return "nothing was thrown"
}

describe("between labels of one layout", () => {
  test("#104 0.1.0 and 0.2.0 are written alike but for the version", () => {
    expect(convertResult(two, "0.2.0", "0.1.0")).toEqual({ ...two, cniVersion: "0.1.0" })
    expect(convertResult({ ...two, cniVersion: "0.1.0" }, "0.1.0", "0.2.0")).toEqual(two)
  })

  test("#112 1.1.0 to 1.0.0 and back loses nothing", () => {
    const one = convertResult(eleven, "1.1.0", "1.0.0")
    expect(one).toEqual({ ...eleven, cniVersion: "1.0.0" })
    expect(convertResult(one, "1.0.0", "1.1.0")).toEqual(eleven)
  })

  test("from 0.3.0 to 0.4.0 a family that contradicts its address is kept", () => {
    const odd = {
      ...four,
      cniVersion: "0.3.0",
      ips: [
        { version: "6", address: "192.0.2.9/24" },
        { version: "", address: "::1/64" },
      ],
    }
    expect(convertResult(odd, "0.3.0", "0.4.0")).toEqual({ ...odd, cniVersion: "0.4.0" })
  })

  test('#113 the target "" is 0.1.0', () => {
    expect(convertResult(two, "0.2.0", "")).toEqual({ ...two, cniVersion: "0.1.0" })
    expect(convertResult(eleven, "1.1.0", "").cniVersion).toBe("0.1.0")
  })
})

describe("upward", () => {
  test("#106 0.2.0 to 0.4.0 and back is without loss", () => {
    expect(convertResult(two, "0.2.0", "0.4.0")).toEqual(four)
    expect(convertResult(four, "0.4.0", "0.2.0")).toEqual(two)
  })

  test("a result without addresses stays one", () => {
    expect(convertResult({ dns: {} }, "0.2.0", "0.4.0")).toEqual({ cniVersion: "0.4.0", dns: {} })
    expect(convertResult({}, "0.1.0", "1.1.0")).toEqual({ cniVersion: "1.1.0" })
  })

  test("0.4.0 to 1.0.0 drops the family and nothing else", () => {
    const { cniVersion: _, ...rest } = four
    const ips = four.ips.map(({ version: _, ...ip }) => ip)
    expect(convertResult(four, "0.4.0", "1.0.0")).toEqual({ ...rest, cniVersion: "1.0.0", ips })
  })
})

describe("downward", () => {
  test("#107 one address of each family goes to 0.1.0 with the routes of its family", () => {
    expect(convertResult({ ...four, cniVersion: "0.3.1" }, "0.3.1", "0.1.0")).toEqual({ ...two, cniVersion: "0.1.0" })
    expect(convertResult(eleven, "1.1.0", "0.1.0")).toEqual({
      cniVersion: "0.1.0",
      ip4: { ip: "192.0.2.9/24", routes: [{ dst: "0.0.0.0/0" }] },
      ip6: { ip: "2001:db8::9/64", routes: [{ dst: "::/0", gw: "2001:db8::1" }] },
      dns: {},
    })
  })

  test.each(["0.3.0", "0.4.0", "1.0.0", "1.1.0"])(
    "#108 %s without addresses cannot go to 0.2.0 or 0.1.0",
    (version) => {
      for (const target of ["0.2.0", "0.1.0"]) {
        expect(refusal(() => convertResult({ routes: [{ dst: "10.0.0.0/8" }] }, version, target))).toContain(
          "cannot convert: no valid IP addresses",
        )
      }
    },
  )

  test("#109 of several IPv4 addresses the first goes to 0.2.0", () => {
    const ips = ["192.0.2.9/24", "192.0.2.10/24"].map((address) => ({ version: "4", address }))
    expect(convertResult({ ips }, "0.4.0", "0.2.0")).toEqual({
      cniVersion: "0.2.0",
      ip4: { ip: "192.0.2.9/24" },
      dns: {},
    })
  })

  test("#110 routes of a family without address are dropped on the way to 0.2.0", () => {
    const document = { ips: [{ address: "192.0.2.9/24" }], routes: [{ dst: "::/0" }] }
    expect(convertResult(document, "1.0.0", "0.2.0")).toEqual({
      cniVersion: "0.2.0",
      ip4: { ip: "192.0.2.9/24" },
      dns: {},
    })
  })

  test("#111 1.1.0 to 0.4.0 adds the family and drops mtu, socketPath and pciID, not what routes have", () => {
    expect(convertResult(eleven, "1.1.0", "0.4.0")).toEqual({
      cniVersion: "0.4.0",
      interfaces: [{ name: "eth0", mac: "0a:00:00:00:00:08", sandbox: "/ns" }],
      ips: [
        { version: "4", address: "192.0.2.9/24", interface: 0 },
        { version: "6", address: "2001:db8::9/64", interface: 0 },
      ],
      routes: eleven.routes,
      dns: {},
    })
  })

  test("0.4.0 to 0.2.0 believes the stated family, not the address", () => {
    const ips = [{ version: "6", address: "192.0.2.9/24" }]
    expect(convertResult({ ips }, "0.4.0", "0.2.0")).toEqual({
      cniVersion: "0.2.0",
      ip6: { ip: "192.0.2.9/24" },
      dns: {},
    })
    expect(
      refusal(() => convertResult({ ips: [{ version: "5", address: "192.0.2.9/24" }] }, "0.4.0", "0.2.0")),
    ).toContain("no valid IP addresses")
  })
})

test("#114 an unknown source or target is refused, naming both", () => {
  expect(refusal(() => convertResult(two, "0.2.0", "9.9.9"))).toContain(
    "no converter for CNI result version 0.2.0 to 9.9.9",
  )
  expect(refusal(() => convertResult(two, "0.5.0", "1.0.0"))).toContain(
    "no converter for CNI result version 0.5.0 to 1.0.0",
  )
})

test("a document of another layout than its stated version is refused", () => {
  expect(() => convertResult(four, "1.0.0", "1.1.0")).toThrow("result type supports [1.0.0 1.1.0]")
})

test("every version converts to every other and says so, and converting twice is converting once", () => {
  const versions = fc.constantFrom(...supportedVersions)
  fc.assert(
    fc.property(anyResult, versions, versions, (result, from, to) => {
      fc.pre(result.ips.length > 0)
      const source = encodeResult(result, from)
      const before = JSON.stringify(source)
      const converted: JsonObject = convertResult(source, from, to)
      expect(converted.cniVersion).toBe(to)
      expect(convertResult(converted, to, to)).toEqual(converted)
      expect(JSON.stringify(source)).toBe(before)
    }),
  )
})
