/** Copies of tables, which follow the kernel's notifications, judged with `nft`. */
import { expect, setDefaultTimeout } from "bun:test"
import { Netns } from "../../../pkg/netns/mod.ts"
import { commentsIn, openNetfilter, RuleEvents, TableCopies, tableOfMessage } from "../../../pkg/nftables/mod.ts"
import { HostNamespace, type Namespace, patient, testWith } from "../../lab/mod.ts"

setDefaultTimeout(patient(30_000))

const nft = (host: Namespace, text: string) => host.exec("nft", ["-f", "-"], { input: text })
const listing = async (host: Namespace) => (await host.exec("nft", ["list", "ruleset"])).stdout
const isCopied = (name: string) => name.startsWith("copied")

const rules = `
table ip copied {
  comment "what all of it is for"
  set plain { type ipv4_addr; comment "addresses"; elements = { 192.0.2.1 comment "net/c1/eth0", 192.0.2.2 }; }
  set ranges { type ipv4_addr; flags interval; elements = { 198.51.100.0/25, 203.0.113.7-203.0.113.9 }; }
  map ports { type inet_proto . inet_service : ipv4_addr . inet_service
    elements = { tcp . 8080 comment "net/c1/eth0" : 192.0.2.1 . 80 }; }
  map decisions { type ifname . ifname : verdict; elements = { "a" . "b" : jump aside }; }
  chain aside { counter drop comment "counted"; }
  chain first { type nat hook prerouting priority dstnat; policy accept;
    ip saddr @plain accept comment "known"
    dnat ip to meta l4proto . th dport map @ports
  }
  chain last { type filter hook forward priority 7; policy drop;
    iifname . oifname vmap @decisions
    ip saddr @ranges ct state established accept
  }
}
table bridge copied {
  chain input { type filter hook input priority 0; ether type arp accept; }
}
table ip other {
  chain kept { }
}
`

/** Copies of a host's tables, and what is heard of them. */
function copiesOf(host: Namespace) {
  using namespace = Netns.open(host.path)
  const [socket, events] = namespace.run(() => [openNetfilter(), new RuleEvents(() => true)] as const)
  const copies = new TableCopies(socket, isCopied)
  copies.load()
  return {
    copies,
    follow: () => (events.take() ?? []).map(({ messages, generation }) => ({ ...copies.follow(messages), generation })),
    [Symbol.dispose]() {
      events[Symbol.dispose]()
      socket[Symbol.dispose]()
    },
  }
}

testWith(
  ["nf_tables"],
  "tables come back as nft list ruleset had them: sets, ranges, maps, verdicts, chains, rules in their order",
  async () => {
    await using host = await HostNamespace.create()
    await nft(host, rules)
    const before = await listing(host)
    using watched = copiesOf(host)
    await nft(host, "add table ip copied; flush ruleset; add table ip other; add chain ip other kept")
    const [flushed] = watched.follow()
    expect(flushed?.tables.map(({ family, name }) => `${family} ${name}`).sort()).toEqual(["2 copied", "7 copied"])
    expect(flushed?.tables.flatMap((table) => [...commentsIn(table)])).toEqual(["net/c1/eth0", "net/c1/eth0"])
    if (!flushed) return
    expect(watched.copies.restore(flushed.tables, () => false, flushed.generation)).toBe(true)
    const sorted = (text: string) => text.split("\n}\n").sort()
    expect(sorted(await listing(host))).toEqual(sorted(before))
  },
)

testWith(["nf_tables"], "a copy follows every change, and tells what was taken of a table that stays", async () => {
  await using host = await HostNamespace.create()
  await nft(host, rules)
  using watched = copiesOf(host)
  await nft(
    host,
    `
    delete element ip copied plain { 192.0.2.1 }
    add element ip copied plain { 192.0.2.3 comment "net/c3/eth0" }
    add set ip copied new { type inet_service; elements = { 80 }; }
    insert rule ip copied first tcp dport @new accept`,
  )
  expect(watched.follow()).toMatchObject([{ tables: [], comments: ["net/c1/eth0"], isBroken: false }])
  await nft(host, "delete element ip copied plain { 192.0.2.2 }")
  expect(watched.follow()).toMatchObject([{ comments: [], isBroken: true }])
  await nft(host, "flush chain ip copied aside")
  expect(watched.follow()).toMatchObject([{ comments: ["counted"], isBroken: false }])
  await nft(host, "add table ip copied { flags dormant; }")
  expect(watched.follow()).toMatchObject([{ comments: [], isBroken: true }])
  await nft(host, "add table ip copied")
  watched.follow()
  const before = await listing(host)
  await nft(host, "delete table ip copied")
  const [deleted] = watched.follow()
  expect(watched.copies.restore(deleted?.tables ?? [], () => false, deleted?.generation as never)).toBe(true)
  const sorted = (text: string) => text.split("\n}\n").sort()
  expect(sorted(await listing(host))).toEqual(sorted(before))
})

testWith(
  ["nf_tables"],
  "a table does not come back on another rule set than the one in which it was gone, nor what is left of it",
  async () => {
    await using host = await HostNamespace.create()
    await nft(host, rules)
    using watched = copiesOf(host)
    await nft(host, "delete table ip copied")
    const [deleted] = watched.follow()
    if (!deleted) throw new Error("nothing was heard")
    await nft(
      host,
      'add table ip copied; add chain ip copied first; add rule ip copied first accept comment "of an ADD"',
    )
    expect(watched.copies.restore(deleted.tables, () => false, deleted.generation)).toBe(false)
    expect(await listing(host)).toContain("of an ADD")
    expect(watched.copies.isThere(deleted.tables[0] as never)).toBe(true)
    await nft(host, "delete table ip copied")
    const now = watched.copies.generation()
    expect(watched.copies.restore(deleted.tables, (comment) => comment === "net/c1/eth0", now)).toBe(true)
    expect(await listing(host)).not.toContain("net/c1/eth0")
    expect(await listing(host)).toContain("192.0.2.2")
  },
)

testWith(["nf_tables"], "when notifications were lost, the tables themselves say what is gone", async () => {
  await using host = await HostNamespace.create()
  await nft(host, rules)
  using watched = copiesOf(host)
  const names = Array.from({ length: 20_000 }, (_, at) => `10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`)
  const fill = `add table ip big; add set ip big many { type ipv4_addr; }\nadd element ip big many { ${names.join(", ")} }`
  for (let round = 0; round < 3; round++) await nft(host, `${fill}\ndelete table ip big`)
  await nft(host, "delete table ip copied")
  using namespace = Netns.open(host.path)
  using events = namespace.run(() => new RuleEvents((message) => isCopied(tableOfMessage(message))))
  for (let round = 0; round < 3; round++) await nft(host, `${fill}\ndelete table ip big`)
  expect(events.take()).toBeUndefined()
  expect(watched.copies.load().map(({ name }) => name)).toEqual(["copied"])
})
