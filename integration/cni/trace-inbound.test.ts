import { expect, test } from "bun:test"
import {
  askEcho,
  type ContainerNamespace,
  chooseIptables,
  EchoPeer,
  type EchoQuestion,
  expectNoEcho,
  expectUnchanged,
  takeSnapshot,
  writeSysctl,
} from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

const [bridge, portmap] = podsNetwork.plugins as [Record<string, unknown>, object]

const networkWith = (more: object) => ({
  ...podsNetwork,
  plugins: [
    {
      ...bridge,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.85.0.0/24" }], [{ subnet: "fd00:85::/64" }]] },
    },
    { ...portmap, ...more },
  ],
})

const portMappings = [
  { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  { hostPort: 8081, containerPort: 81, protocol: "tcp" },
  { hostPort: 8082, containerPort: 80, protocol: "tcp", hostIP: "192.0.2.2" },
  { hostPort: 8053, containerPort: 80, protocol: "udp" },
]

/** Creates a node with a pod that publishes ports, and another machine with two links to the node. */
async function scene(more: object = {}) {
  const lab = await NodeLab.create(networkWith(more))
  const { host } = lab
  if ("backend" in more) await chooseIptables(host, "nf_tables")
  const outside = await host.addContainer("outside")
  for (const [name, peer, own, its, own6, its6] of [
    ["out0", "out1", "192.0.2.2/24", "192.0.2.1/24", "2001:db8::2/64", "2001:db8::1/64"],
    ["alt0", "alt1", "203.0.113.2/24", "203.0.113.1/24", "2001:db8:1::2/64", "2001:db8:1::1/64"],
  ] as const) {
    await host.exec("ip", ["link", "add", name, "type", "veth", "peer", "name", peer, "netns", outside.name])
    for (const [where, dev, addresses] of [
      [host, name, [own, own6]],
      [outside, peer, [its, its6]],
    ] as const) {
      for (const address of addresses) await where.exec("ip", ["address", "add", address, "dev", dev, "nodad"])
      await where.exec("ip", ["link", "set", dev, "up"])
    }
  }
  await outside.exec("ip", ["address", "add", "198.51.100.9/32", "dev", "out1"])
  const pod = await host.addContainer()
  const added = await lab.cni(["add", "pods", pod.path, "--container-id", pod.name], {
    CAP_ARGS: JSON.stringify({ portMappings }),
    CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web",
  })
  expect(added).toMatchObject({ exitCode: 0 })
  return { lab, outside, pod, server: await EchoPeer.start(pod, { port: 80 }) }
}

interface Hop {
  where: string
  what: string
  passes: "yes" | "no" | "perhaps"
  isAnswer?: true
}

const nft = ({ host }: NodeLab, hook: string, ...rules: string[]) =>
  host.exec("nft", ["-f", "-"], {
    input: `table inet guard {\n chain c {\n type ${hook};\n${rules.join("\n")}\n}\n}\n`,
  })

async function iptables(host: NodeLab["host"], ...rules: string[]): Promise<void> {
  for (const rule of rules) await host.exec("iptables", ["-A", "FORWARD", ...rule.split(" ")])
}

interface Case {
  readonly name: string
  readonly arrives: boolean
  readonly says: RegExp
  /** The connection, by default TCP from 192.0.2.1 to 192.0.2.2:8080. */
  readonly ask?: Partial<EchoQuestion>
  readonly args?: readonly string[]
  readonly network?: object
  readonly seed?: (lab: NodeLab, outside: ContainerNamespace, pod: ContainerNamespace) => Promise<unknown>
}

const from = (source: string, port = 8080) => ["--from", source, "--to-port", String(port)]

/** Connections from another machine. `cni trace` must report the result of the real connection. */
const cases: readonly Case[] = [
  {
    name: "an open port",
    arrives: true,
    says: /received by "out0".*port 8080 of the host is forwarded to 10\.85\.0\.2:80.*it reaches pod shop\/web.*from 10\.85\.0\.2:80 by "eth0" to gateway 10\.85\.0\.1.*the packet leaves the host by "out0" for 192\.0\.2\.1, with source 192\.0\.2\.2:8080/s,
  },
  {
    name: "an open port, published by iptables",
    arrives: true,
    says: /port 8080 of the host is forwarded to 10\.85\.0\.2:80/,
    network: { backend: "iptables" },
  },
  {
    name: "a port that nothing publishes",
    ask: { port: 8099 },
    args: from("192.0.2.1", 8099),
    arrives: false,
    says: /no process listens on TCP port 8099 on the host/,
  },
  {
    name: "a published port on which nothing listens in the container",
    ask: { port: 8081 },
    args: from("192.0.2.1", 8081),
    arrives: false,
    says: /no process listens on TCP port 81 in the container/,
  },
  {
    name: "a firewall drops the answer",
    arrives: false,
    says: /dropped by rule \d+ of chain inet guard c/,
    seed: (lab) => nft(lab, "filter hook forward priority 0", "tcp sport 80 tcp flags & (syn|ack) == (syn|ack) drop"),
  },
  {
    name: "a firewall accepts other sources",
    arrives: false,
    says: /dropped by rule \d+ of chain inet guard c/,
    seed: (lab) => nft(lab, "filter hook forward priority 0", "ip saddr != 203.0.113.0/24 tcp dport 80 drop"),
  },
  {
    name: "a firewall accepts this source",
    arrives: true,
    says: /the packet leaves the host by "out0"/,
    seed: (lab) => nft(lab, "filter hook forward priority 0", "tcp dport 80 ip saddr != 192.0.2.0/24 drop"),
  },
  {
    name: "a firewall of iptables accepts this source alone, and what is established",
    arrives: true,
    says: /the packet leaves the host by "out0"/,
    network: { backend: "iptables" },
    seed: ({ host }) =>
      iptables(
        host,
        "-p tcp --dport 80 ! -s 192.0.2.0/24 -j DROP",
        "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-m conntrack --ctstate DNAT -j ACCEPT",
        "-j DROP",
      ),
  },
  {
    name: "a firewall of iptables drops what comes from the pod's port",
    arrives: false,
    says: /dropped by rule \d+ of chain ip filter FORWARD/,
    network: { backend: "iptables" },
    seed: ({ host }) => iptables(host, "-p tcp --sport 80 --tcp-flags SYN,ACK SYN,ACK -j DROP"),
  },
  {
    name: "a firewall drops early what comes back",
    arrives: false,
    says: /dropped by rule \d+ of chain inet guard c/,
    seed: (lab) => nft(lab, "filter hook prerouting priority -300", 'iifname "cni0" tcp sport 80 drop'),
  },
  {
    name: "the host has no route back",
    args: from("198.51.100.9"),
    arrives: false,
    says: /the host has no route to 198\.51\.100\.9/,
    seed: (_, outside) => outside.exec("ip", ["route", "add", "192.0.2.2", "dev", "out1", "src", "198.51.100.9"]),
  },
  {
    name: "the host has a blackhole for the source",
    args: from("198.51.100.9"),
    arrives: false,
    says: /the host has a route or rule of type blackhole for 198\.51\.100\.9/,
    seed: async ({ host }, outside) => {
      await outside.exec("ip", ["route", "add", "192.0.2.2", "dev", "out1", "src", "198.51.100.9"])
      await host.exec("ip", ["route", "add", "blackhole", "198.51.100.9"])
    },
  },
  {
    name: "from behind a gateway",
    args: from("198.51.100.9"),
    arrives: true,
    says: /the packet leaves the host by "out0" for 198\.51\.100\.9/,
    seed: async ({ host }, outside) => {
      await outside.exec("ip", ["route", "add", "192.0.2.2", "dev", "out1", "src", "198.51.100.9"])
      await host.exec("ip", ["route", "add", "198.51.100.0/24", "via", "192.0.2.1"])
      await host.exec("ping", ["-c1", "192.0.2.1"]) // resolves the gateway's MAC address
    },
  },
  {
    name: "the container takes the source for a neighbour",
    arrives: false,
    says: /the answer does not return through this host/,
    seed: (_, __, pod) => pod.exec("ip", ["route", "add", "192.0.2.0/24", "dev", "eth0"]),
  },
  {
    name: "rp_filter is strict where it comes in, and the way back is another",
    ask: { address: "203.0.113.2" },
    args: ["--from", "192.0.2.1", "--to", "203.0.113.2:8080", "--in", "alt0"],
    arrives: false,
    says: /rp_filter of "alt0" is 1: the host drops packets from 192\.0\.2\.1, and its route to the address is by "out0"/,
    seed: async ({ host }, outside) => {
      await writeSysctl(host, "net/ipv4/conf/alt0/rp_filter", "1")
      await outside.exec("ip", ["route", "add", "203.0.113.2", "dev", "alt1", "src", "192.0.2.1"])
    },
  },
  {
    name: "the way back is another, and rp_filter is off",
    ask: { address: "203.0.113.2" },
    args: ["--from", "192.0.2.1", "--to", "203.0.113.2:8080", "--in", "alt0"],
    arrives: true,
    says: /received by "alt0".*the packet leaves the host by "out0" for 192\.0\.2\.1, with source 203\.0\.113\.2:8080/s,
    seed: (_, outside) => outside.exec("ip", ["route", "add", "203.0.113.2", "dev", "alt1", "src", "192.0.2.1"]),
  },
  {
    name: "a port of one address of the host, at that address",
    ask: { port: 8082 },
    args: ["--from", "192.0.2.1", "--to", "192.0.2.2:8082"],
    arrives: true,
    says: /port 8082 of the host is forwarded to 10\.85\.0\.2:80/,
  },
  {
    name: "a port of one address of the host, at another",
    ask: { address: "203.0.113.2", port: 8082 },
    args: ["--from", "203.0.113.1", "--to", "203.0.113.2:8082"],
    arrives: false,
    says: /no process listens on TCP port 8082 on the host/,
  },
  {
    name: "UDP",
    ask: { transport: "udp", port: 8053 },
    args: [...from("192.0.2.1", 8053), "--udp"],
    arrives: true,
    says: /port 8053 of the host is forwarded to 10\.85\.0\.2:80/,
  },
  {
    name: "UDP to a port that is published for TCP",
    ask: { transport: "udp" },
    args: [...from("192.0.2.1"), "--udp"],
    arrives: false,
    says: /no process listens on UDP port 8080 on the host/,
  },
  {
    name: "IPv6",
    ask: { address: "2001:db8::2" },
    args: from("2001:db8::1"),
    arrives: true,
    says: /port 8080 of the host is forwarded to \[fd00:85::2\]:80.*for 2001:db8::1, with source \[2001:db8::2\]:8080/s,
  },
  {
    name: "IPv6, and a firewall drops the answer",
    ask: { address: "2001:db8::2" },
    args: from("2001:db8::1"),
    arrives: false,
    says: /dropped by rule \d+ of chain inet guard c/,
    seed: (lab) => nft(lab, "filter hook forward priority 0", "ip6 saddr fd00:85::/64 tcp sport 80 drop"),
  },
  {
    name: "it is masqueraded on its way in",
    arrives: true,
    says: /masqueraded by rule \d+ of chain inet guard c.*the packet leaves the host by "out0" for 192\.0\.2\.1/s,
    seed: (lab) => nft(lab, "nat hook postrouting priority 200", 'oifname "cni0" masquerade'),
  },
]

test.each(cases.map((one) => [one.name, one] as const))(
  "%s: what is read is what a connection from outside meets",
  async (_, { arrives, says, ask, args = from("192.0.2.1"), network, seed }) => {
    const { lab, outside, pod, server } = await scene(network)
    await using _lab = lab
    await using _server = server
    await seed?.(lab, outside, pod)
    const before = await takeSnapshot(lab.host)
    const { stdout, stderr, exitCode } = await lab.cni(["trace", ...args, "--json"])
    expect(stderr).toBe("")
    expectUnchanged(before, await takeSnapshot(lab.host))
    const { hops } = JSON.parse(stdout) as { hops: Hop[] }
    expect(hops.map(({ what }) => what).join("\n")).toMatch(says)
    expect({ passes: hops.at(-1)?.passes, exitCode }).toEqual(
      arrives ? { passes: "yes", exitCode: 0 } : { passes: "no", exitCode: 3 },
    )
    const question: EchoQuestion = { transport: "tcp", address: "192.0.2.2", port: 8080, ...ask }
    await (arrives ? askEcho(outside, question) : expectNoEcho(outside, question))
  },
)

test("a port of the host itself: whether a process listens, and what becomes of the answer", async () => {
  const { lab, outside, server } = await scene()
  await using _lab = lab
  await using _server = server
  const question: EchoQuestion = { transport: "tcp", address: "192.0.2.2", port: 9000 }
  const read = async () => {
    const { stdout, exitCode } = await lab.cni(["trace", ...from("192.0.2.1", 9000), "--json"])
    return [exitCode, (JSON.parse(stdout) as { hops: Hop[] }).hops.map(({ what }) => what).join("\n")]
  }
  expect(await read()).toEqual([3, expect.stringContaining("no process listens on TCP port 9000 on the host")])
  await expectNoEcho(outside, question)
  await using _own = await EchoPeer.start(lab.host, { port: 9000 })
  expect(await read()).toEqual([0, expect.stringContaining('the packet leaves the host by "out0" for 192.0.2.1')])
  await askEcho(outside, question)
  await nft(lab, "filter hook output priority 0", "tcp sport 9000 drop")
  expect(await read()).toEqual([3, expect.stringMatching(/dropped by rule \d+ of chain inet guard c/)])
  await expectNoEcho(outside, question)
})

test("the answer has a part of its own, and where it comes in by another interface is told as open", async () => {
  const { lab, server } = await scene()
  await using _lab = lab
  await using _server = server
  await writeSysctl(lab.host, "net/ipv4/conf/alt0/rp_filter", "1")
  const { stdout } = await lab.onTerminal(["trace", ...from("192.0.2.1")])
  expect(stdout).toMatch(
    /^ok {4}host {8}from 192\.0\.2\.1 to 192\.0\.2\.2:8080, received by "out0"\r\n[\s\S]*\r\nthe answer:\r\nok {4}container {3}from/,
  )
  const other = await lab.cni(["trace", "--from", "192.0.2.1", "--to", "203.0.113.2:8080", "--json"])
  const { hops } = JSON.parse(other.stdout) as { hops: Hop[] }
  expect(hops.find(({ passes }) => passes === "perhaps")?.what).toMatch(
    /"alt0"; if the packet arrives there: rp_filter of "alt0" is 1/,
  )
  expect([other.exitCode, hops.at(-1)?.passes]).toEqual([0, "perhaps"])
})

test("what cannot be traced from outside is said", async () => {
  await using lab = await NodeLab.create()
  const run = (...args: string[]) => lab.cni(["trace", ...args])
  for (const [args, says] of [
    [["--from", "nowhere", "--to-port", "80"], "cannot use --from nowhere"],
    [["--from", "192.0.2.1"], "name the destination: --to-port PORT or --to ADDRESS[:PORT]"],
    [["--from", "192.0.2.1", "--to-port", "0"], "cannot use --to-port 0"],
    [["--from", "192.0.2.1", "--to", "[2001:db8::2]:80"], "are of different families"],
    [["pods", "demo", "--from", "192.0.2.1", "--to-port", "80"], "cannot use --from ADDRESS with NETWORK"],
    [["pods", "demo", "--to-port", "80"], "--to-port and --in need --from"],
    [["pods"], "name the sender"],
  ] as const)
    expect(await run(...args)).toMatchObject({ exitCode: 2, stdout: "", stderr: expect.stringContaining(says) })
  const own = await run("--from", "127.0.0.1", "--to-port", "80")
  expect(own).toMatchObject({ exitCode: 3, stdout: expect.stringContaining("an address of the host itself") })
})
