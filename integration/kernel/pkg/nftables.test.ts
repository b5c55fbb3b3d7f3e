/** Tests `pkg/nftables` and its masquerading on a real kernel, in new namespaces, with `nft` and real traffic. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import {
  addMasquerade,
  canMasquerade,
  checkMasquerade,
  deleteMasquerade,
  deleteUpstreamMasquerade,
  gcMasquerade,
} from "../../../pkg/masquerade/testing.ts"
import { Netns } from "../../../pkg/netns/mod.ts"
import * as nftables from "../../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6, type Cidr, type Owner, parseCidr } from "../../../pkg/types/mod.ts"
import { HostNamespace, type Namespace, testWith } from "../../lab/mod.ts"

/** Opens a netfilter socket, which stays in the namespace. */
function netfilterOf({ path }: Namespace) {
  using namespace = Netns.open(path)
  return namespace.run(nftables.openNetfilter)
}

function cidr(text: string): Cidr {
  const address = parseCidr(text)
  if (!address) throw new Error(`not an address: ${text}`)
  return address
}

const owner = (containerId: string, network = "net"): Owner => ({ network, containerId, ifName: "eth0" })
const listing = async (host: Namespace) => (await host.exec("nft", ["list", "ruleset"])).stdout
const nft = (host: Namespace, text: string) => host.exec("nft", ["-f", "-"], { input: text })
const count = (text: string, part: string) => text.split(part).length - 1

testWith(["nf_tables"], "a masquerade reads well in `nft list ruleset`", async () => {
  await using host = await HostNamespace.create()
  using netfilter = netfilterOf(host)
  addMasquerade(netfilter, owner("c1"), [cidr("10.22.0.2/16"), cidr("fd00:22::2/64")])
  expect(await listing(host)).toBe(`table ip cni_masquerade {
	comment "CNI: elements are commented network/containerID/ifname"
	set containers {
		type ipv4_addr
		comment "whose traffic is masqueraded"
		elements = { 10.22.0.2 comment "net/c1/eth0" }
	}

	set networks_16 {
		type ipv4_addr . ipv4_addr
		comment "each with its own network"
		elements = { 10.22.0.2 . 10.22.0.0 comment "net/c1/eth0" }
	}

	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr . ip daddr & 255.255.0.0 @networks_16 return comment "to its own network, /16"
		ip saddr @containers ip daddr != 224.0.0.0/4 masquerade comment "from containers to everywhere else"
	}
}
table ip6 cni_masquerade {
	comment "CNI: elements are commented network/containerID/ifname"
	set containers {
		type ipv6_addr
		comment "whose traffic is masqueraded"
		elements = { fd00:22::2 comment "net/c1/eth0" }
	}

	set networks_64 {
		type ipv6_addr . ipv6_addr
		comment "each with its own network"
		elements = { fd00:22::2 . fd00:22:: comment "net/c1/eth0" }
	}

	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ip6 saddr . ip6 daddr & ffff:ffff:ffff:ffff:: @networks_64 return comment "to its own network, /64"
		ip6 saddr @containers ip6 daddr != ff00::/8 masquerade comment "from containers to everywhere else"
	}
}
`)
})

testWith(
  ["nf_tables"],
  "an address whose last holder was never deleted belongs to the one who has it now",
  async () => {
    await using host = await HostNamespace.create()
    using netfilter = netfilterOf(host)
    const address = cidr("10.22.0.2/16")
    addMasquerade(netfilter, owner("old"), [cidr("10.22.0.2/24")])
    addMasquerade(netfilter, owner("new"), [address])
    checkMasquerade(netfilter, owner("new"), [address])
    expect(() => checkMasquerade(netfilter, owner("old"), [address])).toThrow(
      'expected 10.22.0.2 comment "net/old/eth0" in set ip cni_masquerade containers; ' +
        'found 10.22.0.2 comment "net/new/eth0" in set ip cni_masquerade containers, ' +
        '10.22.0.2 . 10.22.0.0 comment "net/new/eth0" in set ip cni_masquerade networks_16',
    )
    const taken = await listing(host)
    deleteMasquerade(netfilter, owner("old"))
    expect(await listing(host)).toBe(taken)
  },
)

