import { afterAll, beforeAll, expect, test } from "bun:test"
import { type ContainerNamespace, isOfMachine, waitFor } from "../lab/mod.ts"
import { type Finding, NodeLab } from "./node-lab.ts"

const staticRoutes = { cniVersion: "1.1.0", name: "line" }
/** The configuration of a point-to-point network with IPv4 and IPv6. */
const line = {
  ...staticRoutes,
  plugins: [
    {
      type: "ptp",
      ipMasq: true,
      mtu: 1400,
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.86.0.0/24" }], [{ subnet: "fd86::/64" }]],
        routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
      },
    },
    // The kernel prints the first value as "300", and the second value with a tab.
    { type: "tuning", sysctl: { "net.core.somaxconn": "0x12c", "net.ipv4.ip_local_port_range": "20000 60000" } },
  ],
}
/** The configuration of a macvlan network on an uplink of the node. */
const lan = {
  cniVersion: "1.1.0",
  name: "lan",
  plugins: [
    {
      type: "macvlan",
      master: "lan0",
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.87.0.0/24", gateway: "10.87.0.254" }]],
        routes: [{ dst: "10.99.0.0/16" }],
      },
    },
  ],
}

interface Node {
  lab: NodeLab
  /** Two pods of a bridge, one of ptp and one of macvlan. */
  pods: Record<"a" | "b" | "line" | "lan", ContainerNamespace>
  stop(): Promise<void>
}

async function startNode(): Promise<Node> {
  const lab = await NodeLab.create()
  await lab.writeNetwork("20-line.conflist", line)
  await lab.writeNetwork("30-lan.conflist", lan)
  const links = [
    "ip link add up0 type veth peer name up0-far; ip link set up0-far up",
    "ip address add 192.0.2.2/24 dev up0; ip link set up0 up; ip route add default via 192.0.2.1",
    "ip link add lan0 type veth peer name lan0-far; ip link set lan0-far up; ip link set lan0 up",
  ]
  await lab.host.exec("sh", ["-ec", links.join("; ")])
  const pods = {
    a: await lab.addPod("a"),
    b: await lab.addPod("b"),
    line: await lab.addPod("line", "line"),
    lan: await lab.addPod("lan", "lan"),
  }
  return { lab, pods, stop: () => lab[Symbol.asyncDispose]() }
}

let node: Node
beforeAll(async () => {
  node = await startNode()
})
afterAll(() => node.stop())

const findings = ({ lab }: Node) => doctor(lab)

async function doctor(lab: NodeLab): Promise<Finding[]> {
  const { findings, stderr } = await lab.doctor()
  expect(stderr).toBe("")
  return findings
}

/** Replaces $MAC_OF_B and $END_OF_A in a command by names on the running node. */
async function filledIn(command: string): Promise<string> {
  const macOf = async (pod: ContainerNamespace) =>
    (await pod.json<{ address: string }[]>("ip", ["-j", "link", "show", "eth0"]))[0]?.address ?? ""
  const ends = await node.lab.host.json<{ ifname: string; ifalias?: string }[]>("ip", ["-j", "link"])
  const end = ends.find(({ ifalias }) => ifalias?.includes(node.pods.a.name))?.ifname ?? ""
  return command.replace("$MAC_OF_B", await macOf(node.pods.b)).replace("$END_OF_A", end)
}

/** A fault that a shell command creates in a container or on the host, with the expected finding. */
interface Fault {
  rule: string
  severity: "error" | "warning"
  where: keyof Node["pods"] | "host"
  break: string
  says: RegExp
  /** The remedy in the finding, if it is not a complete command. */
  remedy?: string
  /**
   * The command that repairs the fault in the container or on the host. Set if `doctor` only gives advice, because
   * another program owns the object.
   */
  mend?: string
  /** Other findings that the fault causes. */
  besides?: readonly string[]
}

