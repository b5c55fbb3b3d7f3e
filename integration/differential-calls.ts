import fc from "fast-check"
import { pluginNames } from "../cmd/plugins.ts"
import type { DriverCall } from "./differential-driver.ts"

type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** Where the driver's host has the plugins, and two containers' namespaces. */
export const place = { bin: "/run/cni/bin", pods: ["/run/cni/pod1", "/run/cni/pod2"] } as const

const versions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
const addresses = [
  ...[
    "10.1.2.3",
    "10.1.2.3/24",
    "10.1.2.3/33",
    "010.1.1.1",
    "1.2.3",
    "1.2.3.4.5",
    "300.1.1.1/8",
    "10.1.0.0/16",
    "0.0.0.0/0",
  ],
  ...[
    "::1",
    "fd00::/64",
    "fd00:0:0::5/64",
    "::ffff:1.2.3.4",
    "fe80::1%eth0",
    "1:2:3:4:5:6:7:8:9",
    "::/0",
    "FD00::ABCD",
    "1::2::3",
    "/",
  ],
]
const words = [
  ...[
    "",
    "x",
    " ",
    "eth0",
    "lo",
    "..",
    ".",
    "a/b",
    "lab",
    "x".repeat(15),
    "x".repeat(16),
    "x".repeat(300),
    "é☃😀",
    "\ud800",
    "a\0b",
    "\x7f\x1b",
  ],
  ...[
    "<&>\u2028",
    "__proto__",
    "constructor",
    "toString",
    "true",
    "1",
    "1.1.0",
    "9.9.9",
    "1.1",
    "v1.0.0",
    "İı",
    "ſ",
    "ß",
    "\ufeffx",
    "\\",
    '"',
  ],
  ...[
    "0a:00:00:00:00:01",
    "0A-00-00-00-00-01",
    "0a:00",
    "host-local",
    "static",
    "bridge",
    "absent",
    "../bridge",
    "nftables",
    "iptables",
  ],
]
const numbers = [
  0,
  1,
  -1,
  1.5,
  -0,
  42,
  1500,
  4094,
  4095,
  65535,
  65536,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  1e21,
  1e-7,
  5e-324,
  1e300,
]

const odd: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>(null, true, false, [], {}, [null], [[]], [{}], { x: null }),
  fc.constantFrom<Json>(...numbers),
  fc.constantFrom<Json>(...words),
  fc.constantFrom<Json>(...addresses),
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.jsonValue({ noUnicodeString: false, maxDepth: 2 }) as fc.Arbitrary<Json>,
)

