import { describe, expect, test } from "bun:test"
import type { FilterView } from "../node/mod.ts"
import { checkDrops, checkShadows } from "./filters.ts"
import { checkOwnTables } from "./own-tables.ts"
import {
  accept,
  attachmentOf,
  baseOf,
  cachedOf,
  compare,
  drop,
  jump,
  linkOf,
  memberOf,
  type Part,
  patientOf,
  ruleOf,
  told,
} from "./testing/patients.ts"

const FORWARD = "ip filter FORWARD"
const name = (text: string) => compare(...new TextEncoder().encode(text.padEnd(16, "\0")))
const counter: Part = ["counter", {}]

describe("rules of others that drop what containers send or get", () => {
  const attachments = [
    attachmentOf({ addresses: ["10.85.0.2/24", "172.16.0.2/4", "0.0.0.0/0", "x"], link: linkOf(4, "veth1") }),
  ]
  const members = [memberOf({ type: "bridge" })]
  const found = (rules: FilterView["rules"], base: Parameters<typeof baseOf>[1] = {}, place = FORWARD) =>
    told(checkDrops(patientOf({ attachments, members, filter: { bases: [baseOf(place, base)], rules } })))
  const WHY =
    "a drop is final, also where other tables accept: containers reach nothing beyond their bridge, published ports do not answer"
  // "veth1" has a network of its own in a test's patient: there is no link "cni0" on its host.
  const ELSE = (...chain: string[]) => {
    const rule = `nft insert rule ${chain.join(" ")} ip`
    return `for each in 10.85.0.0/24 160.0.0.0/4 0.0.0.0/0; do ${rule} saddr "$each" accept; ${rule} daddr "$each" accept; done`
  }

  test("by one rule are told with where it is", () => {
    expect(found([ruleOf(FORWARD, 7, counter, drop)])).toEqual([
      `error forward-drop-rule
a rule in table ip filter, chain FORWARD drops all packets, and none accepts those of containers: chain FORWARD, handle 7
${WHY}
${ELSE("ip filter FORWARD")}`,
    ])
    const jumps = [ruleOf(FORWARD, 1, jump("GUARD")), ruleOf("ip filter GUARD", 9, name("cni0"), drop)]
    expect(found(jumps).join()).toContain("chain FORWARD drops packets of containers: chain GUARD, handle 9\n")
    expect(found(jumps).join()).toEndWith("\nnft delete rule ip filter GUARD handle 9")
    const two = [ruleOf(FORWARD, 7, name("cni0"), drop), ruleOf(FORWARD, 8, name("veth1"), drop)]
    expect(found(two).join()).toEndWith('\nfor each in 7 8; do nft delete rule ip filter FORWARD handle "$each"; done')
  })

  test.each<[boolean, string, Part[]]>([
    [true, "reject", [["reject", new Uint8Array()]]],
    [true, "the bridge", [name("cni0"), drop]],
    [true, "a container's end", [name("veth1"), drop]],
    [true, "the containers' network", [compare(10, 85, 0), drop]],
    [true, "a wider network", [compare(10, 85), drop]],
    [true, "a network of less than a byte", [compare(160, 1), drop]],
    [true, "one container", [compare(10, 85, 0, 2), drop]],
    [true, "a network of one byte", [["payload", {}], compare(10), drop]],
    [false, "IPv6, whose number is 10", [["meta", {}], compare(10), drop]],
    [false, "another interface", [name("docker0"), drop]],
    [false, "another network", [compare(10, 86, 0), drop]],
    [false, "the port of nothing", [compare(), drop]],
    [false, "accepts", [name("cni0"), accept]],
    [false, "what is not known", [["xt", new Uint8Array()], drop]],
  ])("are such: %p, for %s", (isDrop, _, parts) => {
    expect(found([ruleOf(FORWARD, 7, ...parts)])).toHaveLength(isDrop ? 1 : 0)
  })

  test("that drop the rest drop no container that another rule accepts", () => {
    const accepted = ruleOf(FORWARD, 6, name("cni0"), accept)
    expect(found([accepted, ruleOf(FORWARD, 7, drop)])).toEqual([])
    expect(found([accepted, ruleOf(FORWARD, 7, name("veth1"), drop)])).toHaveLength(1)
    expect(found([ruleOf(FORWARD, 6, name("docker0"), accept), ruleOf(FORWARD, 7, drop)])).toHaveLength(1)
    // One that drops all, in a chain of which it is not known what comes there.
    expect(found([ruleOf(FORWARD, 1, jump("GUARD")), ruleOf("ip filter GUARD", 9, drop)])).toEqual([])
  })

  test("by a policy are told, unless a rule accepts containers", () => {
    const policy = { policy: "drop" } as const
    expect(found([ruleOf(FORWARD, 1, name("docker0"), accept)], policy)).toEqual([
      `error forward-drop
table ip filter, chain FORWARD drops what no rule of it accepts, and none accepts containers
${WHY}
${ELSE("ip filter FORWARD")}`,
    ])
    expect(found([ruleOf(FORWARD, 1, name("cni0"), accept)], policy)).toEqual([])
    expect(found([ruleOf(FORWARD, 1, accept)], policy)).toEqual([])
    expect(found([])).toEqual([])
  })

  test("are looked for in filters at hook forward that are not of plugins, and where there are containers", () => {
    const rules = [ruleOf(FORWARD, 7, drop), ruleOf("ip cni_x c", 7, drop), ruleOf("ip6 filter FORWARD", 8, drop)]
    expect(found(rules, { hook: "input" })).toEqual([])
    expect(found(rules, { type: "nat" })).toEqual([])
    expect(found(rules, {}, "ip cni_x c")).toEqual([])
    expect(found(rules, {}, "inet other FORWARD")).toEqual([])
    const filter = { bases: [baseOf(FORWARD)], rules }
    expect(checkDrops(patientOf({ members, filter }))).toEqual([])
    expect(checkDrops(patientOf({ attachments }))).toEqual([])
  })

  test.each([
    [
      "docker",
      [ruleOf(FORWARD, 1, jump("DOCKER-USER"))],
      FORWARD,
      "iptables -I DOCKER-USER -i cni0 -j ACCEPT; iptables -I DOCKER-USER -o cni0 -j ACCEPT",
    ],
    [
      "docker",
      [ruleOf("ip filter DOCKER", 1, accept)],
      FORWARD,
      "iptables -I DOCKER-USER -i cni0 -j ACCEPT; iptables -I DOCKER-USER -o cni0 -j ACCEPT",
    ],
    ["ufw", [], "ip filter ufw-forward", "ufw route allow in on cni0; ufw route allow out on cni0"],
    [
      "kube-proxy",
      [ruleOf("ip filter KUBE-FORWARD", 1, accept)],
      FORWARD,
      "nft insert rule ip filter FORWARD iifname '\"cni0\"' accept; nft insert rule ip filter FORWARD oifname '\"cni0\"' accept",
    ],
    [
      "firewalld",
      [],
      "inet firewalld filter_FORWARD",
      "firewall-cmd --permanent --zone=trusted --add-interface=cni0; firewall-cmd --reload",
    ],
  ])("of %s come with how that is told to let them pass", (maker, rules, place, remedy) => {
    const filter = { bases: [baseOf(place, { policy: "drop" })], rules }
    const onBridge = [attachmentOf({ link: linkOf(4, "veth1", { master: 3 }) })]
    const bridge = linkOf(3, "cni0", { kind: "bridge" })
    const [text] = told(checkDrops(patientOf({ attachments: onBridge, members, links: [bridge], filter })))
    expect(text).toContain(`(made by ${maker}) drops what no rule of it accepts`)
    expect(text).toEndWith(`\n${remedy}`)
  })

  test("in another table say nothing of who has made this one", () => {
    const others = [
      ruleOf("ip nat DOCKER", 1, accept),
      ruleOf("ip nat X", 1, jump("DOCKER")),
      ruleOf("ip filter mufw-x", 1, accept),
    ]
    expect(found(others, { policy: "drop" }).join()).not.toContain("made by")
  })
})

