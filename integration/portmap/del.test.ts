import { expect } from "bun:test"
import {
  askEcho,
  EchoPeer,
  expectNoEcho,
  expectUnchanged,
  type Snapshot,
  succeed,
  takeSnapshot,
  UdpFlow,
  waitFor,
} from "../lab/mod.ts"
import { hostAddresses, type PortmapLab, testEach } from "./portmap-lab.ts"

const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" } as const
const dns = { hostPort: 53, containerPort: 5353, protocol: "udp" } as const
const local = { hostPort: 8081, containerPort: 80, protocol: "tcp", hostIP: hostAddresses.ip } as const

/** Returns the expected final state. With iptables, DEL keeps shared chains and a sysctl, like the Go plugin. */
async function settled(lab: PortmapLab): Promise<Snapshot> {
  if (lab.backend.name !== "nftables") {
    const pod = await lab.addPod()
    await succeed(pod.map([web]))
    await succeed(pod.unmap())
    await pod.link.del()
  }
  return takeSnapshot(lab.host)
}

/** Inputs of DEL with the mappings of ADD, no mappings, other mappings, or invalid mappings. */
const inputs: [object, object][] = [
  [{}, {}],
  [{ prevResult: undefined, runtimeConfig: undefined }, { netns: "" }],
  ...[[web], [{ ...web, hostPort: 1 }], [{ hostPort: "many" }], "none"].map((portMappings): [object, object] => [
    { runtimeConfig: { portMappings } },
    {},
  ]),
  ...[undefined, null, {}, { portMappings: null }, { portMappings: [] }].map((runtimeConfig): [object, object] => [
    { runtimeConfig },
    {},
  ]),
]

testEach("DEL takes back all that ADD has made, with any input, and a second DEL succeeds", async (lab) => {
  const pod = await lab.addPod()
  const before = await settled(lab)
  await using peer = await EchoPeer.start(pod.namespace)
  const mapping = { ...web, containerPort: peer.port }
  for (const [keys, call] of inputs) {
    await succeed(pod.map([mapping, dns, local]))
    for (const _again of [1, 2]) await succeed(pod.unmap(keys, call))
    expectUnchanged(before, await takeSnapshot(lab.host))
  }
  const question = { transport: "tcp", address: hostAddresses.ip, port: 8080 } as const
  await succeed(pod.map([mapping]))
  await askEcho(lab.outside, question)
  await succeed(pod.unmap({ runtimeConfig: undefined }))
  await expectNoEcho(lab.outside, question) // the host answers at its address as before
})

testEach("DEL takes back what was mapped by another backend", async (lab) => {
  const pod = await lab.addPod()
  const before = await settled(lab)
  await succeed(pod.map([web, dns]))
  await succeed(pod.unmap({ backend: lab.backend.name === "nftables" ? "iptables" : "nftables" }))
  expectUnchanged(before, await takeSnapshot(lab.host))
})

testEach("DEL leaves the container's mappings in other networks", async (lab) => {
  const pod = await lab.addPod()
  const second = await lab.addPod({ namespace: pod.namespace, ifName: "net1", name: "other" })
  await using peer = await EchoPeer.start(pod.namespace)
  await succeed(pod.map([dns]))
  await succeed(second.map([{ ...web, containerPort: peer.port }]))
  await succeed(pod.unmap())
  expect(await second.check()).toMatchObject({ exitCode: 0, stdout: "" })
  await askEcho(lab.host, { transport: "tcp", address: "127.0.0.1", port: 8080 })
})

testEach("DEL leaves the mappings of the container's other interface in the same network", async (lab) => {
  const pod = await lab.addPod()
  const before = await settled(lab)
  const second = await lab.addPod({ namespace: pod.namespace, ifName: "net1" })
  await using peer = await EchoPeer.start(pod.namespace)
  await succeed(pod.map([dns]))
  await succeed(second.map([{ ...web, containerPort: peer.port }]))
  expect(await pod.check()).toMatchObject({ exitCode: 0 })
  await succeed(pod.unmap())
  await askEcho(lab.host, { transport: "tcp", address: "127.0.0.1", port: 8080 })
  await succeed(second.unmap())
  await second.link.del()
  expectUnchanged(before, await takeSnapshot(lab.host), ({ section }) => section.startsWith("/var/lib/cni"))
})

