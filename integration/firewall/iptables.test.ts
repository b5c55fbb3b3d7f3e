import { expect, test } from "bun:test"
import { join } from "node:path"
import { between, endedBefore, useBetween } from "../faults/between.ts"
import {
  builtPlugins,
  chooseIptables,
  expectUnchanged,
  fail,
  outside,
  pingOnce,
  pluginEnv,
  ruleBackends,
  succeed,
  takeSnapshot,
} from "../lab/mod.ts"
import { expectAnswer, FirewallLab } from "./firewall-lab.ts"

useBetween()

/** Returns the rules of a chain for IPv4. */
async function rulesOf({ host }: FirewallLab, chain: string, program = "iptables"): Promise<string[]> {
  const { stdout } = await host.tryExec(program, ["-S", chain])
  return stdout.split("\n").filter((line) => line.startsWith("-A"))
}

/** Defines a test for both kinds of iptables. */
function testBoth(name: string, run: (lab: FirewallLab) => Promise<void>): void {
  for (const backend of ruleBackends.slice(1)) {
    test(`${backend.name}: ${name}`, async () => {
      await using lab = await FirewallLab.create(backend)
      await run(lab)
    })
  }
}

const jump = '-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD'
const admin = '-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN'
const both = '"CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)"'
const stage = `-A FORWARD -m comment --comment ${both} -j CNI-ISOLATION-STAGE-1`
const accepts = (ip: string) => [
  `-A CNI-FORWARD -d ${ip} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
  `-A CNI-FORWARD -s ${ip} -j ACCEPT`,
]

testBoth("rules are upstream's, in its order, for both families; a second ADD changes nothing", async (lab) => {
  const pod = await lab.addPod({ policy: "isolated" })
  expect(await rulesOf(lab, "FORWARD")).toEqual([stage, jump])
  expect(await rulesOf(lab, "CNI-FORWARD")).toEqual([admin, ...accepts(`${pod.ip}/32`)])
  expect(await rulesOf(lab, "CNI-FORWARD", "ip6tables")).toEqual([admin, ...accepts(`${pod.ip6}/128`)])
  const own = '--comment "CNI firewall plugin rules (ingressPolicy: isolated)"'
  expect(await rulesOf(lab, "CNI-ISOLATION-STAGE-1")).toEqual([
    `-A CNI-ISOLATION-STAGE-1 -i br1 -o br1 -m comment ${own} -j DROP`,
    `-A CNI-ISOLATION-STAGE-1 -i br1 ! -o br1 -m comment ${own} -j CNI-ISOLATION-STAGE-2`,
    `-A CNI-ISOLATION-STAGE-1 -m comment --comment ${both} -j RETURN`,
  ])
  expect(await rulesOf(lab, "CNI-ISOLATION-STAGE-2")).toEqual([
    `-A CNI-ISOLATION-STAGE-2 -o br1 -m comment --comment ${both} -j DROP`,
    `-A CNI-ISOLATION-STAGE-2 -m comment --comment ${both} -j RETURN`,
  ])
  expect(await rulesOf(lab, "CNI-FIREWALL-OWNERS")).toEqual([
    `-A CNI-FIREWALL-OWNERS -s ${pod.ip}/32 -m comment --comment "${pod.owner()} isolated br1"`,
  ])
  const before = await lab.iptables()
  await succeed(pod.allow())
  const withoutTimes = (text: string) => text.replace(/^#.*$/gm, "").replace(/\[\d+:\d+\]/g, "")
  expect(withoutTimes(await lab.iptables())).toBe(withoutTimes(before))
  expect(await pod.firewall.check(pod.result)).toMatchObject({ exitCode: 0, stdout: "" })
})

testBoth(
  "DEL takes the container's rules and, with the last, the policy's; shared chains stay as upstream's do",
  async (lab) => {
    const policy = "same-bridge"
    for (const network of [1, 2]) await (await lab.addPod({ policy, network })).remove()
    const before = await takeSnapshot(lab.host)
    const pods = [await lab.addPod({ policy }), await lab.addPod({ policy }), await lab.addPod({ network: 2, policy })]
    for (const pod of pods) await pod.firewall.del({ prevResult: undefined, backend: undefined }, { netns: "" })
    for (const pod of pods) await pod.link.del()
    const isShared = ({ section }: { section: string }) => section === "/var/lib/cni" || section === "links"
    expectUnchanged(before, await takeSnapshot(lab.host), isShared)
    expect(await rulesOf(lab, "FORWARD")).toEqual([stage, jump])
    expect(await rulesOf(lab, "CNI-FORWARD")).toEqual([admin])
  },
)

testBoth("the order is put right by every ADD: policies, then the administrator, then what accepts", async (lab) => {
  const a = await lab.addPod({ policy: "same-bridge" })
  await lab.host.exec("iptables", ["-F", "FORWARD"])
  for (const [words, chain] of [
    ["CNI firewall plugin rules", "CNI-FORWARD"],
    ["CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)", "CNI-ISOLATION-STAGE-1"],
  ] as const) {
    await lab.host.exec("iptables", ["-A", "FORWARD", "-m", "comment", "--comment", words, "-j", chain])
  }
  await lab.host.exec("iptables", ["-I", "CNI-FORWARD", "-s", "192.0.2.1", "-j", "ACCEPT"])
  await lab.host.exec("iptables", ["-A", "CNI-ISOLATION-STAGE-1", "-i", "other", "-j", "DROP"])
  expect((await fail(a.firewall.check(a.result))).msg).toContain("before")
  await lab.addPod({ network: 2, policy: "same-bridge" })
  expect(await rulesOf(lab, "FORWARD")).toEqual([stage, jump])
  expect((await rulesOf(lab, "CNI-FORWARD"))[0]).toBe(admin)
  expect((await rulesOf(lab, "CNI-ISOLATION-STAGE-1")).at(-1)).toEndWith("-j RETURN")
  expect(await a.firewall.check(a.result)).toMatchObject({ exitCode: 0 })
})

testBoth("the administrator's chain goes before what accepts, under the name that is asked for", async (lab) => {
  const pod = await lab.addPod({ firewall: { iptablesAdminChainName: "SITE-ADMIN" } })
  await expectAnswer(pod.namespace, outside.ip)
  await lab.host.exec("iptables", ["-A", "SITE-ADMIN", "-s", pod.ip, "-j", "DROP"])
  expect(await pingOnce(pod.namespace, outside.ip)).toBe(false)
})

testBoth("a late DEL leaves the address to the container that has it by then", async (lab) => {
  const [first, next] = [await lab.addPod(), await lab.connectPod()]
  await succeed(next.allow({ prevResult: first.result }))
  await first.firewall.del()
  expect(await rulesOf(lab, "CNI-FORWARD")).toEqual([admin, ...accepts(`${first.ip}/32`)])
  await next.firewall.del()
  expect(await rulesOf(lab, "CNI-FORWARD")).toEqual([admin])
})

/** A script that removes the IPv6 programs from Debian's choices. */
const onlyIpv4 = `
  mount -t tmpfs cni-test /etc/alternatives
  for name in iptables iptables-save iptables-restore; do
    ln -s /usr/sbin/iptables-nft\${name#iptables} /etc/alternatives/$name
  done`

test("iptables: a host without ip6tables serves containers that have IPv4 alone, and says what it lacks for others", async () => {
  await using lab = await FirewallLab.create(ruleBackends[1])
  await lab.host.exec("sh", ["-ec", onlyIpv4])
  const policy = "same-bridge"
  const pod = await lab.addPod({ isIpv4Only: true, policy })
  expect(await rulesOf(lab, "CNI-FORWARD")).toEqual([admin, ...accepts(`${pod.ip}/32`)])
  expect(await pod.firewall.check(pod.result)).toMatchObject({ exitCode: 0 })
  const dualStack = await lab.connectPod({ network: 2, policy })
  expect((await fail(dualStack.allow())).msg).toContain('Cannot find the programs "ip6tables-save"')
  await pod.remove()
  expect(await rulesOf(lab, "CNI-FORWARD")).toEqual([admin])
})

test("iptables: without its programs ADD and STATUS say so, and what was made by them is deleted all the same", async () => {
  await using lab = await FirewallLab.create(ruleBackends[1])
  const [pod, next] = [await lab.addPod({ policy: "isolated" }), await lab.connectPod()]
  await chooseIptables(lab.host, "none")
  expect((await fail(next.allow())).msg).toContain('Cannot find the programs "iptables-save"')
  expect((await fail(next.firewall.run("STATUS"))).code).toBe(50)
  await pod.firewall.del()
  await chooseIptables(lab.host, "nf_tables")
  expect(await rulesOf(lab, "CNI-FORWARD")).toEqual([admin])
  expect(await lab.iptables()).not.toContain("br1")
})

test("iptables: a family that fails takes the other one's rules back", async () => {
  await using lab = await FirewallLab.create(ruleBackends[1])
  const settled = await lab.addPod()
  await settled.firewall.del()
  const pod = await lab.connectPod()
  const before = await takeSnapshot(lab.host)
  // An nf_tables base chain with this name, which iptables cannot read as a chain.
  await lab.host.exec("nft", ["add", "chain", "ip6", "filter", "SITE", "{ type filter hook input priority 0; }"])
  await fail(pod.allow({ iptablesAdminChainName: "SITE" }))
  await lab.host.exec("nft", ["delete", "chain", "ip6", "filter", "SITE"])
  const isShared = ({ line }: { line: string }) => line.includes("SITE")
  expectUnchanged(before, await takeSnapshot(lab.host), isShared)
})

testBoth("an ADD has its policy's rule whenever the last DEL that shares the rule comes in between", async (lab) => {
  const keys = { policy: "same-bridge", isIpv4Only: true } as const
  const [leaving, coming] = [await lab.connectPod(keys), await lab.connectPod(keys)]
  const bin = join(builtPlugins, "firewall")
  const { name: containerId, path: netns } = leaving.namespace
  const env = pluginEnv({ bin, verb: "DEL", containerId, netns, ifName: "eth0" })
  const words = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const del = `env ${words.join(" ")} ${bin} <<'END'\n${JSON.stringify(leaving.firewall.config)}\nEND`
  let tried = 0
  for (let nth = 1, hasEnded = false; !hasEnded; nth += 4) {
    await succeed(leaving.allow())
    const output = await coming.firewall.run("ADD", {}, { under: between(nth, "run", del) })
    hasEnded = output.exitCode === endedBefore
    if (hasEnded) await leaving.firewall.del()
    else await succeed(Promise.resolve(output))
    const own = '-i br1 ! -o br1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge)"'
    const rule = `-A CNI-ISOLATION-STAGE-1 ${own} -j CNI-ISOLATION-STAGE-2`
    expect({ nth, rules: await rulesOf(lab, "CNI-ISOLATION-STAGE-1") }).toEqual({
      nth,
      rules: expect.arrayContaining([rule]),
    })
    await coming.firewall.del()
    tried++
  }
  expect(tried).toBeGreaterThan(20)
})
