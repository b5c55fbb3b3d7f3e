import { expect, test } from "bun:test"
import { askEcho, EchoPeer, succeed } from "../lab/mod.ts"
import { dropForwarded, FirewallLab, firewallBackends, hostIp, testEach } from "./firewall-lab.ts"

for (const order of ["portmap, firewall", "firewall, portmap"] as const) {
  testEach(`a published port is reached, also from its own container, with ${order}`, async (lab) => {
    const pod = await lab.connectPod({ policy: "same-bridge" })
    const portmap = pod.portmap(lab)
    const steps = [() => succeed(portmap.run("ADD")), () => succeed(pod.allow())]
    for (const step of order.startsWith("portmap") ? steps : steps.reverse()) await step()
    await using _server = await EchoPeer.start(pod.namespace, { port: 80 })
    const other = await lab.addPod({ policy: "same-bridge" })
    for (const from of [lab.outside, lab.host, pod.namespace, other.namespace]) {
      await askEcho(from, { transport: "tcp", address: hostIp, port: 8080 })
    }
    const stranger = await lab.addPod({ network: 2, policy: "same-bridge" })
    const asked = askEcho(stranger.namespace, { transport: "tcp", address: hostIp, port: 8080, deadlineMs: 300 })
    await expect(asked).rejects.toThrow("ended with exit code 1")
  })

  test(`nftables: a published port is reached from outside where iptables drops what it forwards, with ${order}`, async () => {
    await using lab = await FirewallLab.create({ ...firewallBackends[0], iptables: "nf_tables" })
    await dropForwarded(lab)
    const pod = await lab.connectPod()
    const portmap = pod.portmap(lab)
    const steps = [() => succeed(portmap.run("ADD")), () => succeed(pod.allow())]
    for (const step of order.startsWith("portmap") ? steps : steps.reverse()) await step()
    await using _server = await EchoPeer.start(pod.namespace, { port: 80 })
    const ask = (address: string, port: number) =>
      askEcho(lab.outside, { transport: "tcp", address, port, deadlineMs: 500 })
    await ask(hostIp, 8080)
    await expect(ask(pod.ip, 80)).rejects.toThrow("ended with exit code 1") // published is the host's port
  })
}
