import { expect, test } from "bun:test"
import { join } from "node:path"
import {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  type ContainerNamespace,
  expectUnchanged,
  extent,
  HostNamespace,
  isAllocationTrace,
  isLong,
  linkNames,
  runPlugin,
  succeed,
  takeSnapshot,
  tellFigure,
  waitFor,
} from "../lab/mod.ts"

/**
 * A bridge with two containers. The first container attacks, which must not affect the second container or the host.
 */
class Neighbours implements AsyncDisposable {
  readonly host: HostNamespace
  readonly attacker: ContainerNamespace
  readonly other: ContainerNamespace
  readonly links: readonly [Attachment, Attachment]
  readonly results: readonly [object, object]

  private constructor(made: Pick<Neighbours, "host" | "attacker" | "other" | "links" | "results">) {
    this.host = made.host
    this.attacker = made.attacker
    this.other = made.other
    this.links = made.links
    this.results = made.results
  }

  static async create(keys: object = {}): Promise<Neighbours> {
    const host = await HostNamespace.create()
    const [attacker, other] = [await host.addContainer("attacker"), await host.addContainer("other")]
    const config = bridgeNetwork({ isGateway: true, ...keys })
    const links = [new Attachment(host, attacker, config), new Attachment(host, other, config)] as const
    const results = [await links[0].add(), await links[1].add()] as const
    return new Neighbours({ host, attacker, other, links, results })
  }

  /** Runs a script as root in the attacker's namespace. Ignores failing commands. */
  async attack(script: string): Promise<void> {
    await this.attacker.exec("sh", ["-c", `${script}; true`])
  }

  /** Runs GC with both attachments as valid. */
  collect() {
    const valid = [this.attacker, this.other].map(({ name }) => ({ containerID: name, ifname: "eth0" }))
    return this.links[0].run("GC", { "cni.dev/valid-attachments": valid })
  }

  /** Checks that CHECK of the second container succeeds. */
  async expectOtherUnharmed(): Promise<void> {
    expect(await this.links[1].check(this.results[1])).toMatchObject({ exitCode: 0 })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

test("a container that writes others' names on its links, or gives them those of the host's, has none of them deleted or moved [S54]", async () => {
  await using net = await Neighbours.create()
  const { host, attacker, other } = net
  const hostNames = (await linkNames(host)).filter((name) => name !== "lo")
  await net.attack(
    [
      "ip link set eth0 down; ip link set eth0 name hidden",
      `ip link set hidden alias lab/${other.name}/eth0`,
      ...hostNames.map((name) => `ip link add ${name} type veth peer name p-${name.slice(0, 12)}`),
      ...hostNames.map(
        (name) =>
          `ip link set ${name} alias lab/${other.name}/eth0; ip link property add dev ${name} altname lab:${other.name}:eth0`,
      ),
      `ip link add eth0 type bridge; ip link set eth0 alias lab/${other.name}/eth0`,
    ].join("; "),
  )
  const before = await takeSnapshot(host)
  await succeed(net.collect())
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  await net.links[0].del()
  await net.expectOtherUnharmed()
  expect((await linkNames(host)).length).toBe(hostNames.length) // `lo` is one more, the attacker's veth one less
  expect(await linkNames(attacker)).not.toContain("hidden") // the container lost its connection to the network
  await net.links[1].del()
})

test("of macvlan, whose mark is in the container, one that is forged takes no other container's interface along [S55]", async () => {
  await using host = await HostNamespace.create()
  await host.exec("ip", ["link", "add", "uplink", "up", "type", "veth", "peer", "name", "card"])
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]] }
  const config = { cniVersion: "1.1.0", name: "lab", type: "macvlan", master: "uplink", ipam }
  const [attacker, other] = [await host.addContainer(), await host.addContainer()]
  const [own, theirs] = [new Attachment(host, attacker, config), new Attachment(host, other, config)]
  await own.add()
  const result = await theirs.add()
  await attacker.exec("sh", [
    "-ec",
    `ip link set eth0 alias lab/${other.name}/eth0; ip link add forged type bridge; ip link set forged alias lab/gone/eth0`,
  ])
  await succeed(own.run("GC", { "cni.dev/valid-attachments": [{ containerID: other.name, ifname: "eth0" }] }))
  await theirs.del({}, { netns: "" })
  await own.del()
  expect(await theirs.check(result)).not.toMatchObject({ exitCode: 0 }) // DEL has released the address
  expect(await linkNames(other)).toContain("eth0") // DEL did not get the namespace, with which the kernel deletes the interface
})

