/** Tests firewall's CHECK and ADD with damaged tables and others' objects in them, in this process and with `nft`. */
import { describe, expect, test } from "bun:test"
import { call, configOf, done, elements, expected, type Firewalled, host, useHost } from "./firewalled.ts"

useHost()

const add = (...specs: Firewalled[]) => done("ADD", ...specs)
const ruleset = async () => (await host.exec("nft", ["list", "ruleset"])).stdout
/** Returns the plugin's nf_tables rules, without iptables' tables, which other tests check with `iptables-save`. */
const ownTables = async () =>
  (await ruleset())
    .split(/^(?=table )/m)
    .filter((table) => table.includes("cni_firewall"))
    .join("")
const nft = (line: string) => host.exec("nft", ["-f", "-"], { input: `${line}\n` })

const one: Firewalled = { number: 2 }
test("the tables as nft shows them", async () => {
  add({ number: 2, policy: "isolated" })
  expect(await ownTables()).toBe(await Bun.file(`${import.meta.dir}/firewall.nft`).text())
})

describe("CHECK names what is missing, and the next ADD makes it", () => {
  const rules = "the rules of table inet cni_firewall"
  test.each<[string, Firewalled["policy"], string, string]>([
    ["flush chain inet cni_firewall unmark", "open", rules, "none"],
    [
      "delete element inet cni_firewall containers6 { fd00:1::2 }",
      "open",
      'fd00:1::2 comment "net1/c2/eth0" in set inet cni_firewall containers6',
      "none",
    ],
    [
      "delete element inet cni_firewall same_bridge { br1 . veth2 }",
      "same-bridge",
      'policy same-bridge for bridge "br1"',
      "none",
    ],
    [
      "delete element inet cni_firewall policed { br1 }",
      "isolated",
      'policy isolated in force on bridge "br1"',
      "open",
    ],
    [
      "delete element inet cni_firewall within { br1 . br1 }",
      "isolated",
      'policy isolated in force on bridge "br1"',
      "open",
    ],
    [
      "delete element inet cni_firewall within { br1 . br1 }; add element inet cni_firewall within { br1 . br1 : goto admit }",
      "isolated",
      'policy isolated in force on bridge "br1"',
      "same-bridge",
    ],
    [
      "delete element bridge cni_firewall isolated { veth2 }",
      "isolated",
      '"veth2" in set bridge cni_firewall isolated',
      "none",
    ],
    ["delete table bridge cni_firewall", "isolated", '"veth2" in set bridge cni_firewall isolated', "none"],
  ])("%s", async (damage, policy, what, found) => {
    const spec: Firewalled = { number: 2, policy }
    add({ number: 3, policy, name: "net2" }, spec)
    const whole = await ruleset()
    await nft(damage)
    expect(call("CHECK", spec).json).toMatchObject({
      code: 999,
      msg: `Cannot find the firewall rules of net1/c2/eth0: expected ${what}; found ${found}`,
    })
    add(spec)
    done("CHECK", spec)
    expect((await ruleset()).split("\n").sort()).toEqual(whole.split("\n").sort())
  })

  test("another policy, or another bridge, than that of ADD", () => {
    add({ number: 2, policy: "same-bridge" })
    const messageOf = (spec: Firewalled) => call("CHECK", spec).json.msg
    expect(messageOf({ number: 2, policy: "isolated" })).toContain(
      'expected policy isolated for bridge "br1"; found same-bridge',
    )
    expect(messageOf({ number: 2, policy: "same-bridge", bridge: "br2" })).toContain(
      'expected policy same-bridge for bridge "br2"; found same-bridge',
    )
    done("CHECK", { number: 2 })
  })
})