const faults: readonly Fault[] = [
  {
    rule: "container-link-down",
    severity: "error",
    where: "a",
    break: "ip link set eth0 down",
    says: /^interface "eth0" of "pods\/.*" \(pod shop\/a\) is down$/,
  },
  {
    rule: "container-link-down",
    severity: "error",
    where: "line",
    break: "ip link set eth0 down",
    says: /\(pod shop\/line\) is down$/,
  },
  {
    rule: "container-route-closed",
    severity: "warning",
    where: "a",
    break: "ip route add blackhole 0.0.0.0/1",
    says: /^"pods\/[^"]+" \(pod shop\/a\) has a route of type blackhole to 0\.0\.0\.0\/1$/,
    mend: "ip route delete blackhole 0.0.0.0/1",
  },
  {
    rule: "container-route-closed",
    severity: "warning",
    where: "line",
    break: "ip -6 route add unreachable 2001:db8::/32",
    says: /\(pod shop\/line\) has a route of type unreachable to 2001:db8::\/32$/,
    mend: "ip -6 route delete unreachable 2001:db8::/32",
  },
  {
    rule: "container-no-carrier",
    severity: "error",
    where: "host",
    break: "ip link set lan0 down",
    says: /\(pod shop\/lan\) has no carrier: its master "lan0" on the host is down$/,
  },
  {
    rule: "container-mac-changed",
    severity: "warning",
    where: "a",
    break: "ip link set eth0 address 02:00:00:00:00:99",
    says: /has MAC 02:00:00:00:00:99, but ADD assigned /,
  },
  {
    rule: "container-mtu",
    severity: "warning",
    where: "line",
    break: "ip link set eth0 mtu 1450",
    says: /has MTU 1450, but its end on the host, "veth.*", has 1400$/,
  },
  {
    rule: "container-arp-off",
    severity: "error",
    where: "a",
    break: "ip link set eth0 arp off",
    says: /has ARP switched off$/,
  },
  {
    rule: "container-address-missing",
    severity: "error",
    where: "a",
    break: "ip address flush dev eth0 scope global",
    says: /does not have 10\.85\.0\.2\/24, which ADD assigned$/,
  },
  {
    rule: "container-address-missing",
    severity: "error",
    where: "line",
    break: "ip -6 address flush dev eth0 scope global",
    says: /does not have fd86::2\/64, which ADD assigned$/,
  },
  {
    rule: "container-route-missing",
    severity: "error",
    where: "a",
    break: "ip route delete default",
    says: /does not have the default route via 10\.85\.0\.1$/,
  },
  {
    rule: "container-route-missing",
    severity: "error",
    where: "a",
    break: "ip route replace default via 10.85.0.77",
    says: /does not have the default route via 10\.85\.0\.1: the route is via 10\.85\.0\.77 instead$/,
  },
  {
    rule: "container-route-missing",
    severity: "error",
    where: "a",
    break: "ip route replace blackhole default",
    says: /does not have the default route via 10\.85\.0\.1: a route that drops packets took its place$/,
  },
  {
    rule: "container-route-missing",
    severity: "error",
    where: "line",
    break: "ip -6 route delete default",
    says: /does not have the IPv6 default route via fd86::1$/,
  },
  {
    rule: "container-route-missing",
    severity: "error",
    where: "lan",
    break: "ip route delete 10.99.0.0/16",
    says: /does not have the route to 10\.99\.0\.0\/16 via 10\.87\.0\.254$/,
  },
  {
    rule: "container-network-route",
    severity: "error",
    where: "a",
    break: "ip route delete 10.85.0.0/24",
    says: /has no route to its own network: the route to 10\.85\.0\.0\/24 does not exist$/,
  },
  {
    rule: "container-network-route",
    severity: "error",
    where: "line",
    break: "ip route delete 10.86.0.1",
    says: /has no route to its own network: the route to 10\.86\.0\.1\/32 does not exist$/,
  },
  {
    rule: "neighbour-wrong",
    severity: "error",
    where: "a",
    break: "ip neighbour replace 10.85.0.1 lladdr 02:00:00:00:00:98 nud permanent dev eth0",
    says: /has a static neighbor 10\.85\.0\.1 with MAC 02:00:00:00:00:98, but the MAC of 10\.85\.0\.1 is /,
    mend: "ip neighbour delete 10.85.0.1 dev eth0",
  },
  {
    rule: "neighbour-wrong",
    severity: "error",
    where: "a",
    break: "ip neighbour replace 10.85.0.3 lladdr 02:00:00:00:00:98 nud permanent dev eth0",
    says: /has a static neighbor 10\.85\.0\.3 with MAC 02:00:00:00:00:98, but the MAC of 10\.85\.0\.3 is /,
    mend: "ip neighbour delete 10.85.0.3 dev eth0",
  },
  {
    rule: "gateway-silent",
    severity: "warning",
    where: "lan",
    break: "ip neighbour replace 10.87.0.254 nud failed dev eth0",
    says: /^the gateway 10\.87\.0\.254 did not answer the last request of interface "eth0" of "lan\//,
  },
]

