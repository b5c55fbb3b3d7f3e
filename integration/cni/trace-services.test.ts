/**
 * Tests `cni trace` on nodes with kube-proxy's rules for services, in iptables and in nftables. The result of trace
 * must agree with real connections.
 */
import { expect, test } from "bun:test"
import { type ContainerNamespace, startDaemon, testWith, waitFor, writeSysctl } from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

interface Hop {
  where: string
  what: string
  passes: "yes" | "no" | "perhaps"
  way?: number
}

/**
 * Creates a node with services and three pods: "client" 10.85.0.2, and the servers "one" 10.85.0.3 and "two" 10.85.0.4
 * on port 80. `rules` adds the services.
 */
async function services(rules: (lab: NodeLab) => Promise<unknown>, filtersFrames: "0" | "1" = "1", network?: object) {
  const lab = await NodeLab.create(network)
  const client = await lab.addPod("client")
  const servers = [await lab.addPod("one"), await lab.addPod("two")]
  for (const pod of [client, ...servers]) {
    await startDaemon(pod.commandLine(["busybox", "nc", "-ll", "-p", "80", "-e", "true"]))
    const sockets = async () => (await pod.exec("cat", ["/proc/net/tcp6", "/proc/net/tcp"])).stdout
    await waitFor(() => sockets().then((text) => text.includes(":0050 ")), "a server")
  }
  await lab.host.exec("ip", ["link", "add", "out0", "type", "veth", "peer", "name", "out1"])
  await lab.host.exec("ip", ["link", "set", "out0", "up"])
  await lab.host.exec("ip", ["link", "set", "out1", "up"])
  await lab.host.exec("ip", ["address", "add", "192.0.2.2/24", "dev", "out0"])
  await lab.host.exec("ip", ["route", "add", "default", "via", "192.0.2.1"])
  await rules(lab)
  await writeSysctl(lab.host, "net/bridge/bridge-nf-call-iptables", filtersFrames)
  return { lab, client, servers }
}

async function trace(lab: NodeLab, pod: ContainerNamespace, to: string, ...args: string[]) {
  const { stdout, stderr, exitCode } = await lab.cni(["trace", "pods", pod.path, "--to", to, "--json", ...args])
  expect(stderr).toBe("")
  const { hops, probe } = JSON.parse(stdout) as { hops: Hop[]; probe?: { outcome: string } }
  return { hops, probe: probe?.outcome, exitCode, ends: hops.filter(({ where }) => where === "end") }
}

/** Returns the different results of several probes, because a service distributes the probes among its pods. */
async function probes(lab: NodeLab, pod: ContainerNamespace, to: string, count: number): Promise<string[]> {
  const found = new Set<string>()
  for (let at = 0; at < count; at++) found.add((await trace(lab, pod, to, "--probe")).probe ?? "")
  return [...found].sort()
}

/**
 * Adds the rules of kube-proxy in iptables mode for two services: shop/db with `endpoints`, and a service without
 * endpoints.
 */
