import { expect, test } from "bun:test"
import {
  type ContainerNamespace,
  expectUnchanged,
  startDaemon,
  takeSnapshot,
  testWith,
  waitFor,
  writeSysctl,
} from "../lab/mod.ts"
import { NodeLab } from "./node-lab.ts"

interface Traced {
  hops: { where: string; what: string; passes: "yes" | "no" | "perhaps" }[]
  probe?: { outcome: string; ms: number; reason?: string }
}

async function trace(lab: NodeLab, pod: ContainerNamespace, to: string, ...args: string[]) {
  const { stdout, stderr, exitCode } = await lab.cni(["trace", "pods", pod.path, "--to", to, "--json", ...args])
  expect(stderr).toBe("")
  const traced = JSON.parse(stdout) as Traced
  return { ...traced, end: traced.hops.at(-1), exitCode }
}

/** Creates a node with two pods, one of them a server on port 80, and another machine with a server on port 80. */
async function scene() {
  const lab = await NodeLab.create()
  const [client, server] = [await lab.addPod("client"), await lab.addPod("server")]
  const outside = await lab.host.addContainer("outside")
  await lab.host.exec("ip", ["link", "add", "out0", "type", "veth", "peer", "name", "out1", "netns", outside.name])
  await lab.host.exec("ip", ["address", "add", "192.0.2.2/24", "dev", "out0"])
  await lab.host.exec("ip", ["link", "set", "out0", "up"])
  await outside.exec("ip", ["address", "add", "192.0.2.1/24", "dev", "out1"])
  await outside.exec("ip", ["link", "set", "out1", "up"])
  for (const one of [server, outside]) {
    await startDaemon(one.commandLine(["busybox", "nc", "-ll", "-p", "80", "-e", "true"]))
    await waitFor(
      async () => (await one.exec("cat", ["/proc/net/tcp6", "/proc/net/tcp"])).stdout.includes(":0050 "),
      "a server",
    )
  }
  return { lab, client, server, outside }
}

const nft = (lab: NodeLab, hook: string, ...rules: string[]) =>
  lab.host.exec("nft", ["-f", "-"], {
    input: `table inet guard {\n chain c {\n type ${hook};\n${rules.join("\n")}\n}\n}\n`,
  })

/** Returns the host's end of a pod's veth pair. */
async function portOf({ host }: NodeLab, pod: ContainerNamespace | undefined): Promise<string> {
  const links = await host.json<{ ifname: string; ifalias?: string }[]>("ip", ["-j", "link"])
  return links.find(({ ifalias }) => pod !== undefined && ifalias?.includes(pod.name))?.ifname ?? ""
}