const pool = (subnet: string): Json => ({ type: "host-local", ranges: [[{ subnet }]], routes: [{ dst: "0.0.0.0/0" }] })
const dual: Json = {
  type: "host-local",
  ranges: [[{ subnet: "10.30.0.0/24", rangeStart: "10.30.0.9", gateway: "10.30.0.1" }], [{ subnet: "fd00:30::/64" }]],
  resolvConf: "/etc/resolv.conf",
}
const fixed: Json = {
  type: "static",
  addresses: [{ address: "10.44.0.7/24", gateway: "10.44.0.1" }, { address: "fd00:44::7/64" }],
  routes: [{ dst: "10.9.0.0/16", gw: "10.44.0.2" }],
  dns: { nameservers: ["10.44.0.1"], search: ["a", "b"] },
}
const previous: Json = {
  cniVersion: "1.1.0",
  interfaces: [
    { name: "br-lab", mac: "0a:00:00:00:00:07" },
    { name: "eth0", mac: "0a:00:00:00:00:08", mtu: 1400, sandbox: place.pods[0] },
  ],
  ips: [
    { address: "10.22.0.2/24", gateway: "10.22.0.1", interface: 1 },
    { address: "fd00:22::2/64", interface: 1 },
  ],
  routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0", gw: "fd00:22::1", mtu: 1300, priority: 7 }],
  dns: { nameservers: ["10.22.0.1"], domain: "lab", search: ["lab"], options: ["ndots:2"] },
}
const ports: Json = [
  { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  { hostPort: 53, containerPort: 53, protocol: "UDP", hostIP: "10.0.0.1" },
]

/** Configurations that are valid, by plugin, without the keys that all have. */
const valid: Readonly<Record<string, readonly { [key: string]: Json }[]>> = {
  bridge: [
    { bridge: "br-lab", isGateway: true, ipMasq: true, ipam: pool("10.22.0.0/24") },
    { bridge: "br-dual", isDefaultGateway: true, forceAddress: true, hairpinMode: true, mtu: 1400, ipam: dual },
    {
      bridge: "br-fix",
      ipMasq: true,
      ipMasqBackend: "nftables",
      promiscMode: true,
      ipam: fixed,
      runtimeConfig: { mac: "0a:00:00:00:00:05" },
    },
    { bridge: "br-l2", macspoofchk: true, portIsolation: true, disableContainerInterface: false, ipam: {} },
  ],
  ptp: [
    { ipMasq: true, mtu: 1400, ipam: pool("10.23.0.0/24") },
    { ipam: dual, dns: { nameservers: ["10.0.0.53"] } },
    { ipam: fixed },
  ],
  loopback: [{}, { prevResult: previous }],
  "host-local": [
    { ipam: pool("10.24.0.0/29") },
    { ipam: dual, args: { cni: { ips: ["10.30.0.77"] } } },
    {
      ipam: {
        type: "host-local",
        subnet: "10.25.0.0/24",
        rangeStart: "10.25.0.5",
        rangeEnd: "10.25.0.6",
        gateway: "10.25.0.1",
      },
      runtimeConfig: { ips: ["10.25.0.6/24"] },
    },
  ],
  static: [
    { ipam: fixed },
    { ipam: { type: "static" }, runtimeConfig: { ips: ["10.5.0.9/24"] } },
    { ipam: { type: "static" }, args: { cni: { ips: ["fd00::9/64"] } } },
  ],
  portmap: [
    { prevResult: previous, runtimeConfig: { portMappings: ports } },
    {
      prevResult: previous,
      snat: false,
      markMasqBit: 5,
      conditionsV4: ["-d", "10.0.0.0/8"],
      runtimeConfig: { portMappings: ports },
    },
    { prevResult: previous },
  ],
  tuning: [
    { prevResult: previous, sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1", "net.core.somaxconn": "500" } },
    { prevResult: previous, mac: "0a:00:00:00:00:09", mtu: 1300, promisc: true, allmulti: true, txQLen: 77 },
  ],
}

/** Every place in a value that can be changed: the container and the key. */
function placesIn(value: Json): [{ [key: string]: Json }, string][] {
  if (typeof value !== "object" || value === null) return []
  const object = value as { [key: string]: Json }
  return Object.keys(object).flatMap(
    (key) => [[object, key], ...placesIn(object[key] ?? null)] as [typeof object, string][],
  )
}

interface Mutation {
  readonly at: number
  readonly kind: "replace" | "delete" | "case" | "wrap" | "add"
  readonly value: Json
}

function mutate(config: { [key: string]: Json }, mutations: readonly Mutation[]): { [key: string]: Json } {
  const changed = structuredClone(config)
  for (const { at, kind, value } of mutations) {
    const places = placesIn(changed)
    const [object, key] = places[at % places.length] ?? [changed, "name"]
    const old = object[key] ?? null
    if (kind === "replace") object[key] = value
    else if (kind === "wrap") object[key] = [old, value]
    else if (kind === "add" && !Array.isArray(object)) object[String(value).slice(0, 20)] = old
    else if (Array.isArray(object)) object.splice(Number(key), 1)
    else delete object[key]
    if (kind === "case") object[key.toUpperCase()] = old
  }
  return changed
}

const mutation: fc.Arbitrary<Mutation> = fc.record({
  at: fc.nat(200),
  kind: fc.constantFrom("replace", "replace", "replace", "delete", "case", "wrap", "add"),
  value: odd,
})

/** What happens to the text of a configuration on its way. */
const spoil: fc.Arbitrary<(text: string) => Uint8Array> = fc
  .tuple(fc.nat(), fc.nat(11), fc.string({ unit: "binary", maxLength: 3 }), fc.uint8Array({ maxLength: 40 }))
  .map(([at, kind, piece, bytes]) => (text: string) => {
    const cut = at % (text.length + 1)
    const all = Buffer.from(text)
    const numbered = (literal: string) => Buffer.from(text.replace(/(?<=[:[])-?\d+(\.\d+)?(?=[,\]}])/, literal))
    const literals = [
      "12345678901234567890",
      "1e400",
      "-0",
      "01",
      "1.",
      ".5",
      "1E+2",
      "9007199254740993",
      "0.1e-400",
      "-",
      "+1",
      "NaN",
    ]
    switch (kind) {
      case 0:
        return Buffer.from(text.slice(0, cut))
      case 1:
        return Buffer.from(text.slice(0, cut) + piece + text.slice(cut))
      case 2:
        return Buffer.from(text.slice(0, cut) + piece + text.slice(cut + piece.length))
      case 3:
        return Buffer.concat([all.subarray(0, cut), bytes, all.subarray(cut)])
      case 4:
        return Buffer.from(`\ufeff${text}`)
      case 5:
        return Buffer.from(text + piece)
      case 6:
        return numbered(literals[at % literals.length] ?? "")
      case 7:
        return Buffer.from(text.replace("{", `{"name":"twice","NAME":"${at}",`))
      case 8:
        return Buffer.from(text.replaceAll(",", " ,\n\t\r "))
      case 9:
        return bytes
      case 10:
        return Buffer.from(text.replace("{", `{"deep":${"[".repeat(at % 1200)}${"]".repeat(at % 1200)},`))
      default:
        return Buffer.from(JSON.stringify([JSON.parse(text)]).slice(at % 2))
    }
  })

const often = <T>(good: readonly T[], rare: fc.Arbitrary<T>, weight = 9) =>
  fc.oneof({ weight, arbitrary: fc.constantFrom(...good) }, { weight: 1, arbitrary: rare })
const text = fc
  .oneof(fc.constantFrom(...words, ...addresses), fc.string({ unit: "binary", maxLength: 9 }))
  .map((value) => value.replaceAll("\0", "").toWellFormed())

const environment = fc
  .record({
    CNI_COMMAND: often(["ADD", "ADD", "ADD", "DEL", "DEL", "CHECK", "CHECK", "STATUS", "GC", "VERSION"], text, 19),
    CNI_CONTAINERID: often(["c1", "c2", "c3"], text),
    CNI_NETNS: often(
      [...place.pods, "/run/cni/absent"],
      fc.oneof(text, fc.constantFrom("/proc/self/ns/net", "/etc/passwd", "/")),
      6,
    ),
    CNI_IFNAME: often(["eth0", "eth1"], text),
    CNI_ARGS: often(
      ["", "IgnoreUnknown=1;K8S_POD_NAME=a"],
      fc.oneof(
        text,
        fc.constantFrom("IP=10.30.0.40", "MAC=0a:00:00:00:00:11", "A=1;A=2", ";;", "=", "K=v", "IgnoreUnknown=maybe"),
        text.map((value) => `IgnoreUnknown=1;${value}`),
      ),
      4,
    ),
    CNI_PATH: often(
      [place.bin, place.bin, `/absent:${place.bin}`],
      fc.oneof(text, fc.constantFrom("relative", "", ":", "/absent")),
      12,
    ),
    CNI_NETNS_OVERRIDE: often(["", ""], fc.constantFrom("1", "true", "no")),
  })
  .chain((variables) => fc.subarray(Object.keys(variables), { minLength: 0 }).map((left) => ({ variables, left })))

const cloned = fc.option(
  fc.array(
    fc.record({
      containerID: fc.constantFrom("c1", "c2", "zz"),
      ifname: fc.constantFrom("eth0", "eth1"),
    }) as fc.Arbitrary<Json>,
    { maxLength: 3 },
  ),
  { nil: undefined },
)

/** One call by chance. */
const call: fc.Arbitrary<DriverCall> = fc
  .record({
    plugin: fc.constantFrom(...pluginNames),
    which: fc.nat(5),
    version: often([...versions, "1.0.0", "1.1.0", "1.1.0", "1.1.0"], fc.constantFrom("", "2.0.0", "1.1", "x"), 20),
    name: often(["lab", "other"], fc.constantFrom(...words)),
    attachments: cloned,
    mutations: fc.oneof(fc.constant([]), fc.array(mutation, { minLength: 1, maxLength: 3 })),
    spoiled: fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: spoil }),
    environment,
    isWhole: fc.integer({ min: 0, max: 12 }),
  })
  .map(({ plugin, which, version, name, attachments, mutations, spoiled, environment, isWhole }) => {
    const own = valid[plugin] ?? [{}]
    const list = attachments === undefined ? {} : { "cni.dev/valid-attachments": attachments }
    const config = mutate({ cniVersion: version, name, type: plugin, ...own[which % own.length], ...list }, mutations)
    const json = JSON.stringify(config)
    const { variables, left } = environment
    const env = Object.fromEntries(Object.entries(variables).filter(([key]) => isWhole > 0 || left.includes(key)))
    const stdin = Buffer.from(spoiled ? spoiled(json) : json).toString("base64")
    return { plugin, env, stdin }
  })

