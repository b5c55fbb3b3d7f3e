import { afterAll, beforeAll, expect, test } from "bun:test"
import type { ContainerNamespace } from "../lab/mod.ts"
import { NodeLab } from "./node-lab.ts"

interface Finding {
  rule: string
  severity: string
  what: string
  why: string
  remedy: string
  pasteable: boolean
}

const staticRoutes = { cniVersion: "1.1.0", name: "line" }
/** A point-to-point network with both families. */
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
  ],
}
/** A macvlan network on an uplink of the node. */
const lan = {
  cniVersion: "1.1.0",
  name: "lan",
  plugins: [
    {
      type: "macvlan",
      master: "up0",
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
  /** Two of a bridge, one of ptp, one of macvlan. */
  pods: Record<"a" | "b" | "line" | "lan", ContainerNamespace>
  stop(): Promise<void>
}

async function startNode(): Promise<Node> {
  const lab = await NodeLab.create()
  await lab.writeNetwork("20-line.conflist", line)
  await lab.writeNetwork("30-lan.conflist", lan)
  await lab.host.exec("sh", [
    "-ec",
    "ip link add up0 type veth peer name up0-far; ip link set up0-far up; ip addr add 10.87.0.1/24 dev up0; ip link set up0 up; ip route add default via 10.87.0.254",
  ])
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
}, 120_000)
afterAll(() => node.stop())

async function findings({ lab }: Node): Promise<Finding[]> {
  const { stdout, stderr } = await lab.cni(["doctor", "--json"])
  expect(stderr).toBe("")
  return (JSON.parse(stdout) as { findings: Finding[] }).findings
}

/** What is broken by a shell's command in a container or on the host, and what doctor has to say of it. */
interface Fault {
  rule: string
  severity: "error" | "warning"
  where: keyof Node["pods"] | "host"
  break: string
  says: RegExp
  /** Other findings that come with it. */
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
    rule: "container-no-carrier",
    severity: "error",
    where: "host",
    break: "ip link set up0 down",
    says: /\(pod shop\/lan\) has no carrier: "up0" of the host, on which it sits, is down$/,
  },
  {
    rule: "container-mac-changed",
    severity: "warning",
    where: "a",
    break: "ip link set eth0 address 02:00:00:00:00:99",
    says: /has MAC 02:00:00:00:00:99, and ADD has given it /,
  },
  {
    rule: "container-mtu",
    severity: "warning",
    where: "line",
    break: "ip link set eth0 mtu 1450",
    says: /has MTU 1450, and its end on the host, "veth.*", 1400$/,
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
    says: /does not have 10\.85\.0\.2\/24, which ADD has given it$/,
  },
  {
    rule: "container-address-missing",
    severity: "error",
    where: "line",
    break: "ip -6 address flush dev eth0 scope global",
    says: /does not have fd86::2\/64, which ADD has given it$/,
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
    says: /does not have the default route via 10\.85\.0\.1: it is via 10\.85\.0\.77 instead$/,
  },
  {
    rule: "container-route-missing",
    severity: "error",
    where: "a",
    break: "ip route replace blackhole default",
    says: /does not have the default route via 10\.85\.0\.1: it is a route that drops packets instead$/,
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
    says: /has no route to its own network: the route to 10\.85\.0\.0\/24 is not there$/,
  },
  {
    rule: "container-network-route",
    severity: "error",
    where: "line",
    break: "ip route delete 10.86.0.1",
    says: /has no route to its own network: the route to 10\.86\.0\.1\/32 is not there$/,
  },
  {
    rule: "neighbour-wrong",
    severity: "error",
    where: "a",
    break: "ip neighbour replace 10.85.0.1 lladdr 02:00:00:00:00:98 nud permanent dev eth0",
    says: /has a static neighbour 10\.85\.0\.1 with MAC 02:00:00:00:00:98, and 10\.85\.0\.1 has /,
  },
  {
    rule: "neighbour-wrong",
    severity: "error",
    where: "a",
    break: "ip neighbour replace 10.85.0.3 lladdr 02:00:00:00:00:98 nud permanent dev eth0",
    says: /has a static neighbour 10\.85\.0\.3 with MAC 02:00:00:00:00:98, and 10\.85\.0\.3 has /,
  },
  {
    rule: "gateway-silent",
    severity: "warning",
    where: "lan",
    break: "ip neighbour replace 10.87.0.254 nud failed dev eth0",
    says: /^the gateway 10\.87\.0\.254 has not answered interface "eth0" of "lan\//,
  },
]

test("the node is healthy", async () => {
  expect(await findings(node)).toEqual([])
})

test.each(faults.map((fault) => [`${fault.rule}: ${fault.break}, on ${fault.where}`, fault] as const))(
  "%s: found, mended by the pasted remedy, and found no more",
  async (_, { rule, severity, where, break: command, says, besides = [] }) => {
    const broken = where === "host" ? node.lab.host : node.pods[where]
    await broken.exec("sh", ["-ec", command])
    const found = await findings(node)
    expect(found.map((each) => each.rule).sort()).toEqual([rule, ...besides].sort())
    const finding = found.find((each) => each.rule === rule)
    expect(finding).toMatchObject({ severity, what: expect.stringMatching(says), pasteable: true })
    await node.lab.host.exec("sh", ["-ec", finding?.remedy ?? "false"])
    expect(await findings(node)).toEqual([])
  },
)
