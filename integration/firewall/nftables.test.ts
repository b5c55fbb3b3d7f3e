import { expect, test } from "bun:test"
import { expectUnchanged, fail, outside, pingOnce, succeed, takeSnapshot } from "../lab/mod.ts"
import { expectAnswer, type FirewalledPod, FirewallLab } from "./firewall-lab.ts"

/** The elements of a set, as lines. */
async function elementsOf({ host }: FirewallLab, set: string, family = "inet"): Promise<string[]> {
  const { stdout } = await host.exec("nft", ["list", "set", family, "cni_firewall", set])
  const [, elements = ""] = /elements = \{([^}]*)\}/.exec(stdout) ?? []
  return elements
    .split(",")
    .map((line) => line.trim())
    .filter(Boolean)
    .sort()
}

/** The same of a map, whose values have commas of their own nowhere. */
async function within({ host }: FirewallLab): Promise<string> {
  return (await host.exec("nft", ["list", "map", "inet", "cni_firewall", "within"])).stdout
}

test("elements have owners: addresses, ports, and the policies they ask for; a second ADD changes nothing", async () => {
  await using lab = await FirewallLab.create()
  const pod = await lab.addPod({ policy: "isolated" })
  const [, port] = pod.result.interfaces.map(({ name }) => name)
  const owner = pod.owner()
  expect(await elementsOf(lab, "containers")).toEqual([`${pod.ip} comment "${owner}"`])
  expect(await elementsOf(lab, "containers6")).toEqual([`${pod.ip6} comment "${owner}"`])
  expect(await elementsOf(lab, "isolated")).toEqual([`"br1" . "${port}" comment "${owner}"`])
  expect(await elementsOf(lab, "isolated", "bridge")).toEqual([`"${port}" comment "${owner}"`])
  expect(await elementsOf(lab, "policed")).toEqual(['"br1" comment "isolated"'])
  expect(await within(lab)).toContain('"br1" . "br1" comment "isolated" : drop')
  const before = await lab.nftables()
  await succeed(pod.allow())
  expect(await lab.nftables()).toBe(before)
})

test("the table goes with the last container, in any order of the DELs, however little they are told", async () => {
  await using lab = await FirewallLab.create()
  const pods: FirewalledPod[] = []
  for (const policy of ["isolated", "same-bridge", "open"] as const) {
    pods.push(await lab.addPod({ policy, network: pods.length + 1 }))
  }
  for (const pod of pods) {
    expect(await lab.nftables()).toContain("table inet cni_firewall")
    const broken = { prevResult: undefined, ingressPolicy: 7, backend: "none", iptablesAdminChainName: "a b" }
    await succeed(pod.firewall.run("DEL", broken, { netns: "" }))
  }
  expect(await lab.nftables()).not.toContain("cni_firewall")
})

test("an administrator's chain in the table is heeded, and stays with its rules when all containers are gone", async () => {
  await using lab = await FirewallLab.create()
  const [pod, own] = [
    await lab.addPod(),
    await lab.addPod({ network: 2, firewall: { iptablesAdminChainName: "SITE" } }),
  ]
  await lab.host.exec("nft", ["add", "rule", "inet", "cni_firewall", "CNI-ADMIN", "ip", "saddr", pod.ip, "drop"])
  expect(await pingOnce(pod.namespace, outside.ip)).toBe(false)
  await expectAnswer(own.namespace, outside.ip)
  await lab.host.exec("nft", ["add", "rule", "inet", "cni_firewall", "SITE", "ip", "daddr", outside.ip, "drop"])
  expect(await pingOnce(own.namespace, outside.ip)).toBe(false)
  await pod.firewall.del()
  await own.firewall.del()
  const kept = await lab.nftables()
  expect(kept).toContain(`ip saddr ${pod.ip} drop`)
  expect(kept).not.toContain(pod.owner())
  const next = await lab.addPod({ network: 3 })
  expect(await pingOnce(next.namespace, outside.ip)).toBe(false)
  await expectAnswer(next.namespace, outside.ip6)
})

