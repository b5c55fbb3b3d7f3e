import { extent, pluginRow, testWith } from "../lab/mod.ts"
import type { Chain } from "./chain.ts"
import { killChain, useKillAt } from "./killed.ts"

useKillAt()

const portMappings = [
  { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  { hostPort: 8053, containerPort: 53, protocol: "udp" },
]
const ranges = [[{ subnet: "10.22.0.0/24" }], [{ subnet: "fd00:22::/64" }]]
const sysctl = { "net.ipv4.conf.IFNAME.arp_filter": "1", "net.core.somaxconn": "512" }

/** Returns a chain that enables all network features of a node, with one kind of packet filter. */
function fullChain(backend: "nftables" | "iptables"): Chain["plugins"] {
  const keys = { bridge: "br-lab", isDefaultGateway: true, ipMasq: true, ipMasqBackend: backend, macspoofchk: true }
  return [
    { type: "bridge", keys: { ...keys, ipam: { type: "host-local", ranges } } },
    { type: "tuning", keys: { sysctl, mtu: 1400, txQLen: 77, allmulti: true } },
    { type: "portmap", keys: { backend, runtimeConfig: { portMappings } } },
    { type: "firewall", keys: { backend, ingressPolicy: "same-bridge" } },
    { type: "bandwidth", keys: pluginRow("bandwidth").keys({ network: "lab", port: 8080 }) },
  ]
}

const chains: Record<string, Chain> = {
  nftables: { plugins: fullChain("nftables"), iptables: "none" },
  iptables: { plugins: fullChain("iptables"), iptables: "nf_tables" },
  "iptables of the older tables": { plugins: fullChain("iptables"), iptables: "legacy" },
}

for (const [filter, chain] of Object.entries(chains)) {
  const verbs = [
    { verb: "ADD", quick: 1, rounds: 2 },
    { verb: "DEL", quick: 1, rounds: 2 },
    { verb: "GC", quick: 1, rounds: 2 },
    { verb: "CHECK", quick: 0, rounds: 2 },
    { verb: "STATUS", quick: 0, rounds: 2 },
  ] as const
  testWith(
    ["ifb", "tbf", "nf_tables", "nf_tables_bridge", "iptables", "ip6tables"],
    `bridge, tuning, portmap, firewall and bandwidth by ${filter}: one that is killed at any system call of any verb leaves nothing`,
    () => killChain(`Chain by ${filter}, each plugin killed`, chain, verbs),
    extent(900_000, 7_200_000),
  )
}