describe("NAT of others that comes before published ports", () => {
  const PRE = "ip nat PREROUTING"
  const base = (more: Parameters<typeof baseOf>[1] = {}) =>
    baseOf(PRE, { type: "nat", hook: "prerouting", priority: -100, ...more })
  const own = baseOf("ip cni_hostports prerouting", { type: "nat", hook: "prerouting", priority: -101 })
  const port = { hostPort: "8080/tcp", port: 8080, protocol: "tcp", to: "10.85.0.2:80", owner: "pods/c1/eth0" }
  const ports = [{ ...port, port: 53, hostPort: "53/udp" }, port]
  const nat: Part = ["nat", {}]
  const found = (rules: FilterView["rules"], bases = [base()], more = ports) =>
    told(checkShadows(patientOf({ ports: more, filter: { bases, rules } })))
  const taken = ruleOf(PRE, 5, compare(0x1f, 0x90), nat)

  test("is told with the rule that takes a port first", () => {
    expect(found([ruleOf(PRE, 4, compare(0x1f, 0x91), nat), taken])).toEqual([
      `error port-shadowed
a rule in table ip nat, chain PREROUTING, takes port 8080/tcp first
packets to that port of the host do not reach the container
nft delete rule ip nat PREROUTING handle 5`,
    ])
    const jumps = [ruleOf(PRE, 1, jump("MINE")), ruleOf("ip nat MINE", 2, compare(0, 53), ["target", {}])]
    expect(found(jumps).join()).toContain("chain MINE, takes port 53/udp first")
    expect(found([ruleOf(PRE, 5, compare(0x1f, 0x90), ["redir", {}])])).toHaveLength(1)
  })

  test.each<[string, Part[]]>([
    ["changes no address", [compare(0x1f, 0x90), accept]],
    ["is about another port", [compare(0x1f, 0x91), nat]],
    ["is about a port with the same end", [compare(0x1e, 0x90), nat]],
    ["compares four bytes", [compare(0x1f, 0x90, 0, 0), nat]],
    ["compares what is not known", [["cmp", new Uint8Array([0x1f, 0x90])], nat]],
    ["compares in another way", [["range", { data: { value: Uint8Array.of(0x1f, 0x90) } }], nat]],
  ])("is empty where a rule %s", (_, parts) => {
    expect(found([ruleOf(PRE, 5, ...parts)])).toEqual([])
  })

  test("is at the hook, as early as ours or earlier, in tables of others", () => {
    expect(found([taken], [base({ priority: -101 }), own])).toHaveLength(1)
    expect(found([taken], [base({ priority: -100 }), own])).toEqual([])
    expect(found([taken], [base({ priority: -99 })])).toEqual([])
    expect(found([taken], [base({ hook: "output" })])).toEqual([])
    expect(found([taken], [base({ type: "filter" })])).toEqual([])
    const elsewhere = { ...own, hook: "output", priority: -300 }
    expect(found([taken], [elsewhere, base({ priority: -100 })])).toHaveLength(1)
    expect(found([ruleOf("ip cni_hostports prerouting", 1, compare(0x1f, 0x90), nat)], [own])).toEqual([])
    expect(found([taken], [base()], [port])).toHaveLength(1)
    expect(found([taken], [base()], [])).toEqual([])
    expect(checkShadows(patientOf({ ports }))).toEqual([])
  })
})

