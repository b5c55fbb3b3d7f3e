import { test } from "bun:test"
import { askEcho, EchoPeer, expectNoEcho, ruleBackends, succeed, uplink } from "../lab/mod.ts"
import { dropForwarded, FirewallLab, testEach } from "./firewall-lab.ts"

for (const order of ["portmap, firewall", "firewall, portmap"] as const) {
  testEach(`a published port is reached, also from its own container, with ${order}`, async (lab) => {
    const pod = await lab.connectPod({ policy: "same-bridge" })
    const portmap = pod.portmap(lab)
    const steps = [() => succeed(portmap.run("ADD")), () => succeed(pod.allow())]
    for (const step of order.startsWith("portmap") ? steps : steps.reverse()) await step()
    await using _server = await EchoPeer.start(pod.namespace, { port: 80 })
    const other = await lab.addPod({ policy: "same-bridge" })
    for (const from of [lab.outside, lab.host, pod.namespace, other.namespace]) {
      await askEcho(from, { transport: "tcp", address: uplink.ip, port: 8080 })
    }
    const stranger = await lab.addPod({ network: 2, policy: "same-bridge" })
    await expectNoEcho(stranger.namespace, { transport: "tcp", address: uplink.ip, port: 8080 })
  })

  test(`nftables: a published port is reached from outside where iptables drops what it forwards, with ${order}`, async () => {
    await using lab = await FirewallLab.create({ ...ruleBackends[0], iptables: "nf_tables" })
    await dropForwarded(lab)
    const pod = await lab.connectPod()
    const portmap = pod.portmap(lab)
    const steps = [() => succeed(portmap.run("ADD")), () => succeed(pod.allow())]
    for (const step of order.startsWith("portmap") ? steps : steps.reverse()) await step()
    await using _server = await EchoPeer.start(pod.namespace, { port: 80 })
    await askEcho(lab.outside, { transport: "tcp", address: uplink.ip, port: 8080 })
    await expectNoEcho(lab.outside, { transport: "tcp", address: pod.ip, port: 80 }) // only the host's port is published
  })
}