const more: readonly Fault[] = [
  {
    rule: "container-link-missing",
    severity: "error",
    where: "a",
    break: "ip link set eth0 down; ip link set eth0 name eth9; ip link set eth9 up",
    says: /^interface "eth0" of "pods\/.*shop\/a\) was renamed to "eth9"$/,
  },
  {
    rule: "container-link-missing",
    severity: "error",
    where: "line",
    break: "ip link set eth0 down; ip link set eth0 name net.0",
    says: /^interface "eth0" of "line\/.*shop\/line\) was renamed to "net\.0"$/,
  },
  {
    rule: "container-link-missing",
    severity: "error",
    where: "lan",
    break: "ip link delete eth0",
    says: /^interface "eth0" of "lan\/.*shop\/lan\) does not exist$/,
  },
  {
    rule: "container-rule",
    severity: "error",
    where: "a",
    break: "ip rule add from 10.85.0.2 blackhole priority 100",
    says: /^the rule "100: from 10\.85\.0\.2\/32 blackhole" in "pods\/.*matches packets from 10\.85\.0\.2: it drops them$/,
    mend: "ip rule delete priority 100",
  },
  {
    rule: "container-rule",
    severity: "error",
    where: "a",
    break: "ip route add default via 10.85.0.77 dev eth0 table 100; ip rule add from all lookup 100 priority 100",
    says: /table 100 sends them to 10\.85\.0\.77, which is not a gateway in the result of ADD$/,
    mend: "ip rule delete priority 100; ip route flush table 100",
  },
  {
    rule: "address-twice",
    severity: "error",
    where: "a",
    break: "ip address add 10.85.0.3/24 dev eth0",
    says: /^2 containers have the same address on one segment, 10\.85\.0\.3: "pods\/.*shop\/[ab]\), "pods\/.*shop\/[ab]\)$/,
    mend: "ip address delete 10.85.0.3/24 dev eth0",
  },
  {
    rule: "mac-twice",
    severity: "error",
    where: "a",
    break: "ip link set eth0 address $MAC_OF_B",
    says: /^2 containers have the same MAC on one segment, /,
  },
  {
    rule: "host-has-address",
    severity: "error",
    where: "host",
    break: "ip address add 10.85.0.2/32 dev lo",
    says: /^the host also has 10\.85\.0\.2, the address of "pods\/.*shop\/a\), on "lo"$/,
    mend: "ip address delete 10.85.0.2/32 dev lo",
  },
  {
    rule: "host-has-address",
    severity: "error",
    where: "host",
    break: "ip address add fd86::2/128 dev lo",
    says: /^the host also has fd86::2, the address of "line\/.*, on "lo"$/,
    mend: "ip address delete fd86::2/128 dev lo",
    besides: ["route-overlap"],
  },
  {
    rule: "host-route-missing",
    severity: "error",
    where: "host",
    break: "ip route delete 10.85.0.0/24",
    says: /^the host has no route to 10\.85\.0\.0\/24 by "cni0", the interface of 2 containers: /,
  },
  {
    rule: "host-route-missing",
    severity: "error",
    where: "host",
    break: "ip route delete 10.86.0.2",
    says: /^the host has no route to 10\.86\.0\.2 by "veth.*shop\/line\): its route is by "up0"$/,
  },
  {
    rule: "host-route-missing",
    severity: "error",
    where: "host",
    break: "ip -6 route delete fd86::2",
    says: /^the host has no route to fd86::2 by "veth/,
  },
  {
    rule: "host-route-closed",
    severity: "error",
    where: "host",
    break: "ip route add blackhole 10.85.0.2/32",
    says: /^the host drops its packets to 10\.85\.0\.2 of "pods\/.*: its route to 10\.85\.0\.2\/32 drops packets$/,
    mend: "ip route delete blackhole 10.85.0.2/32",
    besides: ["route-overlap"],
  },
  {
    rule: "host-rule",
    severity: "error",
    where: "host",
    break: "ip route add default via 192.0.2.1 table 100; ip rule add to 10.85.0.0/24 lookup 100 priority 100",
    says: /^the host's rule "100: from all to 10\.85\.0\.0\/24 lookup 100" matches packets of 2 containers: an echo request from the host to .* but the host's route is by "up0": /,
    mend: "ip rule delete priority 100; ip route flush table 100",
  },
  {
    rule: "host-rule",
    severity: "error",
    where: "host",
    break: "ip rule add from 10.85.0.2 prohibit priority 101",
    says: /^the host's rule "101: from 10\.85\.0\.2\/32 prohibit" matches packets of "pods\/.*: TCP from .*: the host has a route or rule of type prohibit/,
    mend: "ip rule delete priority 101",
  },
  {
    rule: "neighbour-wrong",
    severity: "error",
    where: "host",
    break: "ip neighbour replace 10.85.0.2 lladdr 02:00:00:00:00:97 nud permanent dev cni0",
    says: /^the host has a static neighbor 10\.85\.0\.2 on "cni0" with MAC 02:00:00:00:00:97, but "pods\//,
    mend: "ip neighbour delete 10.85.0.2 dev cni0",
  },
  {
    rule: "port-state",
    severity: "error",
    where: "host",
    break: "bridge link set dev $END_OF_A state 0",
    says: /^the bridge's port "veth.*" of "pods\/.*shop\/a\) is in state disabled$/,
  },
  {
    rule: "port-isolated",
    severity: "warning",
    where: "host",
    break: "bridge link set dev $END_OF_A isolated on",
    says: /is isolated, but its network does not set "portIsolation"$/,
  },
]

