import { describe, expect, test } from "bun:test"
import {
  chooseIptables,
  expectUnchanged,
  fail,
  outside,
  pingOnce,
  ruleBackends,
  runTraced,
  succeed,
  takeSnapshot,
} from "../lab/mod.ts"
import { dropForwarded, expectAnswer, FirewallLab, testEach } from "./firewall-lab.ts"

/** The kinds of iptables that may drop packets although our nf_tables table accepts them. */
const droppers = ["nf_tables", "legacy"] as const

/** The suites to which the same test applies: this suite and Debian's Go plugin, 1.1.1. */
const suites = [
  ["this suite", {}, {}],
  ["the Go plugins", { backend: "iptables" }, { bin: "/usr/lib/cni/firewall" }],
] as const

/** Changes `FORWARD` as docker does when it starts: its chains come first, and the policy is DROP. */
async function startDocker(lab: FirewallLab): Promise<void> {
  for (const program of ["iptables", "ip6tables"]) {
    const input = [
      "*filter",
      ":DOCKER-USER - [0:0]",
      ":DOCKER-FORWARD - [0:0]",
      "-A DOCKER-FORWARD -i docker0 -j ACCEPT",
      "-I FORWARD -j DOCKER-FORWARD",
      "-I FORWARD -j DOCKER-USER",
      "COMMIT",
      "",
    ].join("\n")
    await lab.host.exec(`${program}-restore`, ["--noflush"], { input })
  }
  await dropForwarded(lab)
}

async function labWith(kind: (typeof droppers)[number]): Promise<FirewallLab> {
  return FirewallLab.create({ ...ruleBackends[0], iptables: kind })
}