const byIptables = (endpoints: readonly string[]) => (lab: NodeLab) => {
  const share = (at: number) =>
    at + 1 < endpoints.length
      ? ` -m statistic --mode random --probability ${(1 / (endpoints.length - at)).toFixed(11)}`
      : ""
  const db = '-m comment --comment "shop/db"'
  const lines = [
    "*filter",
    ..."INPUT FORWARD OUTPUT".split(" ").map((chain) => `:${chain} ACCEPT`),
    ..."KUBE-EXTERNAL-SERVICES KUBE-FIREWALL KUBE-FORWARD KUBE-NODEPORTS KUBE-PROXY-FIREWALL KUBE-SERVICES"
      .split(" ")
      .map((chain) => `:${chain} -`),
    '-A INPUT -m conntrack --ctstate NEW -m comment --comment "load balancer firewall" -j KUBE-PROXY-FIREWALL',
    '-A INPUT -m comment --comment "health check service ports" -j KUBE-NODEPORTS',
    '-A INPUT -m conntrack --ctstate NEW -m comment --comment "external services" -j KUBE-EXTERNAL-SERVICES',
    "-A INPUT -j KUBE-FIREWALL",
    '-A FORWARD -m conntrack --ctstate NEW -m comment --comment "load balancer firewall" -j KUBE-PROXY-FIREWALL',
    '-A FORWARD -m comment --comment "forwarding rules" -j KUBE-FORWARD',
    '-A FORWARD -m conntrack --ctstate NEW -m comment --comment "service portals" -j KUBE-SERVICES',
    '-A FORWARD -m conntrack --ctstate NEW -m comment --comment "external services" -j KUBE-EXTERNAL-SERVICES',
    '-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "localnet" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
    "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP",
    '-A KUBE-FORWARD -m comment --comment "forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT',
    '-A KUBE-FORWARD -m comment --comment "conntrack" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    '-A KUBE-SERVICES -d 10.96.0.11/32 -p tcp -m comment --comment "shop/none has no endpoints" -m tcp --dport 80 -j REJECT',
    "COMMIT",
    "*nat",
    ..."PREROUTING INPUT OUTPUT POSTROUTING".split(" ").map((chain) => `:${chain} ACCEPT`),
    ..."KUBE-MARK-MASQ KUBE-NODEPORTS KUBE-POSTROUTING KUBE-SERVICES KUBE-SVC-DB"
      .split(" ")
      .map((chain) => `:${chain} -`),
    ...endpoints.map((_, at) => `:KUBE-SEP-${at} -`),
    '-A PREROUTING -m comment --comment "service portals" -j KUBE-SERVICES',
    '-A POSTROUTING -m comment --comment "postrouting rules" -j KUBE-POSTROUTING',
    "-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000",
    `-A KUBE-NODEPORTS -p tcp ${db} -m tcp --dport 30080 -j KUBE-SVC-DB`,
    "-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN",
    "-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000",
    '-A KUBE-POSTROUTING -m comment --comment "traffic requiring SNAT" -j MASQUERADE --random-fully',
    `-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp ${db} -m tcp --dport 80 -j KUBE-SVC-DB`,
    '-A KUBE-SERVICES -m comment --comment "nodeports" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
    `-A KUBE-SVC-DB ! -s 10.85.0.0/16 -d 10.96.0.10/32 -p tcp ${db} -m tcp --dport 80 -j KUBE-MARK-MASQ`,
    ...endpoints.map((_, at) => `-A KUBE-SVC-DB ${db}${share(at)} -j KUBE-SEP-${at}`),
    ...endpoints.flatMap((ip, at) => [
      `-A KUBE-SEP-${at} -s ${ip}/32 ${db} -j KUBE-MARK-MASQ`,
      `-A KUBE-SEP-${at} -p tcp ${db} -m tcp -j DNAT --to-destination ${ip}:80`,
    ]),
    "COMMIT",
    "",
  ]
  return lab.host.exec("iptables-restore", ["--noflush"], { input: lines.join("\n") })
}

/**
 * Adds the same services as kube-proxy in nftables mode: maps from services to chains, and a choice of the endpoint
 * with `numgen`.
 */
const byNft = (endpoints: readonly string[]) => (lab: NodeLab) => {
  const input = `table ip kube-proxy {
  set cluster-ips {
    type ipv4_addr
    elements = { 10.96.0.10, 10.96.0.11 }
  }
  map no-endpoint-services {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { 10.96.0.11 . tcp . 80 : goto reject-chain }
  }
  map service-ips {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { 10.96.0.10 . tcp . 80 : goto service-db }
  }
  map service-nodeports {
    type inet_proto . inet_service : verdict
    elements = { tcp . 30080 : goto service-db }
  }
  chain filter-prerouting {
    type filter hook prerouting priority -110
    ct state new jump firewall-check
  }
  chain filter-forward {
    type filter hook forward priority -110
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
  }
  chain nat-prerouting {
    type nat hook prerouting priority -100
    jump services
  }
  chain nat-postrouting {
    type nat hook postrouting priority 100
    jump masquerading
  }
  chain firewall-check {
  }
  chain service-endpoints-check {
    ip daddr . meta l4proto . th dport vmap @no-endpoint-services
  }
  chain cluster-ips-check {
    ip daddr @cluster-ips reject comment "reject traffic to invalid ports of ClusterIPs"
  }
  chain reject-chain {
    reject
  }
  chain mark-for-masquerade {
    meta mark set meta mark or 0x4000
  }
  chain masquerading {
    meta mark & 0x4000 == 0 return
    meta mark set meta mark xor 0x4000
    masquerade fully-random
  }
  chain services {
    ip daddr . meta l4proto . th dport vmap @service-ips
    ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @service-nodeports
  }
  chain service-db {
    ip daddr 10.96.0.10 tcp dport 80 ip saddr != 10.85.0.0/16 jump mark-for-masquerade
    numgen random mod ${endpoints.length} vmap { ${endpoints.map((_, at) => `${at} : goto endpoint-${at}`).join(", ")} }
  }
${endpoints
  .map(
    (ip, at) => `  chain endpoint-${at} {
    ip saddr ${ip} jump mark-for-masquerade
    meta l4proto tcp dnat to ${ip}:80
  }`,
  )
  .join("\n")}
}
`
  return lab.host.exec("nft", ["-f", "-"], { input })
}