/** Returns the rules of a bridge table with one chain. */
const bridgeChain = (hook: string, ...rules: string[]) =>
  [
    "nft 'add table bridge guard; delete table bridge guard; add table bridge guard'",
    `nft 'add chain bridge guard c { type filter hook ${hook}; }'`,
    ...rules.map((rule) => `nft add rule bridge guard c ${rule}`),
  ].join("; ")

const ofUplinks: readonly Fault[] = [
  {
    rule: "frames-dropped",
    severity: "error",
    where: "host",
    break: bridgeChain("forward priority 0; policy drop"),
    says: /^table bridge guard, chain c drops an echo request from "pods\/.*, by its policy: /,
    mend: "nft delete table bridge guard",
  },
  {
    rule: "frames-dropped",
    severity: "error",
    where: "host",
    break: bridgeChain("prerouting priority 0", "iifname $END_OF_A drop"),
    says: /^a rule in table bridge guard, chain c drops TCP from "pods\/.*: chain c, handle \d+$/,
    mend: "nft delete table bridge guard",
  },
  {
    rule: "host-no-default-route",
    severity: "warning",
    where: "host",
    break: "ip route delete default",
    says: /^the host has no default route, but 3 containers are masqueraded$/,
    remedy: "ip route add default via 192.0.2.1",
  },
  {
    rule: "host-no-default-route",
    severity: "warning",
    where: "host",
    break: "ip -6 address add 2001:db8::2/64 dev up0 nodad",
    says: /^the host has no IPv6 default route, but a container is masqueraded$/,
    remedy: "ip -6 route add default via 2001:db8::1",
  },
  {
    rule: "rp-filter-uplink",
    severity: "warning",
    where: "host",
    break: "ip route add default via 10.87.0.253 dev lan0 onlink metric 200; sysctl -w net.ipv4.conf.lan0.rp_filter=1",
    says: /^rp_filter of the uplink "lan0" is strict \(1\), but the host answers through "up0"$/,
  },
  {
    rule: "route-localnet-off",
    severity: "warning",
    where: "host",
    break: "sysctl -w net.ipv4.conf.cni0.route_localnet=0",
    says: /^net\/ipv4\/conf\/cni0\/route_localnet is 0, but ports of 127\.0\.0\.1 are published for 2 containers: /,
  },
]

/** Returns the rules of a table with one chain of type filter and one rule. */
const chainWith = (table: string, hook: string, rule: string) =>
  `nft 'table ${table} { chain c { type filter hook ${hook}; ${rule}; }; }'`