for (const kind of droppers) {
  describe(`nftables, on a host where iptables (${kind}) drops what it forwards`, () => {
    test("a container gets out with firewall, and not without; its neighbor answers; nothing else comes in", async () => {
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
      expect(rules).toEqual([...one, ...one]) // for each family
      expect(await a.firewall.check(a.result)).toMatchObject({ exitCode: 0, stdout: "" })
      await lab.host.exec("iptables", ["-F", "FORWARD"])
      expect(await pingOnce(a.namespace, outside.ip)).toBe(false)
      expect((await fail(a.firewall.check(a.result))).msg).toContain(
        "Cannot find the accepting rule in table ip filter",
      )
      await succeed(b.allow())
      await expectAnswer(a.namespace, outside.ip)
      expect(await a.firewall.check(a.result)).toMatchObject({ exitCode: 0 })
    })

    for (const [suite, keys, bin] of suites)
      test(`docker that comes after the containers of ${suite} leaves them their way out`, async () => {
        await using lab = await labWith(kind)
        const [pod, bare] = [await lab.connectPod(), await lab.connectPod()]
        const result = { ...pod.result, cniVersion: "1.0.0" }
        await succeed(pod.firewall.run("ADD", { cniVersion: "1.0.0", ...keys, prevResult: result }, bin))
        await expectAnswer(bare.namespace, outside.ip)
        await startDocker(lab)
        await expectAnswer(pod.namespace, outside.ip)
        await expectAnswer(pod.namespace, outside.ip6)
        await succeed(pod.firewall.run("CHECK", { cniVersion: "1.0.0", ...keys, prevResult: result }, bin))
        expect(await pingOnce(bare.namespace, outside.ip)).toBe(false)
        expect(await pingOnce(lab.outside, pod.ip)).toBe(false)
      })

    test("the rule goes with the last container, also where docker has come in the meantime, and with GC; nothing of this suite stays", async () => {
      await using lab = await labWith(kind)
      const pods = [await lab.addPod(), await lab.addPod({ network: 2 })]
      await startDocker(lab)
      const ours = async () => (await lab.iptables()).match(/^.*CNI-.*$/gm) ?? []
      const rules = await ours()
      expect(rules).toHaveLength(10) // two chains and three rules for each family
      await pods[0]?.firewall.del()
      expect(await ours()).toEqual(rules)
      await expectAnswer(pods[1]?.namespace ?? lab.outside, outside.ip)
      await pods[1]?.firewall.del()
      expect(await ours()).toEqual([])
      expect(await lab.iptables()).toContain("-A FORWARD -j DOCKER-USER")
      const last = await lab.addPod()
      expect(await ours()).toEqual(rules)
      await succeed(last.firewall.run("GC", { "cni.dev/valid-attachments": [], prevResult: undefined }))
      expect(await ours()).toEqual([])
    })

    test("on a host that has used no iptables before, ADD and DEL leave the packet filter as it was", async () => {
      await using lab = await labWith(kind)
      const pod = await lab.connectPod()
      const before = await takeSnapshot(lab.host)
      await succeed(pod.allow())
      await succeed(pod.allow())
      expect((await lab.iptables()).match(/^-A CNI-FORWARD .*ACCEPT$/gm)).toHaveLength(2)
      await pod.firewall.del()
      // Once a program has used the older tables, they stay in the kernel even if they are empty.
      const isEmpty = (line: string) =>
        kind === "legacy" && /^(\*filter|:(INPUT|FORWARD|OUTPUT) ACCEPT|COMMIT)$/.test(line)
      expectUnchanged(before, await takeSnapshot(lab.host), ({ line }) => isEmpty(line))
    })

    test("an administrator's chain with rules, and other rules of upstream's chain, stay when ours goes", async () => {
      await using lab = await labWith(kind)
      const pod = await lab.addPod()
      for (const rule of ["-A CNI-ADMIN -d 192.0.2.1/32 -j DROP", "-A CNI-FORWARD -s 10.9.0.1/32 -j ACCEPT"])
        await lab.host.exec("iptables", rule.split(" "))
      await pod.firewall.del()
      const rules = (await lab.iptables()).match(/^-A .*$/gm)
      expect(rules).toEqual([
        '-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD',
        "-A CNI-ADMIN -d 192.0.2.1/32 -j DROP",
        '-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN',
        "-A CNI-FORWARD -s 10.9.0.1/32 -j ACCEPT",
      ])
    })

    test("a DEL that was killed after its table went is completed by the next one", async () => {
      await using lab = await labWith(kind)
      const pod = await lab.addPod()
      await lab.host.exec("nft", ["delete", "table", "inet", "cni_firewall"])
      expect(await lab.iptables()).toContain("CNI-FORWARD")
      await pod.firewall.del()
      expect(await lab.iptables()).not.toContain("CNI-")
    })

    test("without its table the rule would accept what others mark: CHECK names the table, GC takes the rule, ADD brings both", async () => {
      await using lab = await labWith(kind)
      const pod = await lab.addPod()
      const ours = async () => (await lab.iptables()).match(/^.*CNI-.*$/gm) ?? []
      const [rules, ruleSet] = [await ours(), await lab.nftables()]
      await lab.host.exec("nft", ["delete", "table", "inet", "cni_firewall"])
      expect(await ours()).toEqual(rules)
      expect((await fail(pod.firewall.check(pod.result))).msg).toContain("the rules of table inet cni_firewall")
      const valid = [{ containerID: pod.namespace.name, ifname: "eth0" }]
      await succeed(pod.firewall.run("GC", { "cni.dev/valid-attachments": valid, prevResult: undefined }))
      expect(await ours()).toEqual([])
      await succeed(pod.allow())
      expect([await ours(), await lab.nftables()]).toEqual([rules, ruleSet])
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

test("nftables: without the programs of iptables its chain has the rule all the same, before and after it drops", async () => {
  await using lab = await labWith("nf_tables")
  await chooseIptables(lab.host, "none")
  const pod = await lab.addPod()
  await lab.host.exec("nft", ["chain", "ip", "filter", "FORWARD", "{ policy drop; }"])
  const late = await lab.addPod()
  for (const each of [pod, late]) {
    await expectAnswer(each.namespace, outside.ip)
    await succeed(each.firewall.check(each.result))
  }
  await chooseIptables(lab.host, "nf_tables")
  const rules = (await lab.iptables()).match(/^-A .*$/gm) ?? []
  expect(rules.slice(0, 3)).toEqual([
    '-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD',
    '-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN',
    '-A CNI-FORWARD -m comment --comment "CNI firewall plugin, backend nftables" -m mark --mark 0x1000/0x1000 -j ACCEPT',
  ])
  for (const words of [rules[2], rules[0]]) await lab.host.exec("sh", ["-c", `iptables ${words?.replace("-A", "-C")}`])
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

test("nftables: a packet that another program has given the mark is not let through by it [S47]", async () => {
  await using lab = await labWith("nf_tables")
  const marking = `table inet site {
    chain before {
      type filter hook prerouting priority -300
      meta mark set 0x1001
    }
  }`
  await lab.host.exec("nft", ["-f", "-"], { input: marking })
  const [bare, pod] = [await lab.connectPod(), await lab.addPod()]
  await dropForwarded(lab)
  await expectAnswer(pod.namespace, outside.ip)
  expect(await pingOnce(bare.namespace, outside.ip)).toBe(false)
  expect(await pingOnce(lab.outside, pod.ip)).toBe(false)
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

test("nftables: where the older tables are not in use DEL and GC run no program of iptables", async () => {
  await using lab = await labWith("legacy")
  const pod = await lab.connectPod()
  const programs = async (verb: "ADD" | "DEL" | "GC") => {
    const valid = verb === "GC" ? { "cni.dev/valid-attachments": [], prevResult: undefined } : {}
    const { text } = await runTraced(pod.firewall, verb, ["trace=execve"], { prevResult: pod.result, ...valid })
    return text.match(/execve\("[^"]*ip6?tables[^"]*"/g)?.length ?? 0
  }
  for (const verb of ["DEL", "GC"] as const) expect({ verb, ran: await programs(verb) }).toEqual({ verb, ran: 0 })
  expect(await programs("ADD")).toBeGreaterThan(0)
  expect((await lab.host.exec("cat", ["/proc/thread-self/net/ip_tables_names"])).stdout).toContain("filter")
})