test("interfaces that a container has exchanged the names of lead DEL of bandwidth and tuning to no host's end of another attachment [S95]", async () => {
  await using net = await Neighbours.create()
  const { host, attacker } = net
  const second = bridgeNetwork({
    name: "second",
    bridge: "br-second",
    mtu: 1300,
    ipam: { type: "host-local", ranges: [[{ subnet: "10.23.0.0/16" }]] },
  })
  const result = await new Attachment(host, attacker, second, { ifName: "net1" }).add()
  const end = String((result.interfaces[1] ?? { name: "" }).name)
  const config = (name: string, type: string, keys: object) => ({ cniVersion: "1.1.0", name, type, ...keys })
  const rates = { ingressRate: 8_000_000, ingressBurst: 80_000, egressRate: 8_000_000, egressBurst: 80_000 }
  const limit = (name: string) => config(name, "bandwidth", rates)
  await new Attachment(host, attacker, limit("second"), { ifName: "net1" }).add({ prevResult: result })
  const own = [
    new Attachment(host, attacker, limit("lab")),
    new Attachment(host, attacker, config("lab", "tuning", { mtu: 1500 })),
  ]
  for (const attachment of own) await attachment.add({ prevResult: net.results[0] })
  // An MTU that differs from the present one, so that DEL has something to restore.
  const backup = `/run/cni/tuning/lab:${attacker.name}:eth0.json`
  await host.exec("sed", ["-i", 's/"peerMtu": 1500/"peerMtu": 1400/', backup])
  await net.attack(
    "for l in eth0 net1; do ip link set $l down; done; ip link set eth0 name x; ip link set net1 name eth0; ip link set x name net1",
  )
  const described = async () => [
    (await host.exec("tc", ["qdisc", "show", "dev", end])).stdout,
    (await host.json<{ mtu: number }[]>("ip", ["-j", "link", "show", end]))[0]?.mtu,
  ]
  const before = await described()
  expect(before[0]).toContain("tbf")
  for (const attachment of own) await attachment.del()
  expect(await described()).toEqual(before)
})

test("rules, routes, VRFs, ifbs and dummies with the marks of others have no chained plugin change the host or another container [S96]", async () => {
  await using net = await Neighbours.create()
  const { host, attacker, other } = net
  const marked = (kind: string) =>
    [other.name, "gone"].map(
      (id, at) =>
        `ip link add ${kind}${at} type ${kind} ${kind === "vrf" ? `table ${200 + at}` : ""}; ip link set ${kind}${at} alias lab/${id}/eth0; ip link property add dev ${kind}${at} altname lab:${id}:eth0`,
    )
  await net.attack(
    [
      ...["ifb", "vrf", "dummy", "bridge"].flatMap(marked),
      "ip rule add from 10.22.0.2 lookup 100 protocol 67; ip rule add from 10.22.0.3 lookup 101 protocol 67",
      "for t in 100 101 main; do ip route add 203.0.113.0/24 dev eth0 table $t protocol 67; done",
      "tc qdisc add dev eth0 root handle 1: tbf rate 1mbit burst 10k latency 25ms; tc qdisc add dev eth0 ingress",
    ].join("\n"),
  )
  const before = [await takeSnapshot(host), await takeSnapshot(other)] as const
  const valid = { "cni.dev/valid-attachments": [{ containerID: other.name, ifname: "eth0" }] }
  for (const type of ["sbr", "vrf", "bandwidth", "tuning", "portmap", "firewall", "loopback"]) {
    const keys = { cniVersion: "1.1.0", name: "lab", type, vrfname: "vrf0" }
    const chained = new Attachment(host, attacker, keys)
    await chained.del({ prevResult: net.results[0] })
    await chained.del()
    await succeed(chained.run("GC", valid))
  }
  expectUnchanged(before[0], await takeSnapshot(host), isAllocationTrace)
  expectUnchanged(before[1], await takeSnapshot(other))
  await net.expectOtherUnharmed()
})