const ofOperators: readonly Fault[] = [
  {
    rule: "container-address-missing",
    severity: "error",
    where: "line",
    // This enables duplicate address detection for each address that is added without "nodad".
    break: "sysctl -w net.ipv6.conf.eth0.accept_dad=1 net.ipv6.conf.eth0.disable_ipv6=1",
    says: /does not have fd86::2\/64, which ADD assigned$/,
  },
  {
    rule: "gateway-not-local",
    severity: "error",
    where: "host",
    break: "ip route delete local 10.85.0.1 dev cni0 table local",
    says: /^the host does not accept packets for 10\.85\.0\.1 of "cni0", the gateway of 2 containers: /,
  },
  {
    rule: "bridge-renamed",
    severity: "error",
    where: "host",
    break: "ip link set cni0 down; ip link set cni0 name old0; ip link set old0 up",
    says: /^bridge "cni0" was renamed to "old0", but 2 containers need it: /,
  },
  {
    rule: "forwarding-off-link",
    severity: "error",
    where: "host",
    break: "sysctl -w net.ipv4.conf.up0.forwarding=0",
    says: /^net\/ipv4\/conf\/up0\/forwarding is 0, but net\/ipv4\/ip_forward is 1$/,
  },
  {
    rule: "host-no-default-route",
    severity: "error",
    where: "host",
    break:
      "ip route delete default; ip route add default via 192.0.2.1 metric 100; ip route add unreachable default metric 50",
    says: /^the host's default route drops packets: .*, but 3 containers are masqueraded$/,
    mend: "ip route delete unreachable default metric 50",
  },
  {
    rule: "host-main-table",
    severity: "error",
    where: "host",
    break: "ip rule flush",
    says: /^the host has no rule that looks up table main$/,
  },
  {
    rule: "container-main-table",
    severity: "error",
    where: "line",
    break: "ip -6 rule flush",
    says: /^"line\/.*shop\/line\) has no IPv6 rule that looks up table main$/,
  },
  {
    rule: "bridge-stp",
    severity: "warning",
    where: "host",
    break: "ip link set cni0 type bridge stp_state 1",
    says: /^bridge "cni0" runs the spanning tree protocol \(STP\), but all of its ports belong to 2 containers: /,
  },
  {
    rule: "hairpin-off",
    severity: "warning",
    where: "host",
    break: "bridge link set dev $END_OF_A hairpin off",
    says: /^the bridge's port "veth.*shop\/a\) has hairpin off, but its network sets "hairpinMode"$/,
  },
  {
    rule: "address-of-gateway",
    severity: "error",
    where: "a",
    break: "ip address add 10.85.0.1/24 dev eth0",
    says: /^interface "eth0" of "pods\/.*shop\/a\) has 10\.85\.0\.1, which the host has on "cni0"$/,
    mend: "ip address delete 10.85.0.1/24 dev eth0",
  },
  {
    rule: "forward-drop-rule",
    severity: "error",
    where: "host",
    break: chainWith("inet early", "prerouting priority -150", "iifname cni0 counter drop"),
    says: /^a rule in table inet early, chain c drops TCP from "pods\/.*: chain c, handle \d+: /,
    mend: "nft delete table inet early",
  },
  {
    rule: "forward-drop-rule",
    severity: "error",
    where: "host",
    break: chainWith("ip late", "postrouting priority 150", "oifname cni0 drop"),
    says: /^a rule in table ip late, chain c drops the answer to TCP from "pods\/.*: chain c, handle \d+: /,
    mend: "nft delete table ip late",
  },
]

const ofSettings: readonly Fault[] = [
  {
    rule: "container-arp-ignored",
    severity: "error",
    where: "a",
    break: "sysctl -w net.ipv4.conf.eth0.arp_ignore=8",
    says: /^interface "eth0" of "pods\/.*shop\/a\) does not answer ARP requests: net\/ipv4\/conf\/eth0\/arp_ignore is 8$/,
  },
  {
    rule: "container-arp-ignored",
    severity: "error",
    where: "lan",
    break: "sysctl -w net.ipv4.conf.all.arp_ignore=8",
    says: /^interface "eth0" of "lan\/.*shop\/lan\) does not answer ARP requests: net\/ipv4\/conf\/all\/arp_ignore is 8$/,
  },
  {
    rule: "container-sysctl",
    severity: "warning",
    where: "line",
    break: "sysctl -w net.core.somaxconn=128",
    says: /^net\/core\/somaxconn in "line\/.*shop\/line\) is "128", but its network sets "300"$/,
  },
  {
    rule: "container-sysctl",
    severity: "warning",
    where: "line",
    break: "sysctl -w 'net.ipv4.ip_local_port_range=32768 60999'",
    says: /^net\/ipv4\/ip_local_port_range in "line\/.*, but its network sets "20000 60000"$/,
  },
  {
    rule: "host-arp-off",
    severity: "error",
    where: "host",
    break: "ip link set cni0 arp off",
    says: /^"cni0" of the host has ARP switched off, and 2 containers have their gateway there: /,
  },
  {
    rule: "host-arp-off",
    severity: "error",
    where: "host",
    break: "sysctl -w net.ipv4.conf.all.arp_ignore=8",
    says: /^the host does not answer ARP requests of 3 containers, because net\/ipv4\/conf\/all\/arp_ignore is 8: /,
  },
]