testWith(["nf_tables"], "a rule that was flushed is missed by CHECK and made by the next ADD", async () => {
  await using host = await HostNamespace.create()
  using netfilter = netfilterOf(host)
  addMasquerade(netfilter, owner("c1"), [cidr("10.22.0.2/16")])
  await nft(host, "flush chain ip cni_masquerade postrouting")
  expect(() => checkMasquerade(netfilter, owner("c1"), [cidr("10.22.0.2/16")])).toThrow(
    'return comment "to its own network, /16" and ip cni_masquerade postrouting ip saddr @containers ip daddr !=' +
      ' 224.0.0.0/4 masquerade comment "from containers to everywhere else"; found no rule',
  )
  addMasquerade(netfilter, owner("c2"), [cidr("10.22.0.3/16")])
  checkMasquerade(netfilter, owner("c1"), [cidr("10.22.0.2/16")])
  expect(count(await listing(host), "masquerade comment")).toBe(1)
})

testWith(["nf_tables"], "each prefix length has a set and a rule, from /0 to a single address", async () => {
  await using host = await HostNamespace.create()
  using netfilter = netfilterOf(host)
  const prefixes = [24, 0, 16, 32]
  for (const prefix of prefixes) {
    addMasquerade(netfilter, owner(`c${prefix}`), [cidr(`10.22.0.${prefix}/${prefix}`), cidr(`fd00::1/${4 * prefix}`)])
  }
  const all = await listing(host)
  for (const rule of [
    "ip saddr . ip daddr & 0.0.0.0 @networks_0 return",
    "ip saddr . ip daddr & 255.255.0.0 @networks_16 return",
    "ip saddr . ip daddr & 255.255.255.0 @networks_24 return",
    "ip saddr . ip daddr @networks_32 return",
    "ip6 saddr . ip6 daddr & :: @networks_0 return",
    "ip6 saddr . ip6 daddr & ffff:ffff:ffff:ffff:ffff:ffff:: @networks_96 return",
    "ip6 saddr . ip6 daddr @networks_128 return",
  ]) {
    expect(count(all, rule)).toBe(1)
    expect(all.indexOf(rule)).toBeLessThan(all.indexOf(`${rule.split(" ")[0]} saddr @containers`))
  }
  await nft(host, `flush ruleset; ${all}`)
  expect(await listing(host)).toBe(all)
  for (const prefix of prefixes) checkMasquerade(netfilter, owner(`c${prefix}`), [cidr(`10.22.0.${prefix}/${prefix}`)])
  for (const prefix of prefixes) deleteMasquerade(netfilter, owner(`c${prefix}`))
  expect(await listing(host)).toBe("")
})

testWith(
  ["nf_tables"],
  "an ADD asks the kernel for the rules only, and a DEL looks further only where it finds itself",
  async () => {
    await using host = await HostNamespace.create()
    using netfilter = netfilterOf(host)
    const questions: string[] = []
    const note = <T extends { what: string }>(request: T): T => {
      questions.push(request.what)
      return request
    }
    const watched: nftables.Netfilter = {
      fd: netfilter.fd,
      get: (request, read) => netfilter.get(note(request), read),
      dump: (request, pick) => netfilter.dump(note(request), pick),
      transact(requests) {
        questions.push("transaction")
        netfilter.transact(requests)
      },
    }
    addMasquerade(netfilter, owner("c1"), [cidr("10.22.0.2/16")])
    addMasquerade(watched, owner("c2"), [cidr("10.22.0.3/16")])
    expect(questions.splice(0)).toEqual(["list chain ip cni_masquerade postrouting", "transaction"])
    deleteMasquerade(watched, owner("c2"))
    expect(questions.splice(0)).toEqual([
      "read the generation of the rule set",
      "list the sets of table ip cni_masquerade",
      "list set ip cni_masquerade containers",
      "find an element of ip cni_masquerade networks_16",
      "list the sets of table ip6 cni_masquerade",
      "transaction",
    ])
    deleteMasquerade(watched, owner("c1"))
    expect(questions.splice(0)).toEqual([
      "read the generation of the rule set",
      "list the sets of table ip cni_masquerade",
      "list set ip cni_masquerade containers",
      "list the sets of table ip6 cni_masquerade",
      "transaction",
    ])
  },
)