testEach("GC removes the mappings of what is no longer valid, and of this network only", async (lab) => {
  const [stale, valid, foreign] = [await lab.addPod(), await lab.addPod(), await lab.addPod({ name: "other" })]
  const before = await settled(lab)
  await succeed(valid.map([web]))
  await succeed(foreign.map([{ ...web, hostPort: 8081 }]))
  const kept = await takeSnapshot(lab.host)
  await succeed(stale.map([{ ...web, hostPort: 8082 }, dns]))
  const attachments = (...pods: (typeof valid)[]) => ({
    "cni.dev/valid-attachments": pods.map((pod) => ({ containerID: pod.namespace.name, ifname: "eth0" })),
  })
  await succeed(valid.portmap.run("GC", attachments(valid)))
  expectUnchanged(kept, await takeSnapshot(lab.host))
  for (const pod of [valid, foreign]) expect(await pod.check()).toMatchObject({ exitCode: 0 })
  await succeed(valid.portmap.run("GC", attachments()))
  await succeed(foreign.unmap())
  expectUnchanged(before, await takeSnapshot(lab.host))
})

/** Returns the number of datagrams to unused ports that the host received, for both families. */
async function strayDatagrams({ host }: PortmapLab): Promise<number> {
  const { stdout } = await host.exec("cat", ["/proc/net/snmp", "/proc/net/snmp6"])
  const [, ip] = stdout.match(/^Udp: \d+ (\d+)/m) ?? []
  const [, ip6] = stdout.match(/^Udp6NoPorts\s+(\d+)/m) ?? []
  return Number(ip) + Number(ip6)
}

testEach("a UDP flow goes on to the container that comes after, by IPv4 and IPv6", async (lab) => {
  const [first, next] = [await lab.addPod(), await lab.addPod()]
  await using peer = await EchoPeer.start(first.namespace)
  await using nextPeer = await EchoPeer.start(next.namespace)
  for (const address of [hostAddresses.ip, hostAddresses.ip6]) {
    const before = await strayDatagrams(lab)
    await using flow = new UdpFlow(lab.outside, address, dns.hostPort)
    await waitFor(async () => (await strayDatagrams(lab)) > before, "the flow to begin before there is a mapping")
    await succeed(first.map([{ ...dns, containerPort: peer.port }]))
    await flow.answeredBy(peer.port)
    await succeed(first.unmap())
    await flow.unanswered()
    await succeed(next.map([{ ...dns, containerPort: nextPeer.port }]))
    await flow.answeredBy(nextPeer.port)
    await succeed(next.unmap())
  }
})

testEach("a UDP flow that went to a container goes to the host's own server after DEL", async (lab) => {
  const pod = await lab.addPod()
  await using peer = await EchoPeer.start(pod.namespace)
  await using own = await EchoPeer.start(lab.host, { address: "0.0.0.0", port: 5300 })
  const mapping = { ...dns, hostPort: own.port, containerPort: peer.port }
  await succeed(pod.map([mapping]))
  await using flow = new UdpFlow(lab.outside, hostAddresses.ip, own.port)
  await flow.answeredBy(peer.port)
  await succeed(pod.unmap())
  await flow.answeredBy(own.port)
})

testEach("UDP flows to the same port of other hosts are left alone", async (lab) => {
  const pod = await lab.addPod()
  await lab.host.exec("nft", [
    "add table ip watch; add chain ip watch c { type filter hook output priority 0; }; add rule ip watch c ct state new",
  ])
  await lab.host.exec("bash", ["-c", "echo > /dev/udp/203.0.113.9/53; echo > /dev/udp/203.0.113.1/53"])
  const flows = async () => (await lab.host.exec("conntrack", ["-L", "-p", "udp", "--dport", "53"])).stdout
  expect(await flows()).toContain("dst=203.0.113.9")
  expect(await flows()).toContain("src=203.0.113.1 dst=203.0.113.1")
  await succeed(pod.map([dns]))
  expect(await flows()).toContain("dst=203.0.113.9")
  expect(await flows()).not.toContain("src=203.0.113.1 dst=203.0.113.1")
  await succeed(pod.unmap())
  expect(await flows()).toContain("dst=203.0.113.9")
})
