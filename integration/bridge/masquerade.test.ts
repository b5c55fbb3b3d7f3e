import { expect } from "bun:test"
import { Attachment, bridgeNetwork, HostNamespace, testWith, waitFor } from "../lab/mod.ts"
import { dualStack } from "../masquerade/host.ts"

/** Rules that record the source and destination of packets to port 9. */
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
    // Without br_netfilter this setting does not exist, and frames between ports of a bridge pass no rules.
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