testWith(["nf_tables"], "whether the kernel can masquerade is found out without a trace", async () => {
  await using host = await HostNamespace.create()
  using netfilter = netfilterOf(host)
  for (const family of [AF_INET, AF_INET6] as const) expect(canMasquerade(netfilter, family)).toBe(true)
  expect(await listing(host)).toBe("")
  addMasquerade(netfilter, owner("c1"), [cidr("10.22.0.2/16")])
  expect(canMasquerade(netfilter, AF_INET)).toBe(true)
})

testWith(["nf_tables"], "rules that are longer than a page are listed, the first of a chain and others", async () => {
  const ports = Array.from({ length: 60 }, (_, port) => `tcp dport != ${port + 1}`).join(" ")
  for (const names of [
    ["long", "short", "long"],
    ["short", "long", "short"],
  ]) {
    await using host = await HostNamespace.create()
    const rules = names.map((name) => `${name === "long" ? ports : ""} accept comment "${name}"`)
    await nft(host, `table ip lab { chain rules { ${rules.join("; ")}; }; }`)
    using netfilter = netfilterOf(host) // the first dump of a new socket has a buffer of one page
    const found = nftables.listRules(netfilter, { table: { family: "ip", name: "lab" }, name: "rules" })
    expect(found.map(({ comment }) => comment)).toEqual(names)
    const longest = Math.max(...found.map(({ expressions }) => expressions.length))
    expect(longest).toBeGreaterThan(110)
  }
})

testWith(["no_nf_tables"], "a kernel without nf_tables has nothing to delete, and refuses an ADD", async () => {
  await using host = await HostNamespace.create()
  using netfilter = netfilterOf(host)
  deleteMasquerade(netfilter, owner("c1"))
  gcMasquerade(netfilter, "net", [])
  deleteUpstreamMasquerade(netfilter, owner("c1"))
  expect(canMasquerade(netfilter, AF_INET)).toBe(false)
  expect(() => addMasquerade(netfilter, owner("c1"), [cidr("10.22.0.2/16")])).toThrow("EOPNOTSUPP")
})

/** Returns a program that adds and deletes an address repeatedly, and leaves it added at the end. */
const restless = (number: number, prefix: number, rounds: number) => `
  import { addMasquerade, deleteMasquerade } from ${JSON.stringify(join(import.meta.dir, "../../../pkg/masquerade/testing.ts"))}
  import { openNetfilter } from ${JSON.stringify(join(import.meta.dir, "../../../pkg/nftables/mod.ts"))}
  const owner = { network: "net", containerId: "c${number}", ifName: "eth0" }
  const addresses = [{ ip: Uint8Array.of(10, 22, 0, ${number}), prefix: ${prefix} }]
  using netfilter = openNetfilter()
  addMasquerade(netfilter, owner, addresses)
  for (let round = 0; round < ${rounds}; round++) {
    deleteMasquerade(netfilter, owner)
    addMasquerade(netfilter, owner, addresses)
  }`

testWith(
  ["nf_tables"],
  "first ADDs and last DELs of eight processes at once, with four prefix lengths, end in one rule for each",
  async () => {
    await using host = await HostNamespace.create()
    const numbers = [1, 2, 3, 4, 5, 6, 7, 8]
    const prefixOf = (number: number) => 16 + (number % 4)
    const run = (number: number) => host.exec(process.execPath, ["-e", restless(number, prefixOf(number), 20)])
    await Promise.all(numbers.map(run))
    const all = await listing(host)
    expect(count(all, "masquerade comment")).toBe(1)
    expect(count(all, "hook postrouting")).toBe(1)
    using netfilter = netfilterOf(host)
    for (const number of numbers) {
      expect(count(all, `/${prefixOf(number)}"`)).toBe(1)
      checkMasquerade(netfilter, owner(`c${number}`), [cidr(`10.22.0.${number}/${prefixOf(number)}`)])
    }
    for (const number of numbers) deleteMasquerade(netfilter, owner(`c${number}`))
    expect(await listing(host)).toBe("")
  },
)

