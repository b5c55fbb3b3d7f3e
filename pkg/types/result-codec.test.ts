import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import {
  Code,
  decodeResult,
  decodeResultOf,
  encodeResult,
  isCniError,
  type Result,
  stringifyJson,
  supportedVersions,
} from "./mod.ts"
import { anyResult } from "./result.fixture.ts"

const withAddress = (address: unknown) => ({ cniVersion: "1.0.0", ips: [{ address }] })
const withRoute = (route: object) => ({ cniVersion: "1.1.0", routes: [{ dst: "0.0.0.0/0", ...route }] })
const empty: Result = { interfaces: [], ips: [], routes: [], dns: {} }

function refusal(code: number, run: () => unknown): string {
  try {
    run()
  } catch (error) {
    if (isCniError(error, code)) return `${error}`
    throw error
  }
  return "nothing was thrown"
}

describe("addresses", () => {
  test("#99 1.2.3.4/24 comes back unchanged, host bits kept", () => {
    const result = decodeResult(
      { cniVersion: "1.0.0", ips: [{ address: "1.2.3.4/24" }], routes: [{ dst: "1.2.3.4/24" }] },
      "",
    )
    expect(encodeResult(result, "1.0.0")).toEqual({
      cniVersion: "1.0.0",
      ips: [{ address: "1.2.3.4/24" }],
      routes: [{ dst: "1.2.3.4/24" }],
    })
  })

  test.each(["1.2.3/45", "1.2.3.4/99", "1.2.3.4", "1.02.3.4/24", "fe80::1%eth0/64", 5, true, {}])(
    "#100 %j as an address is refused, with its place",
    (address) => {
      const message = refusal(Code.Decoding, () => decodeResult(withAddress(address), "1.0.0"))
      expect(message).toContain(`Cannot decode "ips[0].address": expected`)
      expect(message).toContain(JSON.stringify(address))
    },
  )

  test("#101 a route gateway 1.2.3.x is refused, an empty one means no gateway", () => {
    expect(refusal(Code.Decoding, () => decodeResult(withRoute({ gw: "1.2.3.x" }), ""))).toContain('"routes[0].gw"')
    expect(decodeResult(withRoute({ gw: "" }), "").routes).toEqual([{ dst: "0.0.0.0/0" }])
  })

  test('#118 "address": 5 is refused in every layout', () => {
    expect(refusal(Code.Decoding, () => decodeResult({ ip4: { ip: 5 } }, "0.2.0"))).toContain('"ip4.ip"')
    for (const version of ["0.3.1", "0.4.0", "1.1.0"]) {
      expect(refusal(Code.Decoding, () => decodeResult({ ips: [{ address: 5 }] }, version))).toContain("found 5")
    }
  })

  test("a missing or empty address or destination is refused, not read as nothing", () => {
    expect(refusal(Code.Decoding, () => decodeResult(withAddress(undefined), ""))).toContain("found nothing")
    expect(refusal(Code.Decoding, () => decodeResult(withAddress(""), ""))).toContain('found ""')
    expect(refusal(Code.Decoding, () => decodeResult(withRoute({ dst: null }), ""))).toContain('"routes[0].dst"')
  })

  test("an IPv4-mapped address is IPv4 in every version, as is a route's destination and gateway", () => {
    const written = { ...withAddress("::ffff:a01:2/120"), routes: [{ dst: "::ffff:0:0/96", gw: "0::ffff:10.1.0.1" }] }
    const routes = [{ dst: "0.0.0.0/0", gw: "10.1.0.1" }]
    for (const version of ["0.3.1", "1.1.0"]) {
      const ips = [{ address: "10.1.0.2/24", ...(version === "1.1.0" ? {} : { version: "4" }) }]
      expect(encodeResult(decodeResult(written, ""), version)).toMatchObject({ ips, routes })
    }
    expect(encodeResult(decodeResult(written, ""), "0.2.0")).toMatchObject({ ip4: { ip: "10.1.0.2/24", routes } })
    expect(decodeResult({ ip6: { ip: "::ffff:10.1.0.2/128" } }, "0.2.0").ips).toEqual([{ address: "10.1.0.2/32" }])
    expect(refusal(Code.Decoding, () => decodeResult(withAddress("::ffff:10.1.0.2/64"), ""))).toContain(
      "ips[0].address",
    )
  })
})

