import { expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import { AF_INET, AF_INET6, type JsonObject } from "../../pkg/types/mod.ts"
import { parsePortmapConfig } from "./config.ts"

const network = { cniVersion: "1.1.0", name: "lab", type: "portmap" }
const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" }

function parse(raw: JsonObject, verb: Verb = "ADD") {
  return parsePortmapConfig(network, { args: "", verb, raw: { ...network, ...raw } })
}

function mappings(...portMappings: JsonObject[]) {
  return parse({ runtimeConfig: { portMappings } }).portMappings
}

test("without keys there is nothing to map, with snat and bit 13", () => {
  expect(parse({})).toMatchObject({
    portMappings: [],
    backend: undefined,
    snat: true,
    masqAll: false,
    markMasqBit: 13,
    externalSetMarkChain: undefined,
    conditions: { [AF_INET]: [], [AF_INET6]: [] },
  })
  expect(parse({ runtimeConfig: { portMappings: null } }).portMappings).toEqual([])
})

test("a hostIP that is not an address is an error that says what was expected", () => {
  expect(() => mappings({ ...web, hostIP: "x" })).toThrow("expected an IP address")
  expect(() => mappings({ ...web, hostIP: 5 })).toThrow("an IP address")
})

test("#48 keys and protocols count in any case", () => {
  const raw = { RuntimeConfig: { PortMappings: [{ HostPort: 8080, ContainerPort: 80, Protocol: "TCP", HostIP: "" }] } }
  expect(parse(raw).portMappings).toEqual([
    { protocol: "tcp", hostPort: 8080, containerPort: 80, family: undefined, hostIp: undefined },
  ])
})

test("the host's address chooses the family, and the unspecified one nothing else", () => {
  const of = (hostIP: string) => mappings({ ...web, hostIP })?.map(({ family, hostIp }) => ({ family, hostIp }))
  expect(of("192.0.2.1")).toEqual([{ family: AF_INET, hostIp: Uint8Array.of(192, 0, 2, 1) }])
  for (const mapped of ["::ffff:192.0.2.1", "::ffff:c000:0201", "0:0:0:0:0:ffff:192.0.2.1"]) {
    expect(of(mapped)).toEqual([{ family: AF_INET, hostIp: Uint8Array.of(192, 0, 2, 1) }])
  }
  expect(of("0.0.0.0")).toEqual([{ family: AF_INET, hostIp: undefined }])
  expect(of("::")).toEqual([{ family: AF_INET6, hostIp: undefined }])
})

test.each([
  [
    { ...web, hostPort: 0 },
    '"runtimeConfig.portMappings[0].hostPort": expected a whole number from 1 to 65535, found 0',
  ],
  [{ ...web, hostPort: 65536 }, "found 65536"],
  [{ ...web, hostPort: -1 }, "found -1"],
  [{ ...web, hostPort: "80" }, 'found "80"'],
  [{ ...web, containerPort: 0.5 }, 'containerPort": expected a whole number'],
  [{ ...web, protocol: "icmp" }, 'protocol": expected tcp, udp or sctp, found "icmp"'],
  [{ hostPort: 1, containerPort: 1 }, 'protocol": expected hostPort, containerPort and protocol, found nothing'],
  [{ ...web, hostIP: "localhost" }, 'hostIP": expected an IP address such as'],
])("a mapping that cannot be is refused by its key: %j", (mapping, says) => {
  expect(() => mappings(mapping)).toThrow(says)
})

test("a port leads to one place, however often it is named", () => {
  expect(mappings(web, web, { ...web, hostIP: "0.0.0.0" })).toHaveLength(3)
  expect(mappings(web, { ...web, hostIP: "192.0.2.1", containerPort: 81 })).toHaveLength(2)
  expect(mappings(web, { ...web, protocol: "udp", containerPort: 81 })).toHaveLength(2)
  const says = "Cannot map host port 8080/tcp to container ports 80 and 81 at once"
  expect(() => mappings(web, { ...web, containerPort: 81 })).toThrow(says)
  expect(() => mappings(web, { ...web, hostIP: "::", containerPort: 81 })).toThrow(says)
})

test("options that only one backend has ask for it, and cannot stand beside the other", () => {
  expect(parse({ externalSetMarkChain: "X" }).backend).toBe("iptables")
  expect(parse({ conditionsV4: ["-s", "192.0.2.1"] }).backend).toBe("iptables")
  expect(parse({ conditionsV6: ["!", "-s", "::1"] }).backend).toBe("iptables")
  expect(parse({ conditionsV4: ["ip", "saddr", "192.0.2.1"] }).backend).toBe("nftables")
  expect(parse({ conditionsV4: [], conditionsV6: [""] })).toMatchObject({
    backend: undefined,
    conditions: { [AF_INET]: [], [AF_INET6]: [] },
  })
  expect(() => parse({ backend: "nftables", externalSetMarkChain: "X", conditionsV4: ["-s"] })).toThrow(
    'Cannot use "externalSetMarkChain", "conditionsV4": only iptables supports this, but the backend is nftables',
  )
  expect(() => parse({ backend: "iptables", conditionsV6: ["ip6 saddr ::1"] })).toThrow('Cannot use "conditionsV6"')
  expect(() => parse({ conditionsV4: ["ip saddr 1.2.3.4"], conditionsV6: ["-s", "::1"] })).toThrow(
    'Cannot use "conditionsV6": only iptables supports this, but the backend is nftables',
  )
})

test("words that no program takes are refused by the name of their key, and stop no cleanup", () => {
  for (const words of [["a\0b"], ["-d", ""], ["a\rb"]]) {
    expect(() => parse({ conditionsV4: words })).toThrow('"conditionsV4[')
    expect(() => parse({ conditionsV6: words })).toThrow('"conditionsV6[')
  }
  for (const name of ["a b", "a\0", "é", "x".repeat(29)])
    expect(() => parse({ externalSetMarkChain: name })).toThrow('Cannot use "externalSetMarkChain"')
  expect(parse({ externalSetMarkChain: "KUBE-MARK-MASQ" }).externalSetMarkChain).toBe("KUBE-MARK-MASQ")
})

test("nft's conditions are part of one line", () => {
  for (const words of [["ip saddr 1.2.3.4\nflush ruleset"], ["ip saddr 1.2.3.4;", "flush ruleset"]]) {
    expect(() => parse({ conditionsV4: words })).toThrow('"conditionsV4')
  }
})

test("a mark of our own and a chain of others exclude each other", () => {
  expect(() => parse({ externalSetMarkChain: "X", markMasqBit: 5 })).toThrow('"markMasqBit"')
  expect(() => parse({ markMasqBit: 32 })).toThrow("from 0 to 31")
  expect(parse({ markMasqBit: 0 }).markMasqBit).toBe(0)
})

test("for DEL and GC what cannot be read is not known, and stops nothing", () => {
  for (const verb of ["DEL", "GC"] as const) {
    const read = parse({ backend: "ipfw", markMasqBit: 99, runtimeConfig: { portMappings: [{ hostPort: 0 }] } }, verb)
    expect(read).toMatchObject({ backend: undefined, portMappings: undefined })
    expect(parse({ runtimeConfig: 5 }, verb).portMappings).toBeUndefined()
    expect(parse({}, verb).portMappings).toEqual([])
    const twice = [web, { ...web, containerPort: 81 }]
    expect(parse({ runtimeConfig: { portMappings: twice } }, verb).portMappings).toHaveLength(2)
  }
})