/** Returns the rules of a container's own packet filter with one chain. */
const ownChain = (table: string, hook: string, ...rules: string[]) =>
  [
    `nft 'add table ${table}; add chain ${table} c { type filter hook ${hook}; }'`,
    ...rules.map((rule) => `nft add rule ${table} c ${rule}`),
  ].join("; ")

const ofTheirOwn: readonly Fault[] = [
  {
    rule: "container-link-down",
    severity: "error",
    where: "a",
    // No record contains "lo". The address of "lo" shows that it was up.
    break: "ip link set lo up; ip link set lo down",
    says: /^interface "lo" of "pods\/.*shop\/a\) is down$/,
  },
  {
    rule: "container-not-local",
    severity: "error",
    where: "a",
    break: "ip route delete local 10.85.0.2 table local",
    says: /^"pods\/.*shop\/a\) does not accept packets for 10\.85\.0\.2 of "eth0": its route is not in table local$/,
  },
  {
    rule: "container-not-local",
    severity: "error",
    where: "line",
    break: "ip -6 route delete local fd86::2 table local",
    says: /^"line\/.*shop\/line\) does not accept packets for fd86::2 of "eth0": its route is not in table local$/,
  },
  {
    rule: "container-not-local",
    severity: "error",
    where: "lan",
    break: "ip rule delete priority 0",
    says: /^"lan\/.*shop\/lan\) does not accept packets for 10\.87\.0\.1 of "eth0": no rule looks up table local$/,
  },
  {
    rule: "container-drop",
    severity: "error",
    where: "a",
    break: ownChain("inet guard", "input priority 0; policy drop", "iif lo accept", "counter"),
    says: /^the packet filter in "pods\/.*shop\/a\) drops all incoming packets: table inet guard, chain c, by its policy$/,
    mend: "nft delete table inet guard",
  },
  {
    rule: "container-drop",
    severity: "error",
    where: "line",
    break: ownChain("ip6 guard", "output priority 0", "tcp dport 25 drop", 'oifname "eth0" reject'),
    says: /^the packet filter in "line\/.*shop\/line\) drops all outgoing IPv6 packets: table ip6 guard, chain c, handle \d+$/,
    mend: "nft delete table ip6 guard",
  },
  {
    rule: "container-drop",
    severity: "error",
    where: "b",
    break:
      "iptables-nft -P INPUT DROP; iptables-nft -A INPUT -i lo -j ACCEPT; iptables-nft -A OUTPUT -o eth0 -j REJECT",
    says: /^the packet filter in "pods\/.*shop\/b\) drops all incoming IPv4 packets: table ip filter, chain INPUT, by its policy$/,
    mend: "nft delete table ip filter",
  },
  {
    rule: "container-drop",
    severity: "error",
    where: "lan",
    break: ownChain("netdev guard", "ingress device eth0 priority 0; policy drop"),
    says: /^the packet filter in "lan\/.*shop\/lan\) drops all incoming frames: table netdev guard, chain c, by its policy$/,
    mend: "nft delete table netdev guard",
  },
]

const ofBridges: readonly Fault[] = [
  {
    rule: "bridge-mac-lost",
    severity: "error",
    where: "host",
    break: "bridge fdb flush dev cni0",
    says: /^bridge "cni0" of 2 containers does not accept frames for its own MAC, .*: its forwarding database has no such local entry: /,
  },
  {
    rule: "bridge-mac-lost",
    severity: "error",
    where: "host",
    break: "bridge fdb replace $(cat /sys/class/net/cni0/address) dev $END_OF_A master static",
    says: /^bridge "cni0" of 2 containers does not accept frames for its own MAC, /,
  },
]

/** Rules that containers intentionally have: some packets pass, or `doctor` cannot know which. */
const meant = [
  [["inet", "input", "drop"], "ct state established,related accept"],
  [["inet", "input", "drop"], "iifname lo accept", "tcp dport 80 accept"],
  [["inet", "output", "accept"], "ip daddr 10.0.0.0/8 drop", "ip daddr 169.254.169.254 reject"],
  [["inet", "output", "accept"], 'oifname "other*" drop', "oifname != eth0 drop"],
  [["ip6", "input", "drop"]], // the pod has no IPv6 address
  [["ip", "forward", "drop"]],
] as const