test("namespaces and links that a container makes take no number of the host's, and DEL and GC look at none of them [S62]", async () => {
  await using net = await Neighbours.create()
  const count = extent(20, 500)
  const numbers = async () => (await net.host.exec("ip", ["netns", "list-id"])).stdout
  const before = await numbers()
  const nest = `exec 3<&0; for i in $(seq ${count}); do unshare -n sh -c "ip link add eth0 type veth peer name n$i netns $$; exec cat <&3" & done; wait`
  const maker = Bun.spawn(net.attacker.commandLine(["sh", "-c", nest]), { stdin: "pipe" })
  const areMade = async () => (await linkNames(net.attacker)).filter((name) => /^n\d/.test(name)).length === count
  await waitFor(areMade, `${count} namespaces`, 600_000)
  expect(await numbers()).toBe(before)
  await succeed(net.collect())
  await net.links[0].del()
  await net.expectOtherUnharmed()
  expect(await numbers()).toBe(before)
  maker.stdin.end()
  await maker.exited
  await tellFigure({ what: "namespaces made by a container: numbers that the host gives", tried: count, held: count })
})

test("thousands of links, addresses and routes in a container hold up neither CHECK nor DEL nor GC, nor another's [S64]", async () => {
  await using net = await Neighbours.create()
  const count = extent(1_000, 5_000)
  const lines = Array.from({ length: count }, (_, at) => [
    `address add 172.16.${at >> 8}.${at & 255}/32 dev eth0`,
    `route add 100.${64 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}/32 dev eth0`,
    ...(at % 10 === 0 ? [`link add many${at} type bridge`] : []),
  ]).flat()
  await net.attacker.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
  // The time limit is half of the usual timeout of runtimes.
  const run = (verb: "CHECK" | "DEL" | "GC", keys: object) => net.links[0].run(verb, keys)
  await succeed(run("CHECK", { prevResult: net.results[0] }))
  await succeed(
    run("GC", {
      "cni.dev/valid-attachments": [
        { containerID: net.other.name, ifname: "eth0" },
        { containerID: net.attacker.name, ifname: "eth0" },
      ],
    }),
  )
  await succeed(run("DEL", { prevResult: net.results[0] }))
  await net.expectOtherUnharmed()
  expect(await linkNames(net.attacker)).not.toContain("eth0")
  await tellFigure({
    what: "addresses and routes in a container: CHECK, GC, DEL within a minute",
    tried: 3,
    held: 3,
    note: `${count} of each`,
  })
})

test("with thousands of connections of a container in the host's table DEL of another forgets that one's flows alone [S70]", async () => {
  await using net = await Neighbours.create({ ipMasq: true })
  const { host, other } = net
  const count = extent(1_000, 20_000)
  const mappings = { runtimeConfig: { portMappings: [{ hostPort: 5353, containerPort: 53, protocol: "udp" }] } }
  const portmap = new Attachment(host, other, {
    cniVersion: "1.1.0",
    name: "lab",
    type: "portmap",
    prevResult: net.results[1],
  })
  await portmap.add(mappings)
  const flows = async (what: string) => {
    const { stdout } = await host.exec("conntrack", ["-L", "-p", "udp"])
    return stdout.split("\n").filter((line) => line.includes(what)).length
  }
  await net.attack(
    `bash -c 'for p in $(seq 10001 ${10_000 + count}); do echo >/dev/udp/10.22.0.1/$p; done' 2>/dev/null`,
  )
  await net.attack("bash -c 'echo >/dev/udp/10.22.0.1/5353'")
  expect(await flows("dport=5353 ")).toBe(1)
  const before = await flows("dst=10.22.0.1 ")
  expect(before).toBeGreaterThanOrEqual(count * 0.9)
  await portmap.run("DEL", mappings).then((output) => expect(output).toMatchObject({ exitCode: 0 }))
  expect(await flows("dport=5353 ")).toBe(0)
  expect(await flows("dst=10.22.0.1 ")).toBeGreaterThanOrEqual(count * 0.9)
  await tellFigure({
    what: "connections of a neighbor that stay when a mapping's are forgotten",
    tried: count,
    held: count,
  })
})