const ends = (ip: string, name: string) => `it reaches pod shop/${name}, ${ip} port 80, by "cni0"`

for (const [mode, rules] of [
  ["iptables", byIptables],
  ["nft", byNft],
] as const) {
  testWith(
    ["br_netfilter"],
    `a service by ${mode} leads to each of its endpoints by chance, and nothing stays open`,
    async () => {
      const { lab, client, servers } = await services(rules(["10.85.0.3", "10.85.0.4", "10.85.0.2"]))
      await using _lab = lab
      for (const to of ["10.96.0.10:80", "192.0.2.2:30080"]) {
        const read = await trace(lab, client, to)
        expect(read.hops.filter(({ passes }) => passes !== "yes")).toEqual([])
        expect(read.ends.map(({ what, way }) => [way, what])).toEqual([
          [1, ends("10.85.0.3", "one")],
          [2, ends("10.85.0.4", "two")],
          [3, ends("10.85.0.2", "client")],
        ])
        expect(read.exitCode).toBe(0)
        expect(await probes(lab, client, to, 6)).toEqual(["connected"])
      }
      const [, two] = servers
      await two?.exec("ip", ["link", "set", "eth0", "down"])
      const links = await lab.host.json<{ ifname: string; ifalias?: string }[]>("ip", ["-j", "link"])
      const port = links.find(({ ifalias }) => ifalias?.includes(two?.name ?? "?"))?.ifname ?? ""
      await lab.host.exec("ip", ["link", "set", port, "nomaster"])
      const broken = await trace(lab, client, "10.96.0.10:80")
      expect(broken.exitCode).toBe(3)
      expect(broken.ends.map(({ passes, way }) => [way, passes])).toEqual([
        [1, "yes"],
        [2, "no"],
        [3, "yes"],
      ])
      const found = new Set<string>()
      await waitFor(
        async () => {
          for (const one of await probes(lab, client, "10.96.0.10:80", 1)) found.add(one)
          return found.has("connected") && found.has("no answer")
        },
        "a probe by each way",
        120_000,
      )
    },
  )

  testWith(["br_netfilter"], `a service by ${mode} without endpoints ends at the rule that rejects it`, async () => {
    const { lab, client } = await services(rules(["10.85.0.3"]))
    await using _lab = lab
    const { hops, exitCode, probe } = await trace(lab, client, "10.96.0.11:80", "--probe")
    expect(hops.at(-2)?.what).toMatch(
      mode === "nft" ? /dropped by rule \d+ of chain ip kube-proxy reject-chain/ : /no endpoints/,
    )
    expect({ exitCode, probe }).toEqual({ exitCode: 3, probe: "refused" })
    expect(hops.filter(({ passes }) => passes === "perhaps")).toEqual([])
  })
}

testWith(
  ["br_netfilter"],
  "the answer of a pod beside the container does not come back where frames pass the host by",
  async () => {
    // portmap is omitted, because it masquerades every mapped connection within the network
    const network = { ...podsNetwork, plugins: podsNetwork.plugins.slice(0, 1) }
    const { lab, client } = await services(byIptables(["10.85.0.3"]), "0", network)
    await using _lab = lab
    const { ends, exitCode, probe } = await trace(lab, client, "10.96.0.10:80", "--probe")
    expect(ends[0]?.what).toMatch(/^the answer passes the bridge but not the host.*bridge-nf-call-iptables is not 1/)
    expect({ exitCode, probe }).toEqual({ exitCode: 3, probe: "no answer" })
    await writeSysctl(lab.host, "net/bridge/bridge-nf-call-iptables", "1")
    expect(await trace(lab, client, "10.96.0.10:80", "--probe")).toMatchObject({ exitCode: 0, probe: "connected" })
  },
)

test("a person reads of each way under its number", async () => {
  const { lab, client } = await services(byNft(["10.85.0.3", "10.85.0.4"]), "0")
  await using _lab = lab
  const { stdout } = await lab.onTerminal(["trace", "pods", client.path, "--to", "10.96.0.10:80"])
  expect(stdout.replaceAll("\r", "")).toContain(
    "\n\nrandom path 1 of 2:\nok    nat         10.96.0.10:80 is forwarded to 10.85.0.3:80 (pod shop/one)",
  )
  expect(stdout).toContain("random path 2 of 2:")
})