test.each(meant)(
  "a packet filter in a container that is its own affair, %p: nothing is found",
  async (chain, ...rules) => {
    const [family, hook, policy] = chain
    const pod = node.pods.a
    try {
      await pod.exec("sh", [
        "-ec",
        ownChain(`${family} own`, `${hook} priority 0; policy ${policy}`, ...rules.map((rule) => `'${rule}'`)),
      ])
      expect(await findings(node)).toEqual([])
    } finally {
      await pod.exec("nft", ["delete", "table", family, "own"])
    }
  },
)

test("the node is healthy", async () => {
  expect(await findings(node)).toEqual([])
})

test.each(
  [...faults, ...more, ...ofUplinks, ...ofOperators, ...ofSettings, ...ofBridges, ...ofTheirOwn].map(
    (fault) => [`${fault.rule}: ${fault.break}, on ${fault.where}`, fault] as const,
  ),
)("%s: found, mended by the pasted remedy, and found no more", async (_, fault) => {
  try {
    await breakAndMend(fault)
  } catch (error) {
    await node.stop() // the next fault needs a node without this fault
    node = await startNode()
    throw error
  }
})

async function breakAndMend({
  rule,
  severity,
  where,
  break: command,
  says,
  remedy,
  mend,
  besides = [],
}: Fault): Promise<void> {
  const broken = where === "host" ? node.lab.host : node.pods[where]
  await broken.exec("sh", ["-ec", await filledIn(command)])
  const found = await findings(node)
  expect(found.map((each) => each.rule).sort()).toEqual([rule, ...besides].sort())
  const finding = found.find((each) => each.rule === rule)
  expect(finding).toMatchObject({
    severity,
    what: expect.stringMatching(says),
    pasteable: (remedy ?? mend) === undefined,
  })
  const pasted =
    mend === undefined
      ? await node.lab.paste(remedy ?? finding?.remedy ?? "false")
      : await broken.exec("sh", ["-ec", mend])
  expect({ ...pasted, remedy: finding?.remedy }).toMatchObject({ stderr: "", exitCode: 0 })
  expect(await findings(node)).toEqual([])
}

test("container-address-missing: an address that another container has by now is not given to both", async () => {
  await using lab = await NodeLab.create()
  const [one, two] = [await lab.addPod("one"), await lab.addPod("two")]
  await one.exec("ip", ["address", "flush", "dev", "eth0", "scope", "global"])
  await two.exec("ip", ["address", "add", "10.85.0.2/24", "dev", "eth0"])
  const missing = (await doctor(lab)).find(({ rule }) => rule === "container-address-missing")
  expect(missing).toMatchObject({
    pasteable: false,
    remedy: expect.stringMatching(/^delete one of the two containers: .*shop\/two\) now has the address$/),
  })
})