test("an administrator's chain that was there before the first container is taken as it is", async () => {
  await using lab = await FirewallLab.create()
  const rules = `table inet cni_firewall { chain CNI-ADMIN { ip daddr ${outside.ip} drop; }\n}\n`
  await lab.host.exec("nft", ["-f", "-"], { input: rules })
  const pod = await lab.addPod()
  expect(await pingOnce(pod.namespace, outside.ip)).toBe(false)
  expect(await pod.firewall.check(pod.result)).toMatchObject({ exitCode: 0 })
})

test("rules in the table's own chains that are not ours, and missing ones, are put right by the next ADD", async () => {
  await using lab = await FirewallLab.create()
  const pod = await lab.addPod()
  const complete = await lab.nftables()
  await lab.host.exec("nft", ["flush", "chain", "inet", "cni_firewall", "forward"])
  await lab.host.exec("nft", ["add", "rule", "inet", "cni_firewall", "admit", "drop"])
  expect((await fail(pod.firewall.check(pod.result))).msg).toContain("Cannot find the firewall rules of net1/")
  await succeed(pod.allow())
  expect(await lab.nftables()).toBe(complete)
})

/** Ways to damage what ADD has made, by `nft`. */
const damages = [
  ["an address is gone", "delete element inet cni_firewall containers { 10.1.0.2 }", "10.1.0.2 comment"],
  ["an IPv6 address is gone", "delete element inet cni_firewall containers6 { fd00:1::2 }", "fd00:1::2 comment"],
  ["the bridge is let go", "delete element inet cni_firewall policed { br1 }", "in force on bridge"],
  ["what happens on the bridge is gone", "delete element inet cni_firewall within { br1 . br1 }", "in force on bridge"],
  ["it is asked for no more", "flush set inet cni_firewall same_bridge", "policy same-bridge for bridge"],
  ["a rule is gone", "flush chain inet cni_firewall allow", "the rules of table"],
  ["the table is dormant", "add table inet cni_firewall { flags dormant; }", 'cni_firewall with "flags dormant"'],
] as const

test.each(damages)("CHECK says when %s, and ADD repairs it", async (_, command, says) => {
  await using lab = await FirewallLab.create()
  const pod = await lab.addPod({ policy: "same-bridge" })
  const complete = await lab.nftables()
  await lab.host.exec("nft", ["-f", "-"], { input: `${command}\n` })
  expect((await fail(pod.firewall.check(pod.result))).msg).toContain(says)
  await succeed(pod.allow())
  expect(await pod.firewall.check(pod.result)).toMatchObject({ exitCode: 0 })
  expect(await lab.nftables()).toBe(complete)
})

test("CHECK says when the ports of a bridge are not apart any more, and ADD repairs it", async () => {
  await using lab = await FirewallLab.create()
  const [pod, other] = [await lab.addPod({ policy: "isolated" }), await lab.addPod({ policy: "isolated" })]
  const complete = await lab.nftables()
  for (const [command, found] of [
    ["flush set bridge cni_firewall isolated", "none"],
    ["delete table bridge cni_firewall", "none"],
    ["add table bridge cni_firewall { flags dormant; }", 'table bridge cni_firewall with "flags dormant"'],
  ]) {
    await lab.host.exec("nft", ["-f", "-"], { input: `${command}\n` })
    expect((await fail(pod.firewall.check(pod.result))).msg).toContain(
      `in set bridge cni_firewall isolated; found ${found}`,
    )
    await succeed(other.allow())
    expect(await pingOnce(pod.namespace, other.ip)).toBe(false)
  }
  expect((await lab.nftables()).split("\n").sort()).toEqual(complete.split("\n").sort())
})

test("CHECK of another policy than that of ADD fails", async () => {
  await using lab = await FirewallLab.create()
  const pod = await lab.addPod({ policy: "same-bridge" })
  const { msg } = await fail(pod.firewall.check(pod.result, { ingressPolicy: "isolated" }))
  expect(msg).toContain('expected policy isolated for bridge "br1"; found same-bridge')
})

