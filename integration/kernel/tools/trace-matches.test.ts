/** Compares how `cni trace` and the kernel match rules: by the rules' counters after the test sent a packet. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { Netns } from "../../../pkg/netns/mod.ts"
import { parseIp } from "../../../pkg/types/mod.ts"
import { readPacketFilter } from "../../../tools/node/mod.ts"
import { Choices, evaluate, HostKernel, NO_LABELS, type Packet, u32Bits } from "../../../tools/packets/mod.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"

/** A host with an uplink out0 and a container with 10.85.0.2 on the bridge br0. */
interface Scene {
  readonly host: HostNamespace
  readonly pod: ContainerNamespace
}

async function createScene(): Promise<Scene> {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  const onHost = [
    "link add br0 type bridge",
    "link set br0 up addrgenmode none",
    "address add 10.85.0.1/24 dev br0",
    `link add veth1 type veth peer name eth0 netns ${pod.name}`,
    "link set veth1 up master br0 addrgenmode none",
    "link add out0 type veth peer name out1",
    "link set out0 up",
    "link set out1 up",
    "address add 192.0.2.2/24 dev out0",
    "neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev out0",
  ]
  const inPod = ["link set eth0 up", "address add 10.85.0.2/24 dev eth0", "route add default via 10.85.0.1"]
  await host.exec("ip", ["-batch", "-"], { input: `${onHost.join("\n")}\n` })
  await pod.exec("ip", ["-batch", "-"], { input: `${inPod.join("\n")}\n` })
  await host.exec("sysctl", ["-qw", "net.ipv4.ip_forward=1"])
  return { host, pod }
}

let scene: Scene
beforeAll(async () => {
  scene = await createScene()
})
afterAll(() => scene.host[Symbol.asyncDispose]())

const ip = (text: string) => parseIp(text) ?? expect.unreachable()
const [source, destination] = [ip("10.85.0.2"), ip("192.0.2.1")]
const arriving: Packet = {
  source,
  destination,
  protocol: 6,
  destinationPort: 80,
  input: "br0",
  output: "",
  mark: u32Bits(0),
  connectionMark: u32Bits(0),
  connectionLabels: NO_LABELS,
  tracking: "new",
  original: { source, destination, destinationPort: 80 },
  isDestinationMapped: false,
  isSourceMapped: false,
  isBridged: false,
}

/** Sends the first TCP segment of a connection from the container, which gets no answer. */
const send = () => scene.pod.tryExec("busybox", ["nc", "-w", "1", "192.0.2.1", "80"])

interface Listed {
  rule?: { chain: string; table: string; handle: number; expr: { counter?: { packets: number } }[] }
}

/** Returns for each rule of a chain whether the kernel counted a packet, and whether `cni trace` finds a match. */
async function compare(table: string, chain: string, packet: Packet) {
  await send()
  const { stdout } = await scene.host.exec("nft", ["-j", "list", "ruleset"])
  const listed = (JSON.parse(stdout) as { nftables: Listed[] }).nftables.flatMap(({ rule }) =>
    rule?.table === table && rule.chain === chain ? rule : [],
  )
  const counted = listed.map(({ expr }) => (expr.find(({ counter }) => counter)?.counter?.packets ?? 0) > 0)
  using namespace = Netns.open(scene.host.path)
  const read = namespace.run(() => {
    using kernel = new HostKernel()
    const rules = readPacketFilter()?.rules ?? []
    const own = rules.filter((rule) => rule.chain.table.name === table && rule.chain.name === chain)
    return own.map((rule) => evaluate(rule, packet, kernel, new Choices()).matches)
  })
  return { counted: counted.map((has) => (has ? "yes" : "no")), read }
}

