import { expect } from "bun:test"
import { askEcho, EchoPeer, expectUnchanged, succeed, takeSnapshot } from "../lab/mod.ts"
import { hostAddresses, type PortMapping, type PortmapLab, testEach } from "./portmap-lab.ts"

const { ip, ip6 } = hostAddresses
/** The longest names that are not shortened in rules. */
const name = { name: "n".repeat(44) }
const id = { containerId: "c".repeat(64) }
/** Returns a longer path of the same namespace, because rules contain the path with the name. */
const longPath = (path: string) => path.replace("/run/", `/run${"/.".repeat(35)}/`)

type Mapping = PortMapping & { protocol: "tcp" | "udp" }

/** Returns mappings, mostly for one host address and thus in one map; others for IPv6, all addresses, and UDP. */
function mappingsTo(containerPort: number, count: number): Mapping[] {
  return Array.from({ length: count }, (_, n) => {
    const hostIP = n % 30 === 0 ? ip6 : n % 30 < 3 ? undefined : ip
    const protocol = n % 30 === 1 ? "udp" : "tcp"
    return { hostPort: 10_000 + n, containerPort, protocol, ...(hostIP && { hostIP }) }
  })
}

/** Connects to the first and the last mappings, which are in different netlink messages. */
async function expectReached(lab: PortmapLab, mappings: readonly Mapping[]): Promise<void> {
  for (const { hostPort: port, protocol: transport, hostIP } of [...mappings.slice(0, 4), ...mappings.slice(-4)]) {
    for (const address of hostIP ? [hostIP] : [ip, ip6]) await askEcho(lab.outside, { transport, address, port })
  }
}

for (const count of [300, 2000]) {
  testEach(`${count} mappings with host addresses and long names come, are checked, and go`, async (lab) => {
    const pod = await lab.addPod()
    await using peer = await EchoPeer.start(pod.namespace)
    const mappings = mappingsTo(peer.port, count)
    const before = lab.backend.name === "nftables" ? await takeSnapshot(lab.host) : undefined
    const call = { ...id, netns: longPath(pod.namespace.path) }
    for (const _again of [1, 2]) await succeed(pod.map(mappings, name, call))
    await expectReached(lab, mappings)
    await succeed(pod.check(name, call))
    for (const _again of [1, 2]) await succeed(pod.unmap(name, call))
    expect(await lab.rules()).not.toContain(id.containerId)
    if (before) expectUnchanged(before, await takeSnapshot(lab.host))
  })
}