/** Connections from a pod. `cni trace` must report the result of the real connection. */
const ways: readonly {
  name: string
  to: string
  arrives: boolean
  says: RegExp
  seed?: (
    lab: NodeLab & { outside: ContainerNamespace },
    server: ContainerNamespace,
    client: ContainerNamespace,
  ) => Promise<unknown>
}[] = [
  {
    name: "to another pod, by the bridge",
    to: "10.85.0.3:80",
    arrives: true,
    says: /it reaches pod shop\/server by port "veth/,
  },
  {
    name: "to a published port of the host, and so to a pod",
    to: "192.0.2.2:8002",
    arrives: true,
    says: /port 8002 of the host is forwarded to 10\.85\.0\.3:80.*it reaches pod shop\/server, 10\.85\.0\.3 port 80/s,
  },
  {
    name: "out, masqueraded",
    to: "192.0.2.1:80",
    arrives: true,
    says: /masqueraded by rule \d+ of chain ip cni_masquerade postrouting.*the packet leaves the host by "out0"/s,
  },
  {
    name: "nowhere: no route on the host",
    to: "198.51.100.1:80",
    arrives: false,
    says: /the host has no route to 198\.51\.100\.1/,
  },
  {
    name: "nowhere: a rule drops the port",
    to: "192.0.2.1:80",
    arrives: false,
    says: /dropped by rule \d+ of chain inet guard c/,
    seed: (lab) => nft(lab, "filter hook forward priority 0", "ip daddr 192.0.2.0/24 tcp dport 80 drop"),
  },
  {
    name: "nowhere: a chain at the egress of the uplink drops it",
    to: "192.0.2.1:80",
    arrives: false,
    says: /at egress of "out0": dropped by rule \d+ of chain netdev guard c/,
    seed: ({ host }) =>
      host.exec("nft", ["-f", "-"], {
        input:
          "table netdev guard {\n chain c {\n type filter hook egress device out0 priority 0;\n tcp dport 80 drop\n}\n}\n",
      }),
  },
  {
    name: "nowhere: a chain at the ingress of the container's end drops it",
    to: "10.85.0.3:80",
    arrives: false,
    says: /at ingress of "veth[^"]+": dropped by rule \d+ of chain inet guard c/,
    seed: async (lab, _, client) =>
      nft(lab, `filter hook ingress device ${await portOf(lab, client)} priority 0`, "tcp dport 80 drop"),
  },
  {
    name: "out: an IPsec policy blocks another network",
    to: "192.0.2.1:80",
    arrives: true,
    says: /the packet leaves the host by "out0"/,
    seed: ({ host }) =>
      host.exec("ip", "xfrm policy add src 10.85.0.0/24 dst 198.51.100.0/24 dir fwd action block".split(" ")),
  },
  {
    name: "out: the rule drops another port, another source, another interface",
    to: "192.0.2.1:80",
    arrives: true,
    says: /the packet leaves the host/,
    seed: (lab) =>
      nft(
        lab,
        "filter hook forward priority 0",
        "tcp dport 443 drop",
        "ip saddr 10.85.0.99 drop",
        'oifname "other" drop',
      ),
  },
  {
    name: "nowhere: the bridge was deleted",
    to: "192.0.2.1:80",
    arrives: false,
    says: /^from 10\.85\.0\.2 .*bridge "cni0" does not exist/s,
    seed: ({ host }) => host.exec("ip", ["link", "delete", "cni0"]),
  },
  {
    name: "nowhere: the port of the pod behind a published port has left its bridge",
    to: "192.0.2.2:8002",
    arrives: false,
    says: /"veth\w+" is not a port of bridge "cni0": pod shop\/server is disconnected/,
    seed: async (lab, server) => lab.host.exec("ip", ["link", "set", await portOf(lab, server), "nomaster"]),
  },
  {
    name: "nowhere: rp_filter is strict, and the way back is another",
    to: "192.0.2.1:80",
    arrives: false,
    says: /rp_filter of "cni0" is 1: the host drops packets from 10\.85\.0\.2, and its route to the address is by "out0"/,
    seed: async ({ host }) => {
      await writeSysctl(host, "net/ipv4/conf/cni0/rp_filter", "1")
      await host.exec("ip", ["route", "add", "10.85.0.2", "dev", "out0"])
    },
  },
  {
    name: "nowhere: the host's route to a pod is another",
    to: "192.0.2.2:8002",
    arrives: false,
    says: /pod shop\/server has 10\.85\.0\.3, but the host's route is by "out0"/,
    seed: ({ host }) => host.exec("ip", ["route", "add", "10.85.0.3", "dev", "out0"]),
  },
  {
    name: "out, by a table of its own for what comes from pods",
    to: "198.51.100.9:80",
    arrives: true,
    says: /forwarded from "cni0" to "out0" to gateway 192\.0\.2\.1, by table 100/,
    seed: async ({ host, outside }) => {
      await host.exec("ip", ["rule", "add", "iif", "cni0", "lookup", "100"])
      await host.exec("ip", ["route", "add", "198.51.100.0/24", "via", "192.0.2.1", "table", "100"])
      await outside.exec("ip", ["address", "add", "198.51.100.9/32", "dev", "lo"])
      await host.exec("ping", ["-c1", "192.0.2.1"]) // resolves the gateway's MAC address
    },
  },
  {
    name: "to an address that the host has by a local route alone",
    to: "198.51.100.9:80",
    arrives: true,
    says: /198\.51\.100\.9 is an address of the host/,
    seed: ({ host }) => host.exec("ip", ["route", "add", "local", "198.51.100.0/24", "dev", "lo"]),
  },
]

test.each(ways.map((way) => [way.name, way] as const))(
  "%s: what is read is what a connection meets",
  async (_, way) => {
    const { lab, client, server, outside } = await scene()
    await using _lab = lab
    await way.seed?.(Object.assign(lab, { outside }), server, client)
    const before = await takeSnapshot(lab.host)
    const read = await trace(lab, client, way.to)
    expectUnchanged(before, await takeSnapshot(lab.host))
    expect(read.hops.map(({ what }) => what).join("\n")).toMatch(way.says)
    expect({ passes: read.end?.passes, exitCode: read.exitCode }).toEqual(
      way.arrives ? { passes: "yes", exitCode: 0 } : { passes: "no", exitCode: 3 },
    )
    const proved = await trace(lab, client, way.to, "--probe")
    expect(["connected", "refused"].includes(proved.probe?.outcome ?? "")).toBe(way.arrives)
    expect(proved.exitCode).toBe(way.arrives ? 0 : 3)
  },
)

