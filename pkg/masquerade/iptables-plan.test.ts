import { describe, expect, test } from "bun:test"
import { type Content, containerComment, narrow, parseSave, printRestore, removalChanges } from "../iptables/mod.ts"
import { AF_INET, AF_INET6, ownerComment, parseCidr } from "../types/mod.ts"
import { planAdd, planGc, planRemove } from "./iptables-plan.ts"
import { ANY_CHAIN, masqueradeRules } from "./iptables-rules.ts"

const chain = "CNI-76edbb2e17c69aeb6041d986"
const eth0 = { network: "mynet", containerId: "ctr-1", ifName: "eth0" }
const net1 = { ...eth0, ifName: "net1" }
const said = String.raw`-m comment --comment "name: \"mynet\" id: \"ctr-1\""`
const nothing: Content = { chains: [], rules: [] }

function rulesFor(owner: typeof eth0, ...addresses: string[]) {
  const family = addresses[0]?.includes(":") ? AF_INET6 : AF_INET
  const parsed = addresses.flatMap((text) => parseCidr(text) ?? [])
  return masqueradeRules(family, owner, parsed)
}

/** Plans an ADD. Returns the input for `iptables-restore`, and its lines. */
function add(found: Content, owner: typeof eth0, ...addresses: string[]) {
  const input = printRestore("nat", planAdd(rulesFor(owner, ...addresses), found, ownerComment(owner)))
  return { input, lines: input.split("\n").slice(1, -2) }
}

const table = (...lines: string[]) => parseSave(`*nat\n:POSTROUTING ACCEPT\n:${chain} -\n${lines.join("\n")}`, "nat")
const find = (...lines: string[]) => narrow(table(...lines), { chains: [chain], parents: ["POSTROUTING"] })

const upstream = [
  `-A POSTROUTING -s 10.1.0.2/32 ${said} -j ${chain}`,
  `-A ${chain} -d 10.1.0.0/16 ${said} -j ACCEPT`,
  `-A ${chain} ! -d 224.0.0.0/4 ${said} -j MASQUERADE`,
]
const mark = (address: string, ifName: string, network = "10.1.0.0/16") =>
  `-A ${chain} -s ${address}/32 -d ${network} -m comment --comment mynet/ctr-1/${ifName}`
const jump = (address: string) => `-A POSTROUTING -s ${address}/32 ${said} -j ${chain}`

describe("ADD", () => {
  test("makes upstream's rules, then a mark for each address, then the jumps", () => {
    expect(add(nothing, eth0, "10.1.0.2/16", "10.2.0.2/24").input).toBe(`*nat
:${chain} - [0:0]
-A ${chain} -d 10.1.0.0/16 ${said} -j ACCEPT
-A ${chain} -d 10.2.0.0/24 ${said} -j ACCEPT
-A ${chain} ! -d 224.0.0.0/4 ${said} -j MASQUERADE
-A ${chain} -s 10.1.0.2/32 -d 10.1.0.0/16 -m comment --comment mynet/ctr-1/eth0
-A ${chain} -s 10.2.0.2/32 -d 10.2.0.0/24 -m comment --comment mynet/ctr-1/eth0
-A POSTROUTING -s 10.1.0.2/32 ${said} -j ${chain}
-A POSTROUTING -s 10.2.0.2/32 ${said} -j ${chain}
COMMIT
`)
    expect(add(nothing, eth0, "fd00::2/64").input).toContain(`-A ${chain} ! -d ff00::/8 ${said} -j MASQUERADE`)
  })

  test("again changes nothing", () => {
    expect(add(find(...upstream, mark("10.1.0.2", "eth0")), eth0, "10.1.0.2/16").lines).toEqual([])
  })

  test("with another address takes back the former one", () => {
    const { lines } = add(find(...upstream, mark("10.1.0.2", "eth0")), eth0, "10.1.0.9/16")
    expect(lines[0]).toBe(`-D POSTROUTING -s 10.1.0.2/32 ${said} -j ${chain}`)
    expect(lines.join("\n")).not.toContain("-A POSTROUTING -s 10.1.0.2")
    expect(lines.at(-1)).toBe(jump("10.1.0.9"))
  })

  test("of a second interface keeps what the first has, and what reaches directly before the masquerade", () => {
    const { lines } = add(find(...upstream, mark("10.1.0.2", "eth0")), net1, "10.2.0.3/24")
    expect(lines).toEqual([
      `:${chain} - [0:0]`,
      upstream[1] ?? "",
      `-A ${chain} -d 10.2.0.0/24 ${said} -j ACCEPT`,
      upstream[2] ?? "",
      mark("10.1.0.2", "eth0"),
      mark("10.2.0.3", "net1", "10.2.0.0/24"),
      jump("10.2.0.3"),
    ])
  })
})