describe("routes, interfaces and indexes", () => {
  const route = { dst: "10.0.0.0/8", gw: "10.0.0.1", mtu: 1400, advmss: 1360, priority: 7, table: 100, scope: 253 }

  test("#102 a route with all its fields comes back whole", () => {
    expect(encodeResult(decodeResult(withRoute(route), "1.1.0"), "1.1.0")).toEqual(withRoute(route))
  })

  test("#103 table 0 and scope 0 are kept; mtu 0 is left out", () => {
    const zero = { dst: "0.0.0.0/0", mtu: 0, advmss: 0, priority: 0, table: 0, scope: 0 }
    expect(encodeResult({ ...empty, routes: [zero] }, "1.1.0")).toEqual(withRoute({ table: 0, scope: 0 }))
    expect(decodeResult(withRoute(zero), "1.1.0").routes).toEqual([{ dst: "0.0.0.0/0", table: 0, scope: 0 }])
  })

  test.each([[1.5], ["5"], [true], [[]], [1e300]])("%j is not an integer", (mtu) => {
    expect(refusal(Code.Decoding, () => decodeResult(withRoute({ mtu }), ""))).toContain(
      '"routes[0].mtu": expected an integer',
    )
  })

  test("#17 an address of interface 0 says so", () => {
    const text = stringifyJson(encodeResult({ ...empty, ips: [{ address: "10.0.0.2/8", interface: 0 }] }, "1.0.0"))
    expect(text).toBe('{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.2/8","interface":0}]}')
  })

  test("#117 without an index there is no interface key", () => {
    const ips = [{ address: "10.0.0.2/8" }]
    for (const version of ["0.4.0", "1.1.0"]) {
      expect(stringifyJson(encodeResult({ ...empty, ips }, version))).not.toContain("interface")
    }
  })

  test("#119 index -1 is kept, and so is one beyond the list", () => {
    const ips = [
      { address: "10.0.0.2/8", interface: -1 },
      { address: "10.0.0.3/8", interface: 9 },
    ]
    expect(decodeResult({ ips }, "1.0.0").ips).toEqual(ips)
    expect(encodeResult({ ...empty, ips }, "1.0.0")).toEqual({ cniVersion: "1.0.0", ips })
  })

  test("#18 0.3.x and 0.4.0 carry the family as text", () => {
    const ips = [{ address: "10.0.0.2/8" }, { address: "2001:db8::2/64" }]
    for (const version of ["0.3.0", "0.3.1", "0.4.0"]) {
      expect(encodeResult({ ...empty, ips }, version)).toMatchObject({ ips: [{ version: "4" }, { version: "6" }] })
    }
    expect(
      refusal(Code.Decoding, () => decodeResult({ ips: [{ version: 4, address: "1.2.3.4/8" }] }, "0.4.0")),
    ).toContain('"ips[0].version": expected a string')
  })

  test("#19 from 1.0.0 on the family is not written, and not looked at", () => {
    const result = decodeResult({ ips: [{ version: 4, address: "10.0.0.2/8" }] }, "1.0.0")
    expect(result.ips).toEqual([{ address: "10.0.0.2/8" }])
    expect(encodeResult(result, "1.0.0")).toEqual({ cniVersion: "1.0.0", ips: [{ address: "10.0.0.2/8" }] })
  })
})

describe("versions", () => {
  test('#105 a result without version, read as version "", is 0.1.0', () => {
    const result = decodeResult({ ip4: { ip: "10.0.0.2/8" } }, "")
    expect(encodeResult(result, "")).toEqual({ cniVersion: "0.1.0", ip4: { ip: "10.0.0.2/8" }, dns: {} })
  })

  test("#115 an unknown version, or one of another layout, is refused by name", () => {
    expect(refusal(Code.IncompatibleVersion, () => decodeResult({ cniVersion: "5678.456" }, "1.0.0"))).toContain(
      'unsupported CNI result version "5678.456": expected one of 0.1.0, 0.2.0',
    )
    expect(refusal(Code.Decoding, () => decodeResultOf("1.0.0", { cniVersion: "5678.456" }))).toContain(
      'result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is "5678.456"',
    )
    expect(refusal(Code.Decoding, () => decodeResultOf("0.4.0", { cniVersion: "0.2.0" }))).toContain(
      'result type supports [0.3.0 0.3.1 0.4.0] but unmarshalled CNIVersion is "0.2.0"',
    )
    expect(refusal(Code.IncompatibleVersion, () => encodeResult(empty, "1.0"))).toContain('"1.0"')
  })

  test("what a plugin prints is read in the version that it names, else in the configuration's", () => {
    expect(decodeResult({ cniVersion: "0.2.0", ip4: { ip: "10.0.0.2/8" } }, "1.0.0").ips).toEqual([
      { address: "10.0.0.2/8" },
    ])
    for (const cniVersion of [undefined, null, "", 5]) {
      expect(decodeResult({ cniVersion, ips: [{ address: "10.0.0.2/8" }] }, "1.0.0").ips).toHaveLength(1)
    }
  })

  test("null is an empty result; a list, a text and nothing at all are none", () => {
    expect(decodeResult(null, "1.0.0")).toEqual(empty)
    for (const json of [[], "text", 5, undefined]) {
      expect(refusal(Code.Decoding, () => decodeResult(json, "1.0.0"))).toContain("expected a JSON object")
    }
  })

  test("keys are matched ignoring case, unknown ones dropped, an ip list of 0.3.0 too", () => {
    const document = {
      CNIVersion: "0.3.0",
      IPs: [{ Version: "4", Address: "10.0.0.2/8" }],
      ip: [{ address: "x" }],
      own: 1,
    }
    expect(decodeResult(document, "0.3.0")).toEqual({ ...empty, ips: [{ address: "10.0.0.2/8" }] })
  })
})