test("a table of ours that is dormant is told, and no other", () => {
  const dormant = [
    { family: "inet", name: "cni_firewall" },
    { family: "ip", name: "mine" },
  ] as const
  expect(told(checkOwnTables(patientOf({ filter: { bases: [], rules: [], dormant } })))).toEqual([
    `error table-dormant
table inet cni_firewall is dormant: no packet comes through its chains
what its rules do for containers does not happen: masquerade, published ports, policies, the check of MACs
nft add table inet cni_firewall`,
  ])
  expect(checkOwnTables(patientOf({ filter: { bases: [], rules: [] } }))).toEqual([])
  expect(checkOwnTables(patientOf({}))).toEqual([])
})

test("a table of ours that has lost the rules of a base chain is told once, with all that need them", () => {
  const cached = { ...cachedOf([{ type: "portmap" }]), isAlive: true }
  const of = (containerId: string, place = "ip cni_hostports ports") =>
    attachmentOf({ containerId, ...cached, rules: [{ place, backend: "nftables", owner: "" }] })
  const chain = (name: string) => ruleOf(`ip cni_hostports ${name}`, 1, accept)
  const tables = [{ family: "ip", name: "cni_hostports" }] as const
  const found = (names: string[], attachments = [of("c1"), of("c2")], more: Partial<FilterView> = {}) =>
    told(checkOwnTables(patientOf({ attachments, filter: { bases: [], rules: names.map(chain), tables, ...more } })))
  expect(found(["postrouting", "output"])).toEqual([
    `error table-incomplete
chain prerouting of table ip cni_hostports has no rules, and 2 containers need them: "pods/c1/eth0", "pods/c2/eth0"
packets do not come to what the table has of containers: masquerade and published ports do not work
cni reattach pods/c1/eth0`,
  ])
  expect(found(["postrouting", "output", "prerouting"])).toEqual([])
  expect(found([], [of("c1", "ip cni_masquerade containers")])).toEqual([])
  expect(found([], [of("c1")], { dormant: tables })[0]).toContain("table-dormant")
  expect(found([], [{ ...of("c1"), isAlive: false }])[0]).toEndWith(
    "the next ADD of a plugin that uses the table makes the rules anew",
  )
  expect(found(["prerouting"], [of("c1")])[0]).toContain("chains output, postrouting of table ip cni_hostports")
})
