import { expect, test } from "bun:test"
import { fail, outside, pingOnce, succeed } from "../lab/mod.ts"
import { expectAnswer, FirewallLab } from "./firewall-lab.ts"

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

test("CHECK says when a table is dormant, and ADD of any container repairs it", async () => {
  await using lab = await FirewallLab.create()
  const [pod, other] = [await lab.addPod({ policy: "isolated" }), await lab.addPod({ policy: "isolated" })]
  const complete = await lab.nftables()
  for (const family of ["inet", "bridge"]) {
    const table = `table ${family} cni_firewall`
    await lab.host.exec("nft", ["-f", "-"], { input: `add ${table} { flags dormant; }\n` })
    expect((await fail(pod.firewall.check(pod.result))).msg).toContain('cni_firewall with "flags dormant"')
    await succeed(other.allow())
    expect(await pingOnce(pod.namespace, other.ip)).toBe(false)
  }
  expect(await lab.nftables()).toBe(complete)
})
