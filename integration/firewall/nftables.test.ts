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