testWith(
  ["nf_tables"],
  "one of thousands is found by its owner, and a GC of thousands is one transaction",
  async () => {
    await using host = await HostNamespace.create()
    using netfilter = netfilterOf(host)
    const numbers = Array.from({ length: 2500 }, (_, n) => n)
    for (const n of numbers) addMasquerade(netfilter, owner(`c${n}`), [cidr(`10.22.${n >> 8}.${n & 255}/16`)])
    deleteMasquerade(netfilter, owner("c1234"))
    const rest = await listing(host)
    expect(count(rest, 'comment "net/c')).toBe(2 * 2499)
    expect(rest).not.toContain('"net/c1234/eth0"')
    gcMasquerade(netfilter, "net", [owner("c7")])
    checkMasquerade(netfilter, owner("c7"), [cidr("10.22.0.7/16")])
    expect(count(await listing(host), 'comment "net/c')).toBe(2)
  },
)

testWith(["nf_tables"], "what a transaction prints is what it does", async () => {
  const { add, dataTypes, fields, remove } = nftables
  const table = { family: "ip", name: "t", comment: "mapped" } as const
  const base = { type: "nat", hook: "prerouting", priority: -100, policy: "accept" } as const
  const chain = { table, name: "prerouting", base }
  const jumped = { table, name: "jumped", comment: "by verdict" }
  const ports = {
    table,
    name: "ports",
    key: [dataTypes.protocol, dataTypes.port],
    value: [dataTypes.ipv4, dataTypes.port],
    comment: "port to container",
  }
  const key = [Uint8Array.of(17), Uint8Array.of(0, 53)]
  const transaction = [
    add.table(table),
    add.chain(chain),
    add.chain(jumped),
    add.set(ports),
    add.elements(ports, [
      { key, value: [Uint8Array.of(10, 22, 0, 2), Uint8Array.of(20, 233)], comment: "net/c1/eth0" },
    ]),
    add.rule({
      chain,
      statements: [
        nftables.match(fields.inputInterface, "==", nftables.ifnameValue("veth0")),
        nftables.verdict({ jump: jumped.name }),
      ],
    }),
    add.rule({
      chain,
      statements: [
        nftables.match(fields.destinationType, "==", Uint8Array.of(2, 0, 0, 0)),
        nftables.dnatMap([fields.protocol, fields.destinationPort], ports),
      ],
      comment: "to local addresses",
    }),
    add.rule({ chain: jumped, statements: [nftables.matchBits(fields.ctState, "new"), nftables.verdict("return")] }),
  ]
  await using ours = await HostNamespace.create()
  await using theirs = await HostNamespace.create()
  using netfilter = netfilterOf(ours)
  nftables.commit(netfilter, transaction)
  await nft(theirs, nftables.printTransaction(transaction))
  expect(await listing(ours)).toBe(await listing(theirs))

  const found = nftables.findElements(netfilter, ports)
  expect(found?.elements).toEqual([
    { key, value: [Uint8Array.of(10, 22, 0, 2), Uint8Array.of(20, 233)], comment: "net/c1/eth0" },
  ])
  const undo = [remove.elements(ports, found?.elements ?? []), remove.table(table)]
  expect(() =>
    nftables.commit(
      netfilter,
      [undo[0], undo[0]].flatMap((step) => step ?? []),
    ),
  ).toThrow("delete element ip t ports { udp . 53 }: ")
  nftables.commit(netfilter, undo)
  expect(await listing(ours)).toBe("")
})

test("a socket to the packet filter stays in its namespace", async () => {
  await using host = await HostNamespace.create()
  await using other = await HostNamespace.create()
  using netfilter = netfilterOf(host)
  using _ = netfilterOf(other)
  nftables.commit(netfilter, [nftables.add.table({ family: "bridge", name: "mine" })])
  expect(await listing(host)).toContain("table bridge mine")
  expect(await listing(other)).toBe("")
})