/** Plans a DEL of `eth0`. `inUse` are addresses of the container's other interfaces. */
function del(found: Content, ...inUse: string[]): string[] {
  const removal = planRemove(found, {
    chain,
    comment: containerComment(eth0),
    isOwnerStale: (text) => text === ownerComment(eth0),
    isAddressStale: (source) => !inUse.includes(source),
  })
  return printRestore("nat", removalChanges(removal)).split("\n").slice(1, -2)
}
const whole = (...jumps: string[]) => [...jumps.map((line) => line.replace("-A", "-D")), `-F ${chain}`, `-X ${chain}`]

describe("DEL", () => {
  test("takes all of the only interface, made by either suite", () => {
    expect(del(find(...upstream, mark("10.1.0.2", "eth0")))).toEqual(whole(jump("10.1.0.2")))
    expect(del(find(...upstream))).toEqual(whole(jump("10.1.0.2")))
    expect(del(find(...upstream, jump("10.1.0.3")))).toEqual(whole(jump("10.1.0.2"), jump("10.1.0.3")))
  })

  test("takes a chain that nothing leads to, and is content with none", () => {
    expect(del(find(...upstream.slice(1)))).toEqual(whole())
    expect(del(nothing)).toEqual([])
  })

  test("leaves another interface that is marked, and the network that it needs", () => {
    const found = find(...upstream, jump("10.1.0.3"), mark("10.1.0.2", "eth0"), mark("10.1.0.3", "net1"))
    expect(del(found)).toEqual([jump("10.1.0.2"), mark("10.1.0.2", "eth0")].map((line) => line.replace("-A", "-D")))
    expect(del(find(...upstream, mark("10.1.0.2", "net1")))).toEqual([])
  })

  test("takes the network that only this interface has needed", () => {
    const accept = `-A ${chain} -d 10.2.0.0/24 ${said} -j ACCEPT`
    const marks = [mark("10.2.0.3", "eth0", "10.2.0.0/24"), mark("10.1.0.2", "net1")]
    expect(del(find(...upstream, jump("10.2.0.3"), accept, ...marks))).toEqual(
      [jump("10.2.0.3"), marks[0] ?? "", accept].map((line) => line.replace("-A", "-D")),
    )
  })

  test("leaves upstream's address that another interface of the container has", () => {
    const found = find(...upstream, jump("10.1.0.3"))
    expect(del(found, "10.1.0.3/32")).toEqual([jump("10.1.0.2").replace("-A", "-D")])
    expect(del(found, "10.1.0.2/32", "10.1.0.3/32")).toEqual([])
  })

  test("leaves a container whose chain has the same name by accident: network and id join to the same text", () => {
    const other = `-A POSTROUTING -s 10.9.0.2/32 -m comment --comment "name: \\"mynetc\\" id: \\"tr-1\\"" -j ${chain}`
    expect(del(find(...upstream, other))).toEqual([jump("10.1.0.2").replace("-A", "-D")])
  })
})

describe("GC", () => {
  const foreign = "CNI-0123456789abcdef01234567"
  const elsewhere = `-A POSTROUTING -s 10.9.0.2/32 -m comment --comment "name: \\"mynet2\\" id: \\"x\\"" -j ${foreign}`
  const gc = (found: Content, ...valid: (typeof eth0)[]) =>
    printRestore("nat", removalChanges(planGc(found, "mynet", valid)))
      .split("\n")
      .slice(1, -2)
  const all = (...lines: string[]) =>
    narrow(
      parseSave(`*nat\n:${chain} -\n:${foreign} -\n:CNI-HOSTPORT-MASQ -\n${[...lines, elsewhere].join("\n")}`, "nat"),
      {
        chains: ANY_CHAIN,
        parents: ["POSTROUTING"],
      },
    )

  test("takes containers without a valid attachment, and no other network's", () => {
    expect(gc(all(...upstream))).toEqual(whole(jump("10.1.0.2")))
    expect(gc(all(...upstream, mark("10.1.0.2", "eth0")))).toEqual(whole(jump("10.1.0.2")))
  })

  test("leaves the valid ones, and upstream's rules of a container that has any", () => {
    expect(gc(all(...upstream, mark("10.1.0.2", "eth0")), eth0)).toEqual([])
    expect(gc(all(...upstream), net1)).toEqual([])
  })

  test("takes the marked address of an interface that is gone from a valid container", () => {
    const found = all(...upstream, jump("10.1.0.3"), mark("10.1.0.2", "eth0"), mark("10.1.0.3", "net1"))
    expect(gc(found, eth0)).toEqual(
      [jump("10.1.0.3"), mark("10.1.0.3", "net1")].map((line) => line.replace("-A", "-D")),
    )
  })
})

test("a search has its chains, and of other chains only what leads there", () => {
  const found = find(...upstream, "-A POSTROUTING -j ACCEPT", "-A OUTPUT -j X")
  expect(found.rules).toHaveLength(3)
  expect(found.chains).toEqual([chain])
})