test("GC removes what belongs to no valid attachment of its network: addresses, ports, and the bridge's policy", async () => {
  await using lab = await FirewallLab.create()
  const policy = "isolated"
  const [valid, other] = [await lab.addPod(), await lab.addPod({ network: 2, policy })]
  const before = await lab.nftables()
  const stale = [await lab.addPod({ name: "net1", network: 3, policy }), await lab.addPod()]
  const attachments = [{ containerID: valid.namespace.name, ifname: "eth0" }]
  await succeed(valid.firewall.run("GC", { "cni.dev/valid-attachments": attachments, prevResult: undefined }))
  expect(await lab.nftables()).toBe(before)
  expect(await other.firewall.check(other.result)).toMatchObject({ exitCode: 0 })
  for (const pod of stale) await fail(pod.firewall.check(pod.result))
})

test("two networks may have one address: it is let through until the last of them is gone", async () => {
  await using lab = await FirewallLab.create()
  const pod = await lab.addPod()
  const other = await lab.connectPod({ network: 2 })
  await succeed(other.allow({ prevResult: pod.result }))
  expect(await other.firewall.check(pod.result)).toMatchObject({ exitCode: 0 })
  await pod.firewall.del()
  expect(await elementsOf(lab, "containers")).toEqual([`${pod.ip} comment "${other.owner("net2")}"`])
  await other.firewall.del()
  expect(await lab.nftables()).not.toContain("cni_firewall")
})

test("an address that the network gives to another container becomes that one's; the late DEL of the first leaves it", async () => {
  await using lab = await FirewallLab.create()
  const [first, next] = [await lab.addPod(), await lab.connectPod()]
  await succeed(next.allow({ prevResult: first.result }))
  await first.firewall.del()
  expect(await elementsOf(lab, "containers")).toEqual([`${first.ip} comment "${next.owner()}"`])
})

test("a result without addresses, or with those of the container alone, is passed on", async () => {
  await using lab = await FirewallLab.create()
  const pod = await lab.connectPod()
  const empty = { ...pod.result, ips: [] }
  expect((await succeed(pod.allow({ prevResult: empty, ingressPolicy: "isolated" }))).json).toMatchObject({
    interfaces: empty.interfaces,
  })
  expect(await lab.nftables()).not.toContain("cni_firewall")
  const inside = { ...pod.result, interfaces: pod.result.interfaces.filter(({ sandbox }) => sandbox) }
  const ips = pod.result.ips.map(({ address }) => ({ address, interface: 0 }))
  await succeed(pod.allow({ prevResult: { ...inside, ips } })) // as of macvlan
  const { code, msg } = await fail(pod.allow({ prevResult: { ...inside, ips }, ingressPolicy: "isolated" }))
  expect({ code, msg }).toMatchObject({
    code: 7,
    msg: expect.stringContaining('Cannot apply ingressPolicy "isolated"'),
  })
})

/** Answers are as the versions have them. */
test.each(["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])("version %s is served", async (cniVersion) => {
  await using lab = await FirewallLab.create()
  const pod = await lab.connectPod()
  const ips = pod.result.ips.map((ip) => ({
    ...ip,
    ...(/^0/.test(cniVersion) && { version: ip.address.includes(":") ? "6" : "4" }),
  }))
  const prevResult = { ...pod.result, cniVersion, ips, dns: {} }
  const { json } = await succeed(pod.allow({ cniVersion, prevResult }))
  expect(json).toMatchObject({ cniVersion, ips })
  await succeed(pod.firewall.run("DEL", { cniVersion, prevResult: undefined }))
  expect(await lab.nftables()).not.toContain("cni_firewall")
})

test("an ADD that fails after its rules were written leaves none", async () => {
  await using lab = await FirewallLab.create()
  await lab.addPod({ policy: "isolated" })
  const pod = await lab.connectPod({ policy: "same-bridge", network: 2 })
  const before = await takeSnapshot(lab.host)
  const output = await pod.firewall.run("ADD", {}, { under: ["sh", "-c", 'exec "$0" >/dev/full'] })
  expect(output.exitCode).not.toBe(0)
  expectUnchanged(before, await takeSnapshot(lab.host))
})