const iptables = [
  ..."-m addrtype --dst-type LOCAL|-m addrtype ! --dst-type LOCAL|-m addrtype --src-type UNICAST".split("|"),
  ..."-m addrtype --src-type LOCAL|-m addrtype --src-type UNICAST --dst-type UNICAST".split("|"),
  ..."-m addrtype --dst-type MULTICAST,BROADCAST|-m addrtype --limit-iface-in --src-type LOCAL".split("|"),
  ..."-m conntrack --ctstate NEW|-m conntrack --ctstate RELATED,ESTABLISHED|-m conntrack ! --ctstate INVALID".split(
    "|",
  ),
  ..."-m conntrack --ctstate INVALID|-m conntrack --ctstate DNAT|-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT".split(
    "|",
  ),
  ..."-m conntrack --ctdir ORIGINAL|-m conntrack --ctdir REPLY|-m conntrack --ctstate UNTRACKED".split("|"),
  ..."-m state --state NEW|-m state ! --state NEW|-m state --state ESTABLISHED".split("|"),
  ..."-m mark --mark 0|-m mark --mark 0x4000/0x4000|-m mark ! --mark 0x4000/0x4000|-m connmark --mark 0".split("|"),
  ..."-m connmark --mark 0x1/0x1|-m connmark ! --mark 0x1/0x1|-m comment --comment why".split("|"),
  ..."-p tcp -m tcp --dport 80|-p tcp -m tcp --dport 1:79|-p tcp -m tcp ! --dport 80|-p tcp -m tcp --syn".split("|"),
  ..."-p tcp -m tcp ! --syn|-p tcp -m tcp --tcp-flags ALL ACK|-p tcp -m tcp|-p udp -m udp --dport 80".split("|"),
  ..."-p tcp -m multiport --dports 22,80|-p tcp -m multiport --dports 20:79,81:90|-p tcp -m multiport ! --dports 22".split(
    "|",
  ),
  ..."-p tcp -m multiport --dports 20:90|-p icmp -m icmp --icmp-type 8|-m iprange --dst-range 192.0.2.1-192.0.2.9".split(
    "|",
  ),
  ..."-m iprange --dst-range 192.0.2.2-192.0.2.9|-m iprange ! --dst-range 192.0.2.2-192.0.2.9".split("|"),
  ..."-m iprange --src-range 10.85.0.2-10.85.0.2 --dst-range 192.0.2.0-192.0.2.1".split("|"),
  ..."-m pkttype --pkt-type unicast|-m pkttype --pkt-type broadcast|-m pkttype ! --pkt-type multicast".split("|"),
  ..."-m recent --set --name cni-set --rsource|-m recent --rcheck --name cni-none --rsource".split("|"),
  ..."-m recent ! --rcheck --name cni-none --rsource|-s 10.85.0.0/24|! -s 10.85.0.0/16|-d 192.0.2.1/32".split("|"),
  ..."-i br0|-i br+|! -i br0|-o out0|! -o out0|-m physdev --physdev-is-bridged|-m physdev ! --physdev-is-bridged".split(
    "|",
  ),
  "-m statistic --mode random --probability 1",
]

test("matches of iptables", async () => {
  const rules = iptables.map((rule) => `-A FORWARD ${rule}`)
  const input = ["*filter", ":FORWARD ACCEPT", ...rules, "COMMIT", ""].join("\n")
  await scene.host.exec("iptables-restore", ["--noflush"], { input })
  try {
    const { counted, read } = await compare("filter", "FORWARD", { ...arriving, output: "out0" })
    expect(counted).toHaveLength(iptables.length)
    expect(counted.filter((each) => each === "yes").length).toBeGreaterThan(20)
    const named = (answers: readonly string[]) => iptables.map((rule, at) => `${rule}: ${answers[at]}`)
    expect(named(read)).toEqual(named(counted))
  } finally {
    await scene.host.exec("nft", ["flush", "ruleset"])
  }
})

