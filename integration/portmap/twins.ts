import { expect } from "bun:test"
import { askEcho, EchoPeer, succeed, takeSnapshot } from "../lab/mod.ts"
import { hostAddresses, type MappedPod, type PortMapping, type PortmapLab } from "./portmap-lab.ts"

const { ip, ip6 } = hostAddresses

/** Returns mappings for every protocol and both families, for all host addresses and for one address. */
export function mappingsTo(containerPort: number): PortMapping[] {
  return [
    { hostPort: 8080, containerPort, protocol: "tcp" },
    { hostPort: 8080, containerPort, protocol: "udp" },
    { hostPort: 8080, containerPort, protocol: "sctp" },
    { hostPort: 8081, containerPort, protocol: "tcp", hostIP: ip },
    { hostPort: 8082, containerPort, protocol: "udp", hostIP: ip6 },
  ]
}

/** Creates a container with a server in two networks, like `podman run --network lab,other`. */
export async function createTwins(lab: PortmapLab) {
  const first = await lab.addPod()
  const second = await lab.addPod({ namespace: first.namespace, ifName: "net1", name: "other" })
  if (lab.backend.name !== "nftables") {
    // The Go plugin never deletes its shared chains and its setting.
    for (const pod of [first, second]) {
      await succeed(pod.map(mappingsTo(80)))
      await succeed(pod.unmap())
    }
  }
  const before = await takeSnapshot(lab.host)
  const peer = await EchoPeer.start(first.namespace)
  return { first, second, peer, before, mappings: mappingsTo(peer.port) }
}

/** Makes answers leave the container by this network's interface. */
export async function leaveBy(pod: MappedPod): Promise<void> {
  for (const [at, family] of ["-4", "-6"].entries()) {
    const via = pod.result.ips[at]?.gateway ?? ""
    await pod.namespace.exec("ip", [family, "route", "replace", "default", "via", via])
  }
}

/** Returns the container's addresses at which connections from the other machine arrive. */
async function reached(lab: PortmapLab): Promise<string[]> {
  const found = new Set<string>()
  for (const { hostPort: port, protocol: transport, hostIP } of mappingsTo(80)) {
    if (transport === "sctp") continue // the servers do not support SCTP
    for (const address of hostIP ? [hostIP] : [ip, ip6]) {
      const { to } = await askEcho(lab.outside, { transport, address, port })
      if (transport === "tcp") found.add(to.address.replace("::ffff:", "")) // a UDP server does not see its own address
    }
  }
  return [...found].sort()
}

export function sctpTo(pod: MappedPod): RegExp {
  return new RegExp(`^.*sctp.*${pod.ip.replaceAll(".", "\\.")}[ :]`, "m")
}

export async function expectAll(lab: PortmapLab, pod: MappedPod): Promise<void> {
  await leaveBy(pod)
  expect(await reached(lab)).toEqual([pod.ip, pod.ip6].sort())
}
