import { describe, expect, test } from "bun:test"
import { isCniError, type JsonObject } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { clientIdOf, parseDhcpConfig } from "./config.ts"

const parse = (ipam: JsonObject, args = "") => parseDhcpConfig({ ipam: { type: "dhcp", ...ipam } }, args)
const codeOf = (act: () => unknown) => {
  try {
    act()
    return undefined
  } catch (error) {
    return isCniError(error) ? error.code : error
  }
}
const hex = (text: string) => Buffer.from(text).toString("hex")

test("a configuration with nothing but its type asks for what upstream asks for, and more", () => {
  expect(parse({})).toMatchObject({
    daemonSocketPath: "/run/cni/dhcp.sock",
    provide: [],
    request: [121, 3, 1, 6, 15, 26, 42, 119],
    priority: 0,
    useOptions: true,
    broadcast: false,
    probe: false,
    dhcpv6: false,
    timeoutMs: undefined,
  })
  expect(parse({ useOptions: false }).request).toEqual([3, 1])
})

// dhcp.go of the reference plugins: options by name or number, in order, then routers and subnet mask.
describe("options", () => {
  test("are asked for in their order, before the default ones, and once", () => {
    expect(parse({ request: [{ option: "66" }, { option: "routers" }], useOptions: false }).request).toEqual([66, 3, 1])
  })

  test("without the default ones are the configured, or what upstream's library asks for", () => {
    expect(parse({ request: [{ skipDefault: true }, { option: "host-name" }] }).request).toEqual([12])
    expect(parse({ request: [{ option: "", skipDefault: true }] }).request).toEqual([1, 3, 15, 6])
  })

  test("are sent as the bytes of their value, or of the pair of CNI_ARGS, which wins; an empty one is not sent", () => {
    const provide = [
      { option: "host-name", value: "a", fromArg: "NAME" },
      { option: "60", value: "vendor" },
      { option: "61", value: "" },
    ]
    expect(parse({ provide }, "IgnoreUnknown=1;NAME=pod=1;broken").provide).toEqual([
      [12, hex("pod=1")],
      [60, hex("vendor")],
    ])
    expect(parse({ provide }, "name=x").provide[0]).toEqual([12, hex("a")])
  })

  // <https://www.iana.org/assignments/bootp-dhcp-parameters>
  test.each([
    ["subnet-mask", 1],
    ["routers", 3],
    ["host-name", 12],
    ["vendor-class-identifier", 60],
    ["dhcp-client-identifier", 61],
    ["user-class", 77],
  ])("with the name %s have code %d, sent or asked for", (option, code) => {
    expect(parse({ provide: [{ option, value: "a" }] }).provide).toEqual([[code, hex("a")]])
    expect(parse({ request: [{ option }, { option: "", skipDefault: true }] }).request).toEqual([code])
  })

  // RFC 3004, section 4: each class follows its length.
  test("user classes are sent with their lengths, and as plain bytes by `provide`", () => {
    expect(parse({ userClass: ["ab", "c"] }).provide).toEqual([[77, `02616201${hex("c")}`]])
    expect(parse({ provide: [{ option: "user-class", value: "ab" }] }).provide).toEqual([[77, "6162"]])
  })

  // RFC 2132, section 2: a length has one byte. A user class also has its own length before it.
  test("of 255 bytes are sent, and longer ones refused by name", () => {
    const bytesOf = (ipam: JsonObject) => (parse(ipam).provide[0]?.[1] ?? "").length / 2
    expect(bytesOf({ provide: [{ option: "12", value: "x".repeat(255) }] })).toBe(255)
    expect(bytesOf({ userClass: ["x".repeat(254)] })).toBe(255)
    expect(bytesOf({ userClass: ["x".repeat(200), "x".repeat(53)] })).toBe(255)
    const tooLong: [string, JsonObject][] = [
      ["12", { provide: [{ option: "12", value: "x".repeat(256) }] }],
      ["user-class", { userClass: ["x".repeat(200), "x".repeat(54)] }],
    ]
    for (const [option, ipam] of tooLong) {
      expect(refusalOf(() => parse(ipam))).toMatchObject({
        code: 7,
        message: `value too long for option ${option}`,
        details: "an option of DHCPv4 has 255 bytes at most",
      })
    }
  })

  test.each([
    [{ provide: [{ option: "nonsense", value: "a" }] }],
    [{ provide: [{ option: "256", value: "a" }] }],
    [{ provide: [{ option: "12", value: "x".repeat(256) }] }],
    [{ request: [{ option: "-1" }] }],
    [{ userClass: [""] }],
    [{ userClass: ["x".repeat(200), "x".repeat(60)] }],
    [{ priority: -1 }],
    [{ timeout: 0 }],
    [{ dhcpv6: "yes" }],
  ] as [JsonObject][])("that cannot be are code 7: %j", (ipam) => {
    expect(codeOf(() => parse(ipam))).toBe(7)
  })
})

test("no ipam at all is code 7, and nothing to DEL", () => {
  expect(codeOf(() => parseDhcpConfig({}, ""))).toBe(7)
  expect(parseDhcpConfig({}, "", true).daemonSocketPath).toBe("/run/cni/dhcp.sock")
  const broken = { ipam: { daemonSocketPath: "/a", provide: [{ option: "nonsense", value: "a" }], priority: "x" } }
  expect(codeOf(() => parseDhcpConfig(broken, ""))).toBe(7)
  expect(parseDhcpConfig(broken, "", true)).toMatchObject({ daemonSocketPath: "/a", provide: [], priority: 0 })
})

// generateClientID of the reference plugins: a zero byte, then CONTAINER/NETWORK/INTERFACE, cut to 254 bytes.
test("the client identifier is upstream's", () => {
  expect(clientIdOf("cid1/net/eth0")).toBe(`00${hex("cid1/net/eth0")}`)
  expect(clientIdOf("x".repeat(300))).toBe(`00${hex("x".repeat(254))}`)
})