describe("layout", () => {
  const full: Result = {
    interfaces: [
      { name: "vhost7", mac: "0a:00:00:00:00:07", mtu: 1400 },
      {
        name: "eth0",
        mac: "0a:00:00:00:00:08",
        sandbox: "/run/netns/demo",
        socketPath: "/run/s",
        pciID: "0000:00:1f.6",
      },
    ],
    ips: [{ address: "192.0.2.9/24", gateway: "192.0.2.1", interface: 1 }],
    routes: [{ dst: "0.0.0.0/0", gw: "192.0.2.1", priority: 100, table: 254 }],
    dns: { nameservers: ["192.0.2.53"], domain: "lab", search: ["a.lab", "lab"], options: ["ndots:5"] },
  }

  test("from 1.0.0 on keys are in alphabetical order at every level", () => {
    expect(stringifyJson(encodeResult(full, "1.1.0"))).toBe(
      '{"cniVersion":"1.1.0",' +
        '"dns":{"domain":"lab","nameservers":["192.0.2.53"],"options":["ndots:5"],"search":["a.lab","lab"]},' +
        '"interfaces":[{"mac":"0a:00:00:00:00:07","mtu":1400,"name":"vhost7"},' +
        '{"mac":"0a:00:00:00:00:08","name":"eth0","pciID":"0000:00:1f.6","sandbox":"/run/netns/demo","socketPath":"/run/s"}],' +
        '"ips":[{"address":"192.0.2.9/24","gateway":"192.0.2.1","interface":1}],' +
        '"routes":[{"dst":"0.0.0.0/0","gw":"192.0.2.1","priority":100,"table":254}]}',
    )
  })

  test("up to 0.4.0 keys are in the order of upstream's declarations", () => {
    expect(stringifyJson(encodeResult(full, "0.4.0"))).toBe(
      '{"cniVersion":"0.4.0",' +
        '"interfaces":[{"name":"vhost7","mac":"0a:00:00:00:00:07"},' +
        '{"name":"eth0","mac":"0a:00:00:00:00:08","sandbox":"/run/netns/demo"}],' +
        '"ips":[{"version":"4","interface":1,"address":"192.0.2.9/24","gateway":"192.0.2.1"}],' +
        '"routes":[{"dst":"0.0.0.0/0","gw":"192.0.2.1","priority":100,"table":254}],' +
        '"dns":{"nameservers":["192.0.2.53"],"domain":"lab","search":["a.lab","lab"],"options":["ndots:5"]}}',
    )
    expect(stringifyJson(encodeResult({ ...full, dns: {} }, "0.2.0"))).toBe(
      '{"cniVersion":"0.2.0","ip4":{"ip":"192.0.2.9/24","gateway":"192.0.2.1",' +
        '"routes":[{"dst":"0.0.0.0/0","gw":"192.0.2.1"}]},"dns":{}}',
    )
  })

  test("#116 empty DNS is {} up to 0.4.0, and nothing from 1.0.0 on", () => {
    const ips = [{ address: "192.0.2.9/24" }]
    for (const version of supportedVersions) {
      const isOld = version.startsWith("0.")
      for (const dns of [{}, { nameservers: [], domain: "", search: [] }]) {
        expect(encodeResult({ ...empty, ips, dns }, version).dns).toEqual(isOld ? {} : (undefined as never))
      }
    }
  })

  test("an interface without a name still has the key", () => {
    expect(encodeResult({ ...empty, interfaces: [{ name: "" }] }, "1.0.0")).toEqual({
      cniVersion: "1.0.0",
      interfaces: [{ name: "" }],
    })
  })
})

test("any result of 1.x comes back as it was, and writing does not change it", () => {
  fc.assert(
    fc.property(anyResult, fc.constantFrom("1.0.0", "1.1.0"), (result, version) => {
      const before = structuredClone(result)
      const written = encodeResult(result, version)
      expect(decodeResultOf(version, JSON.parse(stringifyJson(written)))).toEqual(before)
      expect(result).toEqual(before)
    }),
  )
})
