import { expect, test } from "bun:test"
import { Attachment, bridgeNetwork } from "./attachment.ts"
import { askEcho, connect, EchoPeer, HostNamespace, waitFor } from "./mod.ts"
import { testWith } from "./test-with.ts"

/** A host with an uplink to an internet that has no route back to the containers. */
async function connectedHost() {
  const host = await HostNamespace.create()
  const internet = await host.addContainer("internet")
  await connect(
    { namespace: host, link: "up0", addresses: ["203.0.113.1/24", "2001:db8:113::1/64"] },
    { namespace: internet, link: "eth0", addresses: ["203.0.113.9/24", "2001:db8:113::9/64"] },
  )
  return { host, internet }
}

const dualStack = {
  isDefaultGateway: true,
  ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }], [{ subnet: "fd00:22::/64" }]] },
}

const outside = [
  { address: "203.0.113.9", seen: "203.0.113.1" },
  { address: "2001:db8:113::9", seen: "2001:db8:113::1" },
]

test.each(outside)(
  "with ipMasq the internet at $address sees the host's address, for TCP and UDP",
  async ({ address, seen }) => {
    const { host, internet } = await connectedHost()
    await using _ = host
    const pod = await host.addContainer()
    await new Attachment(host, pod, bridgeNetwork({ ...dualStack, ipMasq: true })).add()
    await using peer = await EchoPeer.start(internet)
    for (const transport of ["tcp", "udp"] as const) {
      const { from } = await askEcho(pod, { transport, address, port: peer.port })
      expect(from.address.replace("::ffff:", "")).toBe(seen)
    }
  },
)

test("without ipMasq the internet, given a route back, sees the container's address", async () => {
  const { host, internet } = await connectedHost()
  await using _ = host
  await internet.exec("ip", ["route", "add", "10.22.0.0/16", "via", "203.0.113.1"])
  const pod = await host.addContainer()
  await new Attachment(host, pod, bridgeNetwork(dualStack)).add()
  await using peer = await EchoPeer.start(internet)
  const { from } = await askEcho(pod, { transport: "tcp", address: "203.0.113.9", port: peer.port })
  expect(from.address.replace("::ffff:", "")).toBe("10.22.0.2")
})

test("the masquerade ends with DEL", async () => {
  const { host, internet } = await connectedHost()
  await using _ = host
  await internet.exec("ip", ["route", "add", "10.22.0.0/16", "via", "203.0.113.1"])
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, bridgeNetwork({ ...dualStack, ipMasq: true }))
  await attachment.add()
  await attachment.del()
  const plain = new Attachment(host, pod, bridgeNetwork({ ...dualStack, args: { cni: { ips: ["10.22.0.2"] } } }))
  await plain.add()
  await using peer = await EchoPeer.start(internet)
  const { from } = await askEcho(pod, { transport: "udp", address: "203.0.113.9", port: peer.port })
  expect(from.address.replace("::ffff:", "")).toBe("10.22.0.2")
})

test("traffic between containers of one network keeps its addresses", async () => {
  await using host = await HostNamespace.create()
  const [a, b] = [await host.addContainer(), await host.addContainer()]
  const config = bridgeNetwork({ ...dualStack, ipMasq: true })
  await new Attachment(host, a, config).add()
  await new Attachment(host, b, config).add()
  await using peer = await EchoPeer.start(b)
  const { from } = await askEcho(a, { transport: "tcp", address: "10.22.0.3", port: peer.port })
  expect(from.address.replace("::ffff:", "")).toBe("10.22.0.2")
})

/** Notes the source and destination of what arrives at port 9. */
const arrivals = `table inet test {
  set arrived4 { type ipv4_addr . ipv4_addr; size 16; flags dynamic; }
  set arrived6 { type ipv6_addr . ipv6_addr; size 16; flags dynamic; }
  chain prerouting {
    type filter hook prerouting priority raw;
    udp dport 9 add @arrived4 { ip saddr . ip daddr }
    udp dport 9 add @arrived6 { ip6 saddr . ip6 daddr }
  }
}`

for (const filtered of ["0", "1"]) {
  const title = `multicast and the bridge's own traffic keep their source, with bridge-nf-call-iptables=${filtered}`
  testWith(["nf_tables"], title, async () => {
    await using host = await HostNamespace.create()
    const [a, b] = [await host.addContainer(), await host.addContainer()]
    const config = bridgeNetwork({ ...dualStack, ipMasq: true })
    await new Attachment(host, a, config).add()
    await new Attachment(host, b, config).add()
    // Where br_netfilter is not loaded there is nothing to set, and what a bridge forwards passes no rules.
    for (const tables of ["iptables", "ip6tables"]) {
      await host.tryExec("sysctl", ["-w", `net.bridge.bridge-nf-call-${tables}=${filtered}`])
    }
    await b.exec("nft", ["-f", "-"], { input: arrivals })
    const to = ["10.22.0.3", "239.1.2.3", "fd00:22::3", "ff05::1:3"]
    for (const address of to) await a.exec("bash", ["-c", `echo hello > /dev/udp/${address}/9`])
    const arrived = async () => (await b.exec("nft", ["list", "table", "inet", "test"])).stdout
    const isComplete = async () => {
      const all = await arrived()
      return to.every((address) => all.includes(` . ${address}`))
    }
    await waitFor(isComplete, "all four packets to arrive")
    const all = await arrived()
    for (const address of to)
      expect(all).toContain(`${address.includes(":") ? "fd00:22::2" : "10.22.0.2"} . ${address}`)
  })
}