test("the reverse path, by iptables' rpfilter before anything is routed", async () => {
  const rules = ["-m rpfilter", "-m rpfilter --invert", "-m rpfilter --loose", "-m rpfilter --loose --invert"]
  const input = [
    "*raw",
    ":PREROUTING ACCEPT",
    ...rules.map((rule) => `-A PREROUTING -s 10.85.0.2 ${rule}`),
    "COMMIT",
    "",
  ]
  for (const route of [[], ["route", "add", "10.85.0.2", "dev", "out0"]]) {
    if (route.length > 0) await scene.host.exec("ip", route)
    await scene.host.exec("iptables-restore", [], { input: input.join("\n") })
    const { counted, read } = await compare("raw", "PREROUTING", { ...arriving, tracking: "none" })
    await scene.host.exec("nft", ["flush", "ruleset"])
    expect(counted.filter((each) => each === "yes")).toHaveLength(2)
    expect(read).toEqual(counted)
  }
  await scene.host.exec("ip", ["route", "del", "10.85.0.2", "dev", "out0"])
})

const nft = [
  ..."ip daddr 192.0.2.0/24|ip daddr { 192.0.2.0/24, 10.0.0.0/8 }|ip daddr != { 192.0.2.0/24 }".split("|"),
  ..."ip daddr { 192.0.2.2-192.0.2.9 }|ip daddr { 192.0.2.1, 192.0.2.9 }|tcp dport 30000-32767|tcp dport != 5-6".split(
    "|",
  ),
  ..."tcp dport { 22, 70-90 }|tcp dport { 22, 81-90 }|ip daddr . tcp dport { 192.0.2.1 . 80 }".split("|"),
  ..."ip daddr . tcp dport { 192.0.2.0/24 . 80-90 }|ip daddr . tcp dport { 192.0.2.0/24 . 81-90 }|meta mark 0".split(
    "|",
  ),
  ..."meta mark & 0x4000 == 0x4000|meta mark < 5|ct state new|ct state { established, related }|ct status dnat".split(
    "|",
  ),
  ..."ct direction original|ct direction reply|ct mark 0|ct mark 1|ct original ip daddr 192.0.2.1|ct zone 0".split("|"),
  ..."ct protocol tcp|ct l3proto ipv4|fib daddr type local|fib daddr type unicast".split("|"),
  ..."fib saddr type local|fib saddr . iif oif missing|fib saddr . iif oif exists|fib saddr . iif oifname br0".split(
    "|",
  ),
  ..."fib daddr oifname out0|fib daddr oifname br0|tcp flags syn|tcp flags & (fin\u2016syn\u2016rst\u2016ack) == syn|tcp flags ack".split(
    "|",
  ),
  ..."ip frag-off & 0x1fff != 0|meta skuid 0|meta l4proto tcp|meta l4proto { udp, tcp }|meta protocol ip|meta nfproto ipv6".split(
    "|",
  ),
  ..."meta pkttype host|iifname br*|iifname { out0, br0 }|oifname out0|oifname != out0|ip protocol udp|ip saddr 10.85.0.2".split(
    "|",
  ),
  ..."ip saddr & 255.255.0.0 == 10.85.0.0|tcp dport >= 80|tcp dport > 80".split("|"),
].map((rule) => rule.replaceAll("\u2016", "|"))

test("matches of nft", async () => {
  const lines = nft.map((rule) => `    ${rule} counter`)
  const input = `table inet guard {\n  chain c {\n    type filter hook forward priority 0\n${lines.join("\n")}\n  }\n}\n`
  await scene.host.exec("nft", ["-f", "-"], { input })
  try {
    const { counted, read } = await compare("guard", "c", { ...arriving, output: "out0" })
    expect(counted).toHaveLength(nft.length)
    expect(counted.filter((each) => each === "yes").length).toBeGreaterThan(20)
    const named = (answers: readonly string[]) => nft.map((rule, at) => `${rule}: ${answers[at]}`)
    expect(named(read)).toEqual(named(counted))
  } finally {
    await scene.host.exec("nft", ["flush", "ruleset"])
  }
})