/** Cases in which `connect` fails, at once or later. */
test.each<[string, RegExp, (pod: ContainerNamespace) => Promise<unknown>]>([
  ["eth0 is down", /ENETUNREACH/, (pod) => pod.exec("ip", ["link", "set", "eth0", "down"])],
  ["there is no default route", /ENETUNREACH/, (pod) => pod.exec("ip", ["route", "del", "default"])],
  ["a route is unreachable", /EHOSTUNREACH/, (pod) => pod.exec("ip", ["route", "add", "unreachable", "192.0.2.1"])],
  [
    "a route prohibits it",
    /type prohibit matches it.*EACCES/,
    (pod) => pod.exec("ip", ["route", "add", "prohibit", "192.0.2.1"]),
  ],
  [
    "a route is a blackhole",
    /type blackhole matches it.*EINVAL/,
    (pod) => pod.exec("ip", ["route", "add", "blackhole", "192.0.2.1"]),
  ],
  [
    "there is no local port left",
    /EADDRNOTAVAIL/,
    async (pod) => {
      await writeSysctl(pod, "net/ipv4/ip_local_port_range", "40000 40000")
      await startDaemon(pod.commandLine(["busybox", "nc", "-ll", "-p", "40000", "-e", "true"]))
      const listeners = async () => (await pod.exec("cat", ["/proc/net/tcp", "/proc/net/tcp6"])).stdout
      await waitFor(async () => listeners().then((text) => text.includes(":9C40 ")), "a process on the only port")
    },
  ],
])("a probe says no where %s, and why", async (_, reason, breakIt) => {
  const { lab, client } = await scene()
  await using _lab = lab
  await breakIt(client)
  const { probe, exitCode, end } = await trace(lab, client, "192.0.2.1:80", "--probe")
  expect({ ...probe, exitCode }).toMatchObject({
    outcome: "unreachable",
    reason: expect.stringMatching(reason),
    exitCode: 3,
  })
  if (!reason.test("EADDRNOTAVAIL")) expect(end?.passes).toBe("no")
})

testWith(
  ["br_netfilter"],
  "frames between pods pass the rules at forward where br_netfilter sends them there",
  async () => {
    const { lab, client } = await scene()
    await using _lab = lab
    await nft(lab, "filter hook forward priority 0; policy drop")
    for (const [called, arrives] of [
      ["1", false],
      ["0", true],
    ] as const) {
      await writeSysctl(lab.host, "net/bridge/bridge-nf-call-iptables", called)
      const { end, probe } = await trace(lab, client, "10.85.0.3:80", "--probe")
      expect([called, end?.passes, probe?.outcome]).toEqual([
        called,
        arrives ? "yes" : "no",
        arrives ? "connected" : "no answer",
      ])
    }
  },
)

testWith(
  ["nf_tables", "nf_tables_catch_all"],
  "a map has an element for all other keys, alone or beside others",
  async () => {
    const { lab, client } = await scene()
    await using _lab = lab
    for (const [elements, arrives] of [
      ["* : drop", false],
      ["192.0.2.1 : accept, 10.85.0.2 : accept, * : drop", true],
      ["192.0.2.9 : drop", true],
    ] as const) {
      const map = `map fate { type ipv4_addr : verdict\nelements = { ${elements} }\n}`
      const chain = "chain c {\n type filter hook forward priority 0\nct state new ip daddr vmap @fate\n}"
      await lab.host.exec("nft", ["-f", "-"], { input: `table inet guard {\n${map}\n${chain}\n}\n` })
      const { end, probe } = await trace(lab, client, "192.0.2.1:80", "--probe")
      await lab.host.exec("nft", ["delete", "table", "inet", "guard"])
      expect([elements, end?.passes, probe?.outcome]).toEqual([
        elements,
        arrives ? "yes" : "no",
        arrives ? "connected" : "no answer",
      ])
    }
  },
)

test("a rule that looks at more than is known is told as one that may decide", async () => {
  const { lab, client } = await scene()
  await using _lab = lab
  await nft(lab, "filter hook forward priority 0", "limit rate 1/second drop")
  const { end, hops, exitCode } = await trace(lab, client, "192.0.2.1:80")
  expect({ passes: end?.passes, exitCode }).toEqual({ passes: "perhaps", exitCode: 0 })
  expect(hops.find(({ passes }) => passes === "perhaps")?.what).toMatch(
    /^rule \d+ of chain inet guard c may drop it \(not known here: limit\)$/,
  )
})

test("a ping to the gateway is followed to its end, beside the ports that the node publishes; a pod is found by its name and ID", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod("client")
  for (const name of [pod.path, pod.name, "shop/client"]) {
    const { stdout, exitCode } = await lab.cni(["trace", "pods", name, "--to", "10.85.0.1", "--json"])
    const { hops } = JSON.parse(stdout) as Traced
    expect({ name, exitCode, doubtful: hops.filter(({ passes }) => passes !== "yes") }).toEqual({
      name,
      exitCode: 0,
      doubtful: [],
    })
    expect(hops.at(-1)?.what).toBe("the packet reaches the host itself")
  }
  expect((await pod.exec("ping", ["-c1", "10.85.0.1"])).exitCode).toBe(0)
})

test("what cannot be traced is said: no destination, no attachment, a probe without a port", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod()
  const run = (...args: string[]) => lab.cni(["trace", "pods", pod.path, ...args])
  expect(await run()).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("--to ADDRESS[:PORT]") })
  expect(await run("--to", "nowhere")).toMatchObject({ exitCode: 2 })
  expect(await run("--to", "192.0.2.1", "--probe")).toMatchObject({ exitCode: 2 })
  expect(await lab.cni(["trace", "other", pod.path, "--to", "192.0.2.1"])).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('Cannot find network "other"'),
  })
})
