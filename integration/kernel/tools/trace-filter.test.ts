/** The way of a packet as `cni trace` reads it from the rules of the packet filter. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { testWith } from "../../lab/mod.ts"
import { createScene, filterFrames, LEFT, none, type Packet, type Scene, waysOf } from "./tracing.fixture.ts"

let scene: Scene
beforeAll(async () => {
  scene = await createScene()
})
afterAll(() => scene.host[Symbol.asyncDispose]())
const ways = (...packet: Packet) => waysOf(scene, ...packet)

/** Loads rules, which nft wants on lines of their own. */
const nft = (rules: string) =>
  scene.host.exec("nft", ["-f", "-"], { input: rules.replace(/[;}]/g, "\n$&\n").replaceAll("\n;\n", "\n") })
/** The base chain of a hook with rules, in a table of a family. */
const chain = (hook: string, rules: string, { family = "inet", type = "filter", priority = 0, more = "" } = {}) =>
  `flush ruleset; table ${family} guard { chain c { type ${type} hook ${hook} priority ${priority}; ${rules} }; ${more} }`

test.each<[string, string, string, string[]]>([
  [
    "a rule drops at forward",
    chain("forward", 'counter; ip daddr 192.0.2.0/24 tcp dport 80 drop comment "no web"'),
    "192.0.2.1:80",
    ['filter: dropped by rule H of chain inet guard c ("no web") [no]', "end: dropped by the packet filter [no]"],
  ],
  [
    "a policy drops at input",
    chain("input", "policy drop; tcp dport 22 accept", { family: "ip" }),
    "10.85.0.1:23",
    ["filter: policy drop of chain ip guard c [no]", "end: dropped by the packet filter [no]"],
  ],
  [
    "a rule accepts before the policy",
    chain("input", "policy drop; tcp dport 22 accept"),
    "10.85.0.1:22",
    none("input"),
  ],
  [
    "a rule in a chain that is jumped to drops, and one after a return does not",
    chain("forward", "jump a; drop", { more: "chain a { jump b; }; chain b { oifname out0 return; drop; }" }),
    "192.0.2.1:80",
    ["filter: dropped by rule H of chain inet guard c [no]"],
  ],
  [
    "chains accept at one priority, and drop at a later one",
    `flush ruleset; table ip z { chain first { type filter hook forward priority -5; accept; }; }
     table inet a { chain last { type filter hook forward priority 5; drop; }; }`,
    "192.0.2.1:80",
    ["filter: dropped by rule H of chain inet a last [no]"],
  ],
  [
    "a rule at prerouting drops before anything else",
    chain("prerouting", "tcp dport 8080 drop", { priority: -300 }),
    "192.0.2.2:8080",
    ["filter: dropped by rule H of chain inet guard c [no]"],
  ],
  ["rules of another family say nothing", chain("forward", "drop", { family: "ip6" }), "192.0.2.1:80", none("forward")],
  [
    "a rule drops ICMPv6",
    chain("input", "meta l4proto ipv6-icmp drop"),
    "fd00::1",
    ["filter: dropped by rule H of chain inet guard c [no]"],
  ],
  [
    "a rule drops ICMP",
    chain("input", "meta l4proto icmp drop"),
    "10.85.0.1",
    ["filter: dropped by rule H of chain inet guard c [no]"],
  ],
  [
    "it is masqueraded",
    chain("postrouting", "oifname out0 masquerade", { type: "nat", priority: 100 }),
    "192.0.2.1:80",
    ["nat: masqueraded by rule H of chain inet guard c", 'end: it leaves the host by "out0", with source 192.0.2.2'],
  ],
  [
    "its source is changed",
    chain("postrouting", "ip saddr 10.85.0.0/24 snat ip to 192.0.2.2", { type: "nat", priority: 100 }),
    "192.0.2.1:80",
    [
      "nat: its source becomes 192.0.2.2, by rule H of chain inet guard c",
      'end: it leaves the host by "out0", with source 192.0.2.2',
    ],
  ],
  [
    "a rule at postrouting drops",
    chain("postrouting", "drop"),
    "192.0.2.1:80",
    ["filter: dropped by rule H of chain inet guard c [no]", "end: dropped by the packet filter [no]"],
  ],
  [
    "a rule may decide",
    chain("forward", "limit rate 1/second drop"),
    "192.0.2.1:80",
    [
      "filter: rule H of chain inet guard c may drop it (not known here: limit) [perhaps]",
      `end: it leaves the host by "out0"; ${LEFT} [perhaps]`,
    ],
  ],
  [
    "a set has its address",
    chain("forward", "ip daddr @good drop", {
      more: "set good { type ipv4_addr; elements = { 192.0.2.7, 192.0.2.1 }; }",
    }),
    "192.0.2.1:80",
    ["filter: dropped by rule H of chain inet guard c [no]"],
  ],
  [
    "a set does not have its address",
    chain("forward", "ip daddr @good drop", { more: "set good { type ipv4_addr; elements = { 192.0.2.7 }; }" }),
    "192.0.2.1:80",
    none("forward"),
  ],
  [
    "a set has ranges",
    chain("forward", "ip daddr @good drop", {
      more: "set good { type ipv4_addr; flags interval; elements = { 192.0.2.0/24 }; }",
    }),
    "192.0.2.1:80",
    ["filter: dropped by rule H of chain inet guard c [no]"],
  ],
])("%s", async (_, rules, to, expected) => {
  await nft(rules)
  try {
    const found = ways(to).map((hop) => hop.replace(/rule \d+/, "rule H"))
    for (const hop of expected) expect(found).toContain(hop)
  } finally {
    await nft("flush ruleset")
  }
})

testWith(
  ["nf_tables", "nf_tables_catch_all"],
  "a map has an element for all other keys, alone or beside others",
  async () => {
    const map = (elements: string) =>
      chain("forward", "ip daddr vmap @fate", {
        more: `map fate { type ipv4_addr : verdict; elements = { ${elements} }; }`,
      })
    const drop = "filter: dropped by rule H of chain inet guard c [no]"
    for (const [elements, dropped] of [
      ["* : drop", true],
      ["192.0.2.1 : accept, 10.85.0.2 : accept, * : drop", false],
      ["192.0.2.9 : accept, * : drop", true],
      ["192.0.2.9 : drop", false],
    ] as const) {
      await nft(map(elements))
      const found = ways("192.0.2.1:80").map((hop) => hop.replace(/rule \d+/, "rule H"))
      await nft("flush ruleset")
      expect([elements, found.includes(drop)]).toEqual([elements, dropped])
    }
  },
)

testWith(["br_netfilter"], "frames between containers are dropped", async () => {
  await filterFrames(scene.host, "1")
  await nft(chain("forward", "iifname br0 oifname br0 drop"))
  const found = ways("10.85.0.3:80").map((hop) => hop.replace(/rule \d+/, "rule H"))
  await nft("flush ruleset")
  await filterFrames(scene.host, "0")
  expect(found.slice(-2)).toEqual([
    "filter: dropped by rule H of chain inet guard c [no]",
    "end: dropped by the packet filter [no]",
  ])
})
