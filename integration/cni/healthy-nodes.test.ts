import { expect, test } from "bun:test"
import { askEcho, type ContainerNamespace, chooseIptables, EchoPeer, waitFor } from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"
import { type RuleSet, ruleSets } from "./rule-sets.ts"

async function load(lab: NodeLab, { iptables, nft, setUp }: RuleSet): Promise<void> {
  if (setUp) await lab.host.exec("sh", ["-ec", setUp])
  if (nft) await lab.host.exec("nft", ["-f", "-"], { input: nft })
  if (iptables) await lab.host.exec("iptables-restore", ["--noflush"], { input: iptables })
}

/** Adds another machine on the host's uplink. */
async function addOutside({ host }: NodeLab): Promise<ContainerNamespace> {
  const outside = await host.addContainer()
  await host.exec("ip", ["link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", outside.name])
  await host.exec("ip", ["address", "add", "192.0.2.1/24", "dev", "up0"])
  await host.exec("ip", ["link", "set", "up0", "up"])
  await host.exec("ip", ["route", "add", "default", "via", "192.0.2.2"])
  await outside.exec("ip", ["address", "add", "192.0.2.2/24", "dev", "eth0"])
  await outside.exec("ip", ["link", "set", "eth0", "up"])
  return outside
}

for (const [name, rules] of Object.entries(ruleSets)) {
  test(`${name}: containers reach each other and what is outside, published ports answer, and nothing is found`, async () => {
    await using lab = await NodeLab.create()
    await chooseIptables(lab.host, "nf_tables")
    const outside = await addOutside(lab)
    await load(lab, rules)
    const [client, server] = [await lab.addPod("client"), await lab.addPod("server")]
    await using _server = await EchoPeer.start(server, { port: 80 })
    const answers = async (from: ContainerNamespace, address: string) =>
      (await from.tryExec("ping", ["-c1", "-W1", address])).exitCode === 0
    for (const address of ["10.85.0.1", "10.85.0.3", "192.0.2.2"])
      await waitFor(() => answers(client, address), `${address} to answer a container`)
    expect(await askEcho(outside, { transport: "tcp", address: "192.0.2.1", port: 8002 })).toBeDefined()
    expect(await lab.doctor()).toEqual({ findings: [], stderr: "", exitCode: 0 })
  })
}

test("docker without a rule for the bridge, and with the plugin firewall: nothing is found", async () => {
  const plugins = [...podsNetwork.plugins, { type: "firewall" }]
  await using lab = await NodeLab.create({ ...podsNetwork, plugins })
  await chooseIptables(lab.host, "nf_tables")
  const { docker = {} } = ruleSets
  await load(lab, {
    ...docker,
    iptables: docker.iptables?.replaceAll(/-A DOCKER-USER -[io] cni0 -j ACCEPT\n/g, "") ?? "",
  })
  const outside = await addOutside(lab)
  const pod = await lab.addPod()
  const reaches = async () => (await pod.tryExec("ping", ["-c1", "-W1", "192.0.2.2"])).exitCode === 0
  await waitFor(reaches, `${outside.name} to answer a container`)
  expect(await lab.doctor()).toEqual({ findings: [], stderr: "", exitCode: 0 })
})

test("a lock file that a call of host-local has left is not a finding", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  await lab.host.exec("sh", ["-c", "touch /var/lib/cni/networks/pods/lock /var/lib/cni/locks/old"])
  expect(await lab.doctor()).toEqual({ findings: [], stderr: "", exitCode: 0 })
})
