/**
 * What the tests of `cni trace` share: the way of a packet is read in this process, which is in the host's namespace in
 * the meantime.
 */
import { Netns } from "../../../pkg/netns/mod.ts"
import { type Node, type NodeAttachment, readLinks, readPacketFilter } from "../../../tools/node/mod.ts"
import { type Hop, walk } from "../../../tools/packets/mod.ts"
import { parseDestination } from "../../../tools/trace/mod.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"

/** Runs several commands of ip(8). */
export const batch = (on: HostNamespace | ContainerNamespace, lines: readonly string[]) =>
  on.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })

/** A host with two containers on the bridge br0, 10.85.0.2 and .3, and a way out by out0. */
export interface Scene {
  readonly host: HostNamespace
  readonly pod: ContainerNamespace
}

export async function createScene(): Promise<Scene> {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  const server = await host.addContainer("server")
  await batch(host, [
    "link add br0 type bridge",
    "link set br0 up addrgenmode none",
    "address add 10.85.0.1/24 dev br0",
    "address add fd00::1/64 dev br0 nodad",
    `link add veth1 type veth peer name eth0 netns ${pod.name}`,
    `link add veth2 type veth peer name eth0 netns ${server.name}`,
    "link set veth1 up master br0 addrgenmode none",
    "link set veth2 up master br0 addrgenmode none",
    "link add out0 type veth peer name out1",
    "link set out0 up",
    "link set out1 up",
    "address add 192.0.2.2/24 dev out0",
    "neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev out0",
    "route add 203.0.113.0/24 via 192.0.2.1",
  ])
  for (const [one, last] of [
    [pod, 2],
    [server, 3],
  ] as const) {
    await batch(one, [
      "link set lo up",
      "link set eth0 up addrgenmode none",
      `address add 10.85.0.${last}/24 dev eth0`,
      `address add fd00::${last}/64 dev eth0 nodad`,
      "route add default via 10.85.0.1",
    ])
  }
  await host.exec("sysctl", ["-qw", "net.ipv4.ip_forward=1"])
  await filterFrames(host, "0")
  return { host, pod }
}

/** Says whether frames pass the packet filter, where there is br_netfilter. */
export async function filterFrames(host: HostNamespace, value: "0" | "1"): Promise<void> {
  const script = `cd /proc/sys/net/bridge 2>/dev/null || exit 0; echo ${value} | tee bridge-nf-call-iptables bridge-nf-call-ip6tables`
  await host.exec("sh", ["-c", script])
}

/** The ports that are published on the host, all of the second container. */
export const ports = [
  { hostPort: "8080/tcp", port: 8080, protocol: "tcp", to: "10.85.0.3:80", owner: "pods/c2/eth0" },
  { hostPort: "192.0.2.2:53/udp", port: 53, protocol: "udp", to: "10.85.0.3:5353", owner: "pods/c2/eth0" },
  { hostPort: "8080/tcp", port: 8080, protocol: "tcp", to: "[fd00::3]:80", owner: "pods/c2/eth0" },
]

const attachmentOf = (containerId: string, addresses: readonly string[]): NodeAttachment => ({
  network: "pods",
  containerId,
  ifName: "eth0",
  sources: [],
  addresses,
  ports: [],
  unservedPorts: [],
  rules: [],
  orphan: [],
})

/** Each hop as "where: what", with what becomes of the packet unless it goes on. */
export function waysOf(
  { host, pod }: Scene,
  to: string,
  change: Partial<NodeAttachment> = {},
  mapped = ports,
  isUdp = false,
): string[] {
  using namespace = Netns.open(host.path)
  using sandbox = Netns.open(pod.path)
  const hops = namespace.run((): readonly Hop[] => {
    const links = readLinks()
    const link = (name: string) => links.filter((each) => each.nsid === undefined && each.name === name).slice(0, 1)
    const [own] = link("veth1")
    const attachment = {
      ...attachmentOf("c1", ["10.85.0.2/24", "fd00::2/64"]),
      ...(own ? { link: own } : {}),
      ...change,
    }
    const [end] = link("veth2")
    const other = { ...attachmentOf("c2", ["10.85.0.3", "fd00::3"]), pod: { namespace: "shop", name: "db" } }
    const attachments = [attachment, { ...other, ...(end ? { link: end } : {}) }]
    const node = { links, networks: [], rules: { owned: [], ports: mapped } } as unknown as Node
    return walk({ node, attachments, attachment, filter: readPacketFilter() }, sandbox, parseDestination(to, isUdp))
      .hops
  })
  return hops.map(({ where, what, passes }) => `${where}: ${what}${passes === "yes" ? "" : ` [${passes}]`}`)
}

/** The first hops: by the container's gateway, and to its own network. */
export const BY_GATEWAY = [
  'container: from 10.85.0.2 by "eth0" to gateway 10.85.0.1',
  'bridge: port "veth1" of bridge "br0"',
]
export const DIRECTLY = ['container: from 10.85.0.2 by "eth0", directly', BY_GATEWAY[1] ?? ""]
/** Hooks at which no rule says anything. */
export const none = (...hooks: string[]) => hooks.map((hook) => `filter: no rule at ${hook} stops it`)
/** The output for packets that leave the host unchanged. */
export const LEFT = "no rule masquerades it: 10.85.0.2 has to be routed back to this host"

/** The function that reads a packet after the scene. */
export type Packet = Parameters<typeof waysOf> extends [Scene, ...infer Rest] ? Rest : never