/** Values for names. Each value would be an attack if it left a directory, ended a string or began another command. */
const hostile = [
  "../../../run/cni/out",
  "..",
  ".",
  "/",
  "a/b",
  "a\nb",
  'a"b',
  "a'; touch /run/cni/out; '",
  "a b",
  "a\\b",
  "$(id)",
  "-a",
  "a\u2028b",
  "",
  "x".repeat(5_000),
]

/** Characters that no name may contain. The long form tries each of them in the middle of a name. */
const characters = isLong
  ? Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)).filter(
      (one) => /[^\w.~-]/.test(one) && one !== "\0",
    )
  : []

test("names that lead out of a directory, end a text or begin a command are refused, and nothing is made of them [S5]", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const before = await takeSnapshot(host)
  const config = bridgeNetwork({ ipMasq: true })
  const bin = join(builtPlugins, "bridge")
  let tried = 0
  for (const text of [...hostile, ...characters.map((one) => `a${one}b`)]) {
    const call = { bin, containerId: "c1", netns: pod.path, ifName: "eth0", config }
    const isInterfaceName = /^[^/\s]{1,15}$/.test(text) && !/^\.\.?$/.test(text)
    const calls: (Omit<typeof call, "config"> & { config: object; args?: string })[] = [
      { ...call, config: { ...config, name: text } },
      ...(text.length > 1_000 ? [] : [{ ...call, containerId: text }]), // long IDs are valid
      ...(isInterfaceName ? [] : [{ ...call, ifName: text }]),
      ...(text === "" ? [] : [{ ...call, config: { ...config, ipam: { ...config.ipam, type: text } } }]),
      ...(text === "" ? [] : [{ ...call, args: `MAC=${text}` }]),
    ]
    for (const each of calls) {
      const output = await runPlugin(host, { ...each, verb: "ADD" })
      expect({ text, output }).toMatchObject({ output: { exitCode: 1, json: { code: expect.any(Number) } } })
      tried++
    }
  }
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  await tellFigure({ what: "hostile names: refused, nothing changed", tried, held: tried })
})

/** Interface names that the kernel accepts, but that would end a comment or a rule. */
const oddNames = ['e"0', "e';x", "e}{", "e\\", "e$(x)", "-e0", "e#0", "e\u0001", "é", "a,b|c"] as const
const backends = [{ ipMasqBackend: "nftables" }, { ipMasqBackend: "iptables" }] as const

test.each(backends)(
  "interface names that would tear a rule are in none, by %j, and all of an attachment goes [S6]",
  async (keys) => {
    await using host = await HostNamespace.create()
    const [pod, other] = [await host.addContainer(), await host.addContainer()]
    const config = bridgeNetwork({ ipMasq: true, ...keys })
    const kept = new Attachment(host, other, config)
    const result = await kept.add()
    const before = await takeSnapshot(host)
    const conditions =
      keys.ipMasqBackend === "nftables" ? { conditionsV4: ["ip", "saddr", "192.0.2.0/24"] } : { backend: "iptables" }
    for (const [at, ifName] of oddNames.slice(0, extent(6, oddNames.length)).entries()) {
      const link = new Attachment(host, pod, config, { ifName })
      const prevResult = await link.add()
      const ports = { runtimeConfig: { portMappings: [{ hostPort: 8080 + at, containerPort: 80, protocol: "tcp" }] } }
      const portmap = new Attachment(
        host,
        pod,
        { cniVersion: "1.1.0", name: "lab", type: "portmap", ...conditions, prevResult },
        { ifName },
      )
      await portmap.add(ports)
      await portmap.del(ports)
      await link.del()
    }
    expectUnchanged(
      before,
      await takeSnapshot(host),
      (change) => isAllocationTrace(change) || /CNI-HOSTPORT|:\w+ ACCEPT|chain ip6? nat/.test(change.line),
    )
    expect(await kept.check(result)).toMatchObject({ exitCode: 0 })
  },
)

