/** Tests public bug reports about chained plugins: the reported steps, and the required outcome. */
import { expect, test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  fail,
  HostNamespace,
  newest,
  portOf,
  readSysctl,
  succeed,
  testWith,
} from "../lab/mod.ts"
import { rulesOf, twoNetworks } from "../sbr/sbr-lab.ts"

testWith(
  ["tbf", "ifb"],
  "plugins#242: bandwidth limits behind results without sandboxes, interface indexes or interfaces",
  async () => {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    const result = await new Attachment(host, pod, bridgeNetwork()).add()
    const ips = result.ips.map(({ interface: _, ...ip }) => ip)
    const bare = {
      "without sandboxes": { ...result, interfaces: result.interfaces.map(({ sandbox: _, ...link }) => link) },
      "without indexes": { ...result, ips },
      "without interfaces": { ...result, interfaces: undefined, ips },
    }
    for (const [what, prevResult] of Object.entries(bare)) {
      const limits = { ingressRate: 8_000_000, ingressBurst: 800_000, egressRate: 8_000_000, egressBurst: 800_000 }
      const config = { cniVersion: newest, name: "lab", type: "bandwidth", ...limits, prevResult }
      const attachment = new Attachment(host, pod, config)
      const { exitCode } = await attachment.run("ADD")
      const { stdout } = await host.exec("tc", ["qdisc", "show", "dev", portOf(result)])
      expect([what, exitCode, stdout.includes("tbf")]).toEqual([what, 0, true])
      await attachment.del()
    }
  },
)

test("plugins#542: sbr refuses a result whose addresses are the host end's, and takes one without indexes", async () => {
  const { host, pod, prevResult, sbr } = await twoNetworks()
  await using _ = host
  const at = prevResult.interfaces.findIndex(({ sandbox }) => !sandbox)
  const wrong = { ...prevResult, ips: prevResult.ips.map((ip) => ({ ...ip, interface: at })) }
  expect((await fail(sbr.run("ADD", { prevResult: wrong }))).msg).toContain("No IP addresses supplied")
  expect(await rulesOf(pod)).toEqual([])
  const bare = { ...prevResult, ips: prevResult.ips.map(({ interface: _, ...ip }) => ip) }
  await succeed(sbr.run("ADD", { prevResult: bare }))
  expect(await rulesOf(pod)).toEqual(["10.2.0.2 100", "fd00:2::2 101"])
})

test("plugins#779: sysctls of an interface with a dot in its name are set in each form, and set back", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const ifName = "net1.100"
  const prevResult = await new Attachment(host, pod, bridgeNetwork(), { ifName }).add()
  const forms = [
    "net/ipv4/conf/net1.100/arp_filter",
    "net.ipv4.conf.net1/100.arp_filter",
    "net.ipv4.conf.IFNAME.arp_filter",
  ]
  for (const form of [...forms, "net/ipv4/conf/IFNAME/arp_filter"]) {
    const config = { cniVersion: newest, name: "lab", type: "tuning", sysctl: { [form]: "1" }, prevResult }
    const tuning = new Attachment(host, pod, config, { ifName })
    await tuning.add()
    expect([form, await readSysctl(pod, `net/ipv4/conf/${ifName}/arp_filter`)]).toEqual([form, "1"])
    expect(await tuning.check(prevResult)).toMatchObject({ exitCode: 0 })
    await tuning.del()
    expect(await readSysctl(pod, `net/ipv4/conf/${ifName}/arp_filter`)).toBe("0")
  }
})
