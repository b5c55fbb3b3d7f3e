import { describe, expect, test } from "bun:test"
import { chooseIptables, expectUnchanged, fail, pingOnce, succeed, takeSnapshot } from "../lab/mod.ts"
import { dropForwarded, expectAnswer, FirewallLab, firewallBackends, outside, testEach } from "./firewall-lab.ts"

/** The kinds of iptables that drop what nf_tables' own table lets through. */
const droppers = ["nf_tables", "legacy"] as const

async function labWith(kind: (typeof droppers)[number]): Promise<FirewallLab> {
  return FirewallLab.create({ ...firewallBackends[0], iptables: kind })
}

for (const kind of droppers) {
  describe(`nftables, on a host where iptables (${kind}) drops what it forwards`, () => {
    test("a container gets out with firewall, and not without; its neighbour answers; nothing else comes in", async () => {
      await using lab = await labWith(kind)
      await lab.passBridgedPackets(true)
      await dropForwarded(lab)
      const [bare, pod, other] = [await lab.connectPod(), await lab.addPod(), await lab.addPod()]
      expect(await pingOnce(bare.namespace, outside.ip)).toBe(false)
      await expectAnswer(pod.namespace, outside.ip)
      await expectAnswer(pod.namespace, outside.ip6)
      await expectAnswer(pod.namespace, other.ip)
      expect(await pingOnce(lab.outside, pod.ip)).toBe(false)
    })

    test("policies hold", async () => {
      await using lab = await labWith(kind)
      await dropForwarded(lab)
      const policy = "same-bridge"
      const [a, b] = [await lab.addPod({ policy }), await lab.addPod({ network: 2, policy })]
      expect(await pingOnce(a.namespace, b.ip)).toBe(false)
      await expectAnswer(a.namespace, outside.ip)
    })

    test("one rule is for all containers, behind the administrator's, and what is flushed the next ADD brings back", async () => {
      await using lab = await labWith(kind)
      await dropForwarded(lab)
      const [a, b] = [await lab.addPod(), await lab.addPod()]
      const rules = (await lab.iptables()).split("\n").filter((line) => line.startsWith("-A CNI-FORWARD"))
      const one = [
        '-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN',
        '-A CNI-FORWARD -m comment --comment "CNI firewall plugin, backend nftables" -m mark --mark 0x1000/0x1000 -j ACCEPT',
      ]
      expect(rules).toEqual([...one, ...one]) // of each family
      expect(await a.firewall.check(a.result)).toMatchObject({ exitCode: 0, stdout: "" })
      await lab.host.exec("iptables", ["-F", "FORWARD"])
      expect(await pingOnce(a.namespace, outside.ip)).toBe(false)
      expect((await fail(a.firewall.check(a.result))).msg).toContain("Cannot find the way through table ip filter")
      await succeed(b.allow())
      await expectAnswer(a.namespace, outside.ip)
      expect(await a.firewall.check(a.result)).toMatchObject({ exitCode: 0 })
    })

    test("docker that comes after the container is noticed by CHECK, and by the next ADD", async () => {
      await using lab = await labWith(kind)
      const pod = await lab.addPod()
      await dropForwarded(lab)
      expect(await pingOnce(pod.namespace, outside.ip)).toBe(false)
      await fail(pod.firewall.check(pod.result))
      await lab.addPod({ network: 2 })
      await expectAnswer(pod.namespace, outside.ip)
    })

    test("a chain that ends in REJECT lets containers through, too", async () => {
      await using lab = await labWith(kind)
      await lab.host.exec("iptables", ["-A", "FORWARD", "-j", "REJECT"])
      const pod = await lab.addPod()
      await expectAnswer(pod.namespace, outside.ip)
    })

    test("the administrator's rules in iptables are heeded", async () => {
      await using lab = await labWith(kind)
      await lab.host.exec("iptables", ["-N", "CNI-ADMIN"])
      await lab.host.exec("iptables", ["-A", "CNI-ADMIN", "-d", outside.ip, "-j", "DROP"])
      const pod = await lab.addPod()
      expect(await pingOnce(pod.namespace, outside.ip)).toBe(false)
      await expectAnswer(lab.outside, pod.ip6)
    })
  })
}

test("nftables: without the programs of iptables ADD says which rule is missing, and CHECK too", async () => {
  await using lab = await labWith("nf_tables")
  await dropForwarded(lab)
  await chooseIptables(lab.host, "none")
  const pod = await lab.connectPod()
  const { stderr } = await succeed(pod.allow())
  expect(stderr).toContain("Cannot find the way through table ip filter: expected rule")
  await fail(pod.firewall.check(pod.result))
  await pod.firewall.del()
})

test("nftables: an administrator's own filter goes by the mark", async () => {
  await using lab = await FirewallLab.create()
  const rules = `table inet site {
  chain forward {
    type filter hook forward priority filter; policy drop; meta mark & 0x1000 == 0x1000 accept
  }
}`
  await lab.host.exec("nft", ["-f", "-"], { input: rules })
  const [bare, pod] = [await lab.connectPod(), await lab.addPod()]
  await expectAnswer(pod.namespace, outside.ip)
  expect(await pingOnce(bare.namespace, outside.ip)).toBe(false)
})

test("nftables: the mark is gone when the packet leaves", async () => {
  await using lab = await FirewallLab.create()
  const counter = `table inet site {
    counter marked { }
    chain after {
      type filter hook postrouting priority -300
      meta mark & 0x1000 != 0 counter name marked
    }
  }`
  await lab.host.exec("nft", ["-f", "-"], { input: counter })
  const pod = await lab.addPod()
  await expectAnswer(pod.namespace, outside.ip)
  const { stdout } = await lab.host.exec("nft", ["list", "counters"])
  expect(stdout).toContain("packets 0 bytes 0")
})

testEach("on a host that drops what it forwards a container gets out, and DEL ends that", async (lab) => {
  if (lab.backend.iptables === "none") await chooseIptables(lab.host, "nf_tables")
  await dropForwarded(lab)
  const settled = await lab.addPod()
  await settled.firewall.del()
  const before = await takeSnapshot(lab.host)
  const pod = await lab.addPod()
  await expectAnswer(pod.namespace, outside.ip)
  await pod.firewall.del()
  expect(await pingOnce(pod.namespace, outside.ip)).toBe(false)
  await pod.link.del()
  expectUnchanged(before, await takeSnapshot(lab.host), ({ section }) => section === "/var/lib/cni")
})