test("attachments whose names are alike when joined by a separator are kept apart, in files, rules and interfaces [S10]", async () => {
  await using host = await HostNamespace.create()
  const pairs = [
    [
      { name: "a", containerId: "b-c" },
      { name: "a-b", containerId: "c" },
    ],
    [
      { name: "a", containerId: "b_c" },
      { name: "a_b", containerId: "c" },
    ],
    [
      { name: "a", containerId: "b.c" },
      { name: "a.b", containerId: "c" },
    ],
    [
      { name: "n".repeat(60), containerId: "c".repeat(80) },
      { name: `${"n".repeat(60)}m`, containerId: "c".repeat(80) },
    ],
  ] as const
  for (const [at, pair] of pairs.slice(-extent(2, pairs.length)).entries()) {
    const made = []
    for (const [which, { name, containerId }] of pair.entries()) {
      const pod = await host.addContainer()
      const ipam = { type: "host-local", ranges: [[{ subnet: `10.${40 + at * 2 + which}.0.0/16` }]] }
      const config = bridgeNetwork({ name, bridge: `br${at}${which}`, ipMasq: true, ipam })
      const link = new Attachment(host, pod, config, { containerId })
      const result = await link.add()
      const tuning = {
        cniVersion: "1.1.0",
        name,
        type: "tuning",
        sysctl: { "net.ipv4.conf.eth0.arp_notify": "1" },
        prevResult: result,
      }
      const tuned = new Attachment(host, pod, tuning, { containerId })
      await tuned.add()
      made.push({ link, tuned, result })
    }
    const [first, second] = made
    await first?.tuned.del()
    await first?.link.del()
    await succeed(first?.link.run("GC", { "cni.dev/valid-attachments": [] }) ?? Promise.reject())
    expect(await second?.link.check(second.result)).toMatchObject({ exitCode: 0 })
    expect(await second?.tuned.check(second.result)).toMatchObject({ exitCode: 0 })
    await second?.tuned.del()
    await second?.link.del()
  }
})

/** Returns lines for `ip -batch` that add more source MACs to a macvlan than the length of an attribute can express. */
const tooManySources = (link: string) =>
  Array.from({ length: 6000 }, (_, at) => {
    const [high, low] = [at >> 8, at & 0xff].map((byte) => byte.toString(16).padStart(2, "0"))
    return `link set ${link} type macvlan macaddr add 02:00:00:00:${high}:${low}`
  })

test("links whose settings are too long for the kernel's own answer hold up no DEL, and GC of no other container [S98]", async () => {
  await using host = await HostNamespace.create()
  await host.exec("ip", ["link", "add", "uplink", "up", "type", "veth", "peer", "name", "card"])
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]] }
  const config = { cniVersion: "1.1.0", name: "lab", type: "macvlan", master: "uplink", ipam }
  const [attacker, other] = [await host.addContainer("attacker"), await host.addContainer("other")]
  const [own, theirs] = [new Attachment(host, attacker, config), new Attachment(host, other, config)]
  const result = await own.add()
  await theirs.add()
  const batch = [
    "link set eth0 type macvlan mode source",
    ...tooManySources("eth0"),
    "link add mine link eth0 type macvlan mode source",
    ...tooManySources("mine"),
  ]
  await attacker.exec("ip", ["-batch", "-"], { input: `${batch.join("\n")}\n` })
  const chained = (type: string) => new Attachment(host, attacker, { cniVersion: "1.1.0", name: "lab", type })
  for (const type of ["bandwidth", "tuning", "sbr", "vrf"]) await chained(type).del({ prevResult: result })
  const valid = [{ containerID: attacker.name, ifname: "eth0" }]
  await succeed(own.run("GC", { "cni.dev/valid-attachments": valid }))
  expect(await linkNames(other)).not.toContain("eth0")
  await attacker.exec("ip", ["link", "set", "eth0", "down"])
  await attacker.exec("ip", ["link", "set", "eth0", "type", "macvlan", "macaddr", "flush"])
  await attacker.exec("ip", ["link", "set", "eth0", "name", "hidden"]) // DEL must find the interface in the list of links
  expect((await attacker.tryExec("ip", ["link", "show", "hidden"])).exitCode).toBe(0)
  await chained("tuning").del({ prevResult: result })
  await own.del()
  expect((await attacker.tryExec("ip", ["link", "show", "hidden"])).exitCode).toBe(1)
})
