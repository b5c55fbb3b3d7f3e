import { expect } from "bun:test"
import { askEcho, EchoPeer, succeed, takeSnapshot } from "../lab/mod.ts"
import { hostAddresses, type MappedPod, type PortMapping, type PortmapLab } from "./portmap-lab.ts"

const { ip, ip6 } = hostAddresses

/** Every protocol, all addresses and one address of the host, both families. */
export function mappingsTo(containerPort: number): PortMapping[] {
  return [
    { hostPort: 8080, containerPort, protocol: "tcp" },
    { hostPort: 8080, containerPort, protocol: "udp" },
    { hostPort: 8080, containerPort, protocol: "sctp" },
    { hostPort: 8081, containerPort, protocol: "tcp", hostIP: ip },
    { hostPort: 8082, containerPort, protocol: "udp", hostIP: ip6 },
  ]
}

/** One container in two networks, like that of `podman run --network lab,other`, and its servers. */
export async function createTwins(lab: PortmapLab) {
  const first = await lab.addPod()
  const second = await lab.addPod({ namespace: first.namespace, ifName: "net1", name: "other" })
  if (lab.backend.name !== "nftables") {
    // Upstream's shared chains and its setting stay forever.
    for (const pod of [first, second]) {
      await succeed(pod.map(mappingsTo(80)))
      await succeed(pod.unmap())
    }
  }
  const before = await takeSnapshot(lab.host)
  const peer = await EchoPeer.start(first.namespace)
  return { first, second, peer, before, mappings: mappingsTo(peer.port) }
}

/** Lets answers leave by the interface of the one who is asked. */
export async function leaveBy(pod: MappedPod): Promise<void> {
  for (const [at, family] of ["-4", "-6"].entries()) {
    const via = pod.result.ips[at]?.gateway ?? ""
    await pod.namespace.exec("ip", [family, "route", "replace", "default", "via", via])
  }
}

/** The container's addresses at which the mappings arrive, seen from another host. */
async function reached(lab: PortmapLab): Promise<string[]> {
  const found = new Set<string>()
  for (const { hostPort: port, protocol: transport, hostIP } of mappingsTo(80)) {
    if (transport === "sctp") continue // nothing here supports it
    for (const address of hostIP ? [hostIP] : [ip, ip6]) {
      const { to } = await askEcho(lab.outside, { transport, address, port })
      if (transport === "tcp") found.add(to.address.replace("::ffff:", "")) // a UDP socket does not know
    }
  }
  return [...found].sort()
}

/** A rule or element that sends SCTP to this container. */
export function sctpTo(pod: MappedPod): RegExp {
  return new RegExp(`^.*sctp.*${pod.ip.replaceAll(".", "\\.")}[ :]`, "m")
}

export async function expectAll(lab: PortmapLab, pod: MappedPod): Promise<void> {
  await leaveBy(pod)
  expect(await reached(lab)).toEqual([pod.ip, pod.ip6].sort())
}
