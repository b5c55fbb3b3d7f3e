import { expect, test } from "bun:test"
import { connect, linkOf, pingOnce, waitFor } from "../lab/mod.ts"
import { FlannelHost } from "./flannel-lab.ts"

/** Returns the entries of the subnet file for both families on the node with this number. */
const node = (number: number) =>
  FlannelHost.create({
    FLANNEL_NETWORK: "10.244.0.0/16",
    FLANNEL_SUBNET: `10.244.${number}.1/24`,
    FLANNEL_IPV6_NETWORK: "fd00:244::/48",
    FLANNEL_IPV6_SUBNET: `fd00:244:0:${number}::1/64`,
    FLANNEL_MTU: "1450",
    FLANNEL_IPMASQ: "true",
  })

/** Connects nodes with VXLAN as flanneld does: VNI 1, port 8472, no learning, and a route to each other node. */
async function joinOverlay(nodes: readonly FlannelHost[]): Promise<void> {
  for (const [at, { host }] of nodes.entries()) {
    const vxlan = [
      "type",
      "vxlan",
      "id",
      "1",
      "local",
      `192.0.2.${at + 1}`,
      "dev",
      "up0",
      "dstport",
      "8472",
      "nolearning",
    ]
    await host.exec("ip", ["link", "add", "flannel.1", "mtu", "1450", ...vxlan])
    for (const address of [`10.244.${at + 1}.0/32`, `fd00:244:0:${at + 1}::/128`]) {
      await host.exec("ip", [
        "address",
        "add",
        address,
        "dev",
        "flannel.1",
        ...(address.includes(":") ? ["nodad"] : []),
      ])
    }
    await host.exec("ip", ["link", "set", "flannel.1", "up"])
  }
  for (const [at, { host }] of nodes.entries()) {
    for (const [other, { host: far }] of nodes.entries()) {
      if (other === at) continue
      const { address: mac } = await linkOf(far, "flannel.1")
      await host.exec("bridge", ["fdb", "append", mac, "dev", "flannel.1", "dst", `192.0.2.${other + 1}`])
      for (const [gateway, subnet] of [
        [`10.244.${other + 1}.0`, `10.244.${other + 1}.0/24`],
        [`fd00:244:0:${other + 1}::`, `fd00:244:0:${other + 1}::/64`],
      ] as const) {
        await host.exec("ip", ["neighbour", "add", gateway, "lladdr", mac, "dev", "flannel.1", "nud", "permanent"])
        await host.exec("ip", ["route", "add", subnet, "via", gateway, "dev", "flannel.1", "onlink"])
      }
    }
  }
}

test("pods of two nodes that a VXLAN joins reach each other, by both families, and see each other's addresses", async () => {
  await using first = await node(1)
  await using second = await node(2)
  const nodes = [first, second]
  await connect(
    { namespace: first.host, link: "up0", addresses: ["192.0.2.1/24"] },
    { namespace: second.host, link: "up0", addresses: ["192.0.2.2/24"] },
  )
  await joinOverlay(nodes)
  const pods = await Promise.all(
    nodes.map(async (net) => {
      const pod = await net.host.addContainer()
      const { ips } = await net.attachment(pod).add()
      return { net, pod, addresses: ips.map(({ address }) => address.replace(/\/.*/, "")) }
    }),
  )
  expect(pods.map(({ addresses }) => addresses)).toEqual([
    ["10.244.1.2", "fd00:244:0:1::2"],
    ["10.244.2.2", "fd00:244:0:2::2"],
  ])
  const [a, b] = pods
  for (const [from, to] of [
    [a, b],
    [b, a],
  ]) {
    for (const address of to?.addresses ?? []) {
      await waitFor(() => from && pingOnce(from.pod, address), `${address} to answer`)
    }
  }
  // A packet of the full MTU fits into the overlay.
  const full = ["-n", "-q", "-c", "1", "-M", "do", "-s", String(1450 - 28), b?.addresses[0] ?? ""]
  await waitFor(async () => (await a?.pod.tryExec("ping", full))?.exitCode === 0, "a full packet")
  for (const { net, pod } of pods) await net.attachment(pod).del()
  for (const address of b?.addresses ?? []) expect(await pingOnce(first.host, address)).toBe(false)
})