test("container-address-failed: an address that another station had for a moment is given back by the pasted remedy", async () => {
  await using lab = await NodeLab.create({
    cniVersion: "1.1.0",
    name: "six",
    plugins: [
      { type: "bridge", isDefaultGateway: true, ipam: { type: "host-local", ranges: [[{ subnet: "fd06::/64" }]] } },
    ],
  })
  const pod = await lab.addPod("one", "six")
  const station =
    "ip link add far type veth peer name near; ip link set near master cni0 up; ip link set far netns $1 up"
  const other = await lab.host.addContainer()
  await lab.host.exec("sh", ["-ec", station, "sh", other.name])
  await other.exec("ip", ["address", "add", "fd06::2/64", "dev", "far", "nodad"])
  const again = "ip address delete fd06::2/64 dev eth0; ip address add fd06::2/64 dev eth0"
  await pod.exec("sh", ["-ec", `sysctl -w net.ipv6.conf.eth0.accept_dad=1; ${again}`])
  const addresses = async () => (await pod.exec("ip", ["-6", "address", "show", "dev", "eth0"])).stdout
  await waitFor(async () => (await addresses()).includes("dadfailed"), "the other station to answer for the address")
  await lab.host.exec("ip", ["link", "delete", "near"])

  const found = await doctor(lab)
  expect(found).toMatchObject([
    {
      rule: "container-address-failed",
      severity: "error",
      what: expect.stringMatching(/^fd06::2 of interface "eth0" of "six\/.*shop\/one\) is not in use: /),
      pasteable: true,
    },
  ])
  await lab.host.exec("sh", ["-ec", found[0]?.remedy ?? "false"])
  expect(await doctor(lab)).toEqual([])
  const answers = async () => (await pod.tryExec("ping", ["-c1", "-W2", "fd06::1"])).exitCode === 0
  await waitFor(answers, "the gateway to answer the container")
})

test("dns-unreachable: a server to which the container, or the host, has no route, is named", async () => {
  await using lab = await NodeLab.create()
  const bridge = (name: string, third: number, more: object) => ({
    cniVersion: "1.1.0",
    name,
    plugins: [
      {
        type: "bridge",
        bridge: name,
        isGateway: true,
        ...more,
        ipam: { type: "host-local", ranges: [[{ subnet: `10.85.${third}.0/24` }]] },
      },
    ],
  })
  const dns = { nameservers: ["192.0.2.53", "127.0.0.53"] }
  await lab.writeNetwork("20-closed.conflist", bridge("closed", 1, { dns }))
  await lab.writeNetwork("30-open.conflist", bridge("open", 2, { dns, isDefaultGateway: true }))
  const closed = await lab.addPod("one", "closed")
  await lab.addPod("two", "open")
  const found = (await doctor(lab)).filter(({ rule }) => rule === "dns-unreachable").map(({ what }) => what)
  expect(found).toEqual([
    expect.stringMatching(/^the container has no route to 192\.0\.2\.53, a DNS server of "closed\/.*shop\/one\)$/),
    expect.stringMatching(/^the host has no route to 192\.0\.2\.53, a DNS server of "open\/.*shop\/two\)$/),
  ])
  const uplink =
    "ip link add up0 type veth peer name far; ip link set far up; ip link set up0 up; ip address add 192.0.2.2/24 dev up0"
  await lab.host.exec("sh", ["-ec", `${uplink}; ip route add default via 192.0.2.1`])
  expect((await doctor(lab)).map(({ what }) => what)).toEqual(
    found.slice(0, 1).map((what) => expect.stringContaining(what.slice(0, 40))),
  )
  await closed.exec("ip", ["route", "add", "192.0.2.53", "via", "10.85.1.1"])
  expect(await doctor(lab)).toEqual([])
})

test("container-not-whole: 100,000 routes in a container do not stop doctor, which sees the next container", async () => {
  await using lab = await NodeLab.create()
  const [pod, next] = [await lab.addPod("one"), await lab.addPod("two")]
  const routes = Array.from(
    { length: 100_000 },
    (_, at) => `route add 11.${at >> 16}.${(at >> 8) & 255}.${at & 255}/32 dev eth0\n`,
  )
  await pod.exec("ip", ["-batch", "-"], { input: routes.join("") })
  await next.exec("ip", ["route", "delete", "default"])
  const found = await doctor(lab)
  expect(found.map(({ rule }) => rule).sort()).toEqual(["container-not-whole", "container-route-missing"])
  expect(found.find(({ rule }) => rule === "container-not-whole")?.what).toMatch(
    /shop\/one\) has too many routes.*: only some were read$/,
  )
  await pod.exec("ip", ["route", "flush", "root", "11.0.0.0/8"])
  expect((await doctor(lab)).map(({ rule }) => rule)).toEqual(["container-route-missing"])
})

test("container-unread: without the right to enter namespaces doctor says what it has not looked at", async () => {
  await using lab = await NodeLab.create()
  for (const name of ["one", "two"]) await lab.addPod(name)
  const without = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
  const { stdout } = await lab.cni(["doctor", "--json"], {}, without)
  const found = (JSON.parse(stdout) as { findings: Finding[] }).findings
  expect(found.filter(({ rule }) => !isOfMachine(rule))).toMatchObject([
    {
      rule: "container-unread",
      what: expect.stringMatching(/^the namespaces of 2 containers cannot be inspected: /),
    },
  ])
  expect(await doctor(lab)).toEqual([])
})

test("one fault of many containers is one finding, with one command that mends all", async () => {
  await using lab = await NodeLab.create()
  const pods = [await lab.addPod("one"), await lab.addPod("two"), await lab.addPod("three"), await lab.addPod("four")]
  for (const pod of pods) await pod.exec("ip", ["link", "set", "eth0", "down"])
  const found = await doctor(lab)
  expect(found).toMatchObject([
    {
      rule: "container-link-down",
      what: expect.stringMatching(/^interface "eth0" is down in 4 containers: .* and 1 more$/),
    },
  ])
  await lab.host.exec("sh", ["-ec", found[0]?.remedy ?? "false"])
  expect(await doctor(lab)).toEqual([])
})