test("a table that a program has emptied in part is completed, with the ports of all that are isolated", async () => {
  const specs: Firewalled[] = [2, 3, 4].map((number) => ({ number, policy: "isolated", bridge: `br${number}` }))
  add(...specs)
  const whole = await elements(host)
  for (const damage of [
    "flush set bridge cni_firewall isolated",
    "delete element bridge cni_firewall isolated { veth3 }",
    "delete table bridge cni_firewall",
  ]) {
    await nft(damage)
    add(...specs.slice(0, 1))
    expect(await elements(host)).toEqual(whole)
    // If the table is missing, DEL assumes a kernel that cannot isolate ports.
    if (damage.startsWith("delete table")) continue
    await nft(damage)
    done("DEL", ...specs.slice(0, 1))
    expect(await elements(host)).toEqual(expected(...specs.slice(1)))
    add(...specs.slice(0, 1))
  }
})

describe("an administrator's chain", () => {
  const site = { iptablesAdminChainName: "SITE" }

  test("is heeded beside the others', and stays with its rules when all containers no longer exist", async () => {
    add(one, { number: 3, keys: site })
    expect((await ruleset()).match(/jump [-\w]+ comment "(CNI-ADMIN|SITE)"/g)).toEqual([
      'jump CNI-ADMIN comment "CNI-ADMIN"',
      'jump SITE comment "SITE"',
    ])
    done("CHECK", one, { number: 3, keys: site })
    await nft('add rule inet cni_firewall SITE ip saddr 10.9.9.9 drop comment "the site\'s"')
    done("DEL", one, { number: 3 })
    expect(await elements(host)).toEqual({})
    expect(await ruleset()).toContain("ip saddr 10.9.9.9 drop")
    add(one)
    expect((await ruleset()).match(/jump SITE/g)).toHaveLength(1)
    await nft("flush chain inet cni_firewall SITE")
    done("DEL", one)
    expect(await ruleset()).toBe("")
  })

  test("that no rule leads to is missing for CHECK", () => {
    add(one)
    expect(call("CHECK", { number: 2, keys: site }).json.msg).toContain("expected the rules of table inet cni_firewall")
  })
})

test("a table of the name that is another's is in the way: the kernel's refusal is told, and nothing has changed", async () => {
  await nft("table inet cni_firewall { set containers { type ipv6_addr; }; }")
  const before = await ruleset()
  expect(call("ADD", one).json).toMatchObject({
    code: 999,
    msg: "Cannot filter by nftables",
    details: expect.stringContaining("inet cni_firewall containers"),
  })
  expect(await ruleset()).toBe(before)
})

test("a result without addresses is passed on, and one without the host's side has no policy", async () => {
  const { prevResult } = configOf(one)
  const passed = call("ADD", { number: 2, policy: "isolated", keys: { prevResult: { ...prevResult, ips: [] } } })
  expect(passed).toMatchObject({ exitCode: 0, json: { interfaces: prevResult.interfaces } })
  const inside = { ...prevResult, interfaces: prevResult.interfaces.slice(2), ips: [{ address: "10.1.0.2/16" }] }
  expect(call("ADD", { number: 2, policy: "isolated", keys: { prevResult: inside } }).json).toMatchObject({
    code: 7,
    msg: 'Cannot apply ingressPolicy "isolated": prevResult names no interface of the host',
    details: "it needs the bridge, or the host's end of a pair: put firewall after bridge or ptp",
  })
  expect(await ruleset()).toBe("")
  add({ number: 2, keys: { prevResult: inside } })
  expect(await elements(host)).toEqual({ containers: ["10.1.0.2 comment net1/c2"] })
  done("CHECK", { number: 2, keys: { prevResult: inside } })
})

test.each(["ADD", "CHECK"] as const)("%s without prevResult is code 7", (verb) => {
  expect(call(verb, { number: 2, keys: { prevResult: undefined } }).json).toMatchObject({
    code: 7,
    msg: `Cannot ${verb} firewall rules: prevResult is missing`,
    details:
      "firewall must be called as chained plugin: it filters packets of a container that an earlier plugin connected",
  })
})