/** The life of an attachment: a maker, what is chained to it, checks, deletions, garbage, in versions that have all that. */
const story: fc.Arbitrary<DriverCall[]> = fc
  .record({
    maker: fc.constantFrom("bridge", "ptp"),
    which: fc.nat(5),
    version: fc.constantFrom("0.4.0", "1.0.0", "1.1.0"),
    container: fc.constantFrom("s1", "s2", "s3"),
    pod: fc.constantFrom(...place.pods),
    ifName: fc.constantFrom("net0", "net1"),
    chain: fc.shuffledSubarray(["tuning", "portmap"]),
    twice: fc.boolean(),
    reversed: fc.boolean(),
    keep: fc.integer({ min: 0, max: 3 }),
  })
  .map(({ maker, which, version, container, pod, ifName, chain, twice, reversed, keep }) => {
    const calls: DriverCall[] = []
    const configOf = (plugin: string, index: number) => {
      const own = valid[plugin] ?? [{}]
      const { prevResult: _, ...keys } = own[(which + index) % own.length] ?? {}
      return { cniVersion: version, name: "story", type: plugin, ...keys }
    }
    const add = (verb: string, plugin: string, index: number, prevResultOf?: number, keys: object = {}) => {
      const env = {
        CNI_COMMAND: verb,
        CNI_CONTAINERID: container,
        CNI_NETNS: pod,
        CNI_IFNAME: ifName,
        CNI_PATH: place.bin,
      }
      const stdin = Buffer.from(JSON.stringify({ ...configOf(plugin, index), ...keys })).toString("base64")
      calls.push({ plugin, env, stdin, ...(prevResultOf === undefined ? {} : { prevResultOf }) })
    }
    const chained = [maker, ...chain]
    for (const [index, plugin] of chained.entries()) add("ADD", plugin, index, index === 0 ? undefined : index - 1)
    const last = chained.length - 1
    for (const [index, plugin] of chained.entries()) add("CHECK", plugin, index, last)
    if (twice) add("ADD", maker, 0)
    if (keep === 0)
      for (const [index, plugin] of chained.entries())
        add("GC", plugin, index, undefined, { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] })
    if (keep === 1)
      for (const [index, plugin] of chained.entries()) add("STATUS", plugin, index, undefined, { cniVersion: "1.1.0" })
    const deleted = [...chained.entries()]
    for (const [index, plugin] of reversed ? deleted.reverse() : deleted) add("DEL", plugin, index, last)
    add("DEL", maker, 0)
    return calls
  })

/** The same calls for the same seed: some stories, calls by chance, more stories. */
export function generateCalls(seed: number, chance: number, stories: number): DriverCall[] {
  const told = fc.sample(story, { seed, numRuns: stories })
  const single = fc.sample(call, { seed: seed + 1, numRuns: chance })
  const calls: DriverCall[] = []
  const tell = (story: readonly DriverCall[]) => {
    const base = calls.length
    for (const one of story)
      calls.push(one.prevResultOf === undefined ? one : { ...one, prevResultOf: one.prevResultOf + base })
  }
  for (const one of told.slice(0, 3)) tell(one)
  const every = Math.max(1, Math.floor(single.length / Math.max(1, told.length - 3)))
  for (const [at, one] of single.entries()) {
    calls.push(one)
    const next = told[3 + Math.floor(at / every)]
    if (next && at % every === every - 1) tell(next)
  }
  return calls
}
