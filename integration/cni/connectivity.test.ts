import { expect, test } from "bun:test"
import { chmod } from "node:fs/promises"
import {
  type ContainerNamespace,
  expectUnchanged,
  type Feature,
  isAllocationTrace,
  scaleTimeout,
  startDaemon,
  takeSnapshot,
  testWith,
  waitFor,
} from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

const [bridge, portmap] = podsNetwork.plugins as [Record<string, unknown>, object]

/** The network of pods with IPv4 and IPv6 addresses. */
const dualNetwork = {
  ...podsNetwork,
  plugins: [
    {
      ...bridge,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.85.0.0/24" }], [{ subnet: "fd00:85::/64" }]] },
    },
    portmap,
  ],
}

/** Creates a node with two pods. The node's default gateway is another machine, which has no route to the pods. */
async function scene(network: object = podsNetwork) {
  const lab = await NodeLab.create(network)
  const outside = await lab.host.addContainer("outside")
  await lab.host.exec("ip", ["link", "add", "out0", "type", "veth", "peer", "name", "out1", "netns", outside.name])
  for (const [own, place, name] of [
    [lab.host, ["192.0.2.2/24", "2001:db8::2/64"], "out0"],
    [outside, ["192.0.2.1/24", "2001:db8::1/64"], "out1"],
  ] as const) {
    for (const address of place) await own.exec("ip", ["address", "add", address, "dev", name, "nodad"])
    await own.exec("ip", ["link", "set", name, "up"])
  }
  await lab.host.exec("ip", ["route", "add", "default", "via", "192.0.2.1"])
  await lab.host.exec("ip", ["-6", "route", "add", "default", "via", "2001:db8::1"])
  const [client, server] = [await lab.addPod("client"), await lab.addPod("server")]
  return { lab, outside, client, server }
}

/** The time in seconds to wait for an answer, longer on slow machines. */
const patience = String(scaleTimeout(3000) / 1000)

interface Tested {
  containers: { containerId: string }[]
  probes: {
    probe: string
    family: string
    outcome: "ok" | "failed" | "skipped"
    reason?: string
    to?: string
    stops?: string
  }[]
}

async function cniTest(lab: NodeLab, ...args: string[]) {
  const { stdout, stderr, exitCode } = await lab.cni(["test", "pods", "--json", ...args])
  expect(stderr).toBe("")
  const { probes, containers } = JSON.parse(stdout) as Tested
  const named = (outcome: string) => probes.filter((each) => each.outcome === outcome).map(({ probe }) => probe)
  return { exitCode, probes, containers, ok: named("ok"), failed: named("failed"), skipped: named("skipped") }
}

const all = [
  "pod to pod",
  "pod to gateway",
  "pod to host",
  "pod to outside",
  "port from outside",
  "port from host",
  "port from pod",
  "hairpin",
  "mtu to pod",
  "mtu to outside",
]
const ports = ["port from outside", "port from host", "port from pod", "hairpin"]

test("on a healthy node every probe of both families arrives, and all is as before", async () => {
  const { lab } = await scene(dualNetwork)
  await using _lab = lab
  const before = await takeSnapshot(lab.host)
  const { probes, exitCode, skipped, containers } = await cniTest(lab, "--wait", patience)
  expect({ notWell: probes.filter(({ outcome, probe }) => outcome !== "ok" && probe !== "dns"), exitCode }).toEqual({
    notWell: [],
    exitCode: 0,
  })
  for (const family of ["ipv4", "ipv6"])
    expect(probes.filter((each) => each.family === family).map(({ probe }) => probe)).toEqual(
      all.toSpliced(all.indexOf("mtu to pod"), 0, "dns"),
    )
  expect(skipped).toEqual(["dns", "dns"])
  expect(containers).toHaveLength(2)
  expectUnchanged(before, await takeSnapshot(lab.host), isAllocationTrace)
})

const nft = ({ host }: NodeLab, hook: string, ...rules: string[]) =>
  host.exec("nft", ["-f", "-"], {
    input: `table inet guard {\n chain c {\n type ${hook};\n${rules.join("\n")}\n}\n}\n`,
  })

type Fault = {
  name: string
  failed: readonly string[]
  /** The probes that this fault makes impossible. */
  skipped?: readonly string[]
  says: RegExp
  network?: object
  seed?: (lab: NodeLab, server: ContainerNamespace, client: ContainerNamespace) => Promise<unknown>
}

/** Faults that affect the two containers which the test itself attaches. */
const faults: readonly Fault[] = [
  {
    name: "the host forwards nothing by policy",
    failed: ["pod to outside", "port from outside", "port from pod", "hairpin"],
    skipped: ["mtu to outside"],
    says: /pod to outside: no answer in \d+ s; .*dropped by the policy of chain inet guard c/,
    // without br_netfilter, frames between pods do not pass these rules
    seed: (lab) =>
      nft(
        lab,
        "filter hook forward priority 0; policy drop",
        "ip saddr 10.85.0.0/24 ct original ip daddr 10.85.0.0/24 accept",
      ),
  },
  {
    name: "a rule takes what pods send through the host",
    failed: ["pod to outside", "port from outside", "port from pod", "hairpin"],
    skipped: ["mtu to outside"],
    says: /pod to outside: no answer in \d+ s; the host has a route or rule of type blackhole for 192\.0\.2\.1/,
    seed: ({ host }) => host.exec("ip", ["rule", "add", "iif", "cni0", "blackhole"]),
  },
  {
    name: "no rule masquerades what goes outside",
    failed: ["pod to outside"],
    skipped: ["mtu to outside"],
    says: /pod to outside: no answer in \d+ s/,
    network: { ...podsNetwork, plugins: [{ ...bridge, ipMasq: false }, portmap] },
  },
  {
    name: "the host answers no pod",
    failed: ["pod to gateway", "pod to host"],
    says: /pod to gateway: no answer in \d+ s; .*dropped by rule \d+ of chain inet guard c/,
    seed: (lab) => nft(lab, "filter hook input priority 0", 'iifname "cni0" meta l4proto icmp drop'),
  },
  {
    name: "long packets are lost outside without a word",
    failed: ["mtu to outside"],
    says: /mtu to outside: packets of more than 1400 bytes are lost without a report to the sender: the MTU of "eth0" is 1500/,
    seed: (lab) => nft(lab, "filter hook forward priority 0", 'oifname "out0" meta length > 1400 drop'),
  },
]

/** Faults that affect existing containers. */
const ofExisting: readonly Fault[] = [
  {
    name: "the port of the second container is down",
    failed: ["pod to pod", ...ports],
    skipped: ["mtu to pod"],
    says: /pod to pod: no answer in \d+ s; port "veth\w+" of pod shop\/server is down/,
    seed: async (lab, server) => lab.host.exec("ip", ["link", "set", await portOf(lab, server), "down"]),
  },
  {
    name: "the rules of published ports were flushed",
    failed: ports,
    says: /port from outside: .*Connection refused \(ECONNREFUSED\); no process listens on TCP port 8002 on the host/,
    seed: ({ host }) => host.exec("nft", ["delete", "table", "ip", "cni_hostports"]),
  },
  {
    name: "the masquerade was flushed",
    failed: ["pod to outside"],
    skipped: ["mtu to outside"],
    says: /pod to outside: no answer in \d+ s/,
    seed: ({ host }) => host.exec("nft", ["delete", "table", "ip", "cni_masquerade"]),
  },
  {
    name: "the MTU of the container is larger than that of its port",
    failed: ["mtu to pod", "mtu to outside"],
    says: /mtu to pod: packets of more than 1\d{3} bytes are lost .* the MTU of "eth0" is 9000/,
    seed: (_, __, client) => client.exec("ip", ["link", "set", "eth0", "mtu", "9000"]),
  },
  {
    name: "the container has lost its default route",
    failed: ["pod to host", "pod to outside", "port from pod"],
    skipped: ["mtu to outside"],
    says: /pod to outside: connect: Network is unreachable \(ENETUNREACH\); the container has no route to 192\.0\.2\.1/,
    seed: (_, __, client) => client.exec("ip", ["route", "del", "default"]),
  },
]

/** Returns the name of the host's end of a pod's veth pair. */
async function portOf({ host }: NodeLab, pod: ContainerNamespace): Promise<string> {
  const links = await host.json<{ ifname: string; ifalias?: string }[]>("ip", ["-j", "link"])
  return links.find(({ ifalias }) => ifalias?.includes(pod.name))?.ifname ?? ""
}

for (const [whose, list] of [
  ["containers of the test", faults],
  ["existing containers", ofExisting],
] as const) {
  test.each(list.map((fault) => [fault.name, fault] as const))(
    `${whose}: %s, and the probes that meet it fail, and no others`,
    async (_, { failed, skipped = [], says, network, seed }) => {
      const { lab, client, server } = await scene(network)
      await using _lab = lab
      await seed?.(lab, server, client)
      const before = await takeSnapshot(lab.host)
      const own = whose === "existing containers" ? ["--containers", `shop/client,${server.name}`] : []
      const tested = await cniTest(lab, "--wait", patience, ...own)
      const lines = tested.probes.map(({ probe, reason, stops }) => `${probe}: ${reason}; ${stops}`).join("\n")
      expect({ failed: tested.failed, skipped: tested.skipped.filter((each) => each !== "dns") }).toEqual({
        failed: [...failed],
        skipped: [...skipped],
      })
      expect(tested.ok).toEqual(all.filter((each) => !failed.includes(each) && !skipped.includes(each)))
      expect(lines).toMatch(says)
      expect(tested.exitCode).toBe(3)
      expectUnchanged(before, await takeSnapshot(lab.host), isAllocationTrace)
    },
  )
}

/**
 * Rules that accept IPv6 packets between pods. These rules are necessary with br_netfilter, because frames between pods
 * then pass the rules for IP packets.
 */
const discovery = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"
const betweenPods = "ip6 saddr fd00:85::/64 ct original ip6 daddr fd00:85::/64 accept"

/**
 * Faults that affect only IPv6, on a node whose pods have addresses of both families. Together the faults make every
 * IPv6 probe fail.
 */
const ofIpv6: readonly Fault[] = [
  {
    name: "a rule of the host drops what it forwards",
    failed: ["pod to outside", "port from outside", "port from pod", "hairpin"],
    skipped: ["mtu to outside"],
    says: /pod to outside: no answer in \d+ s; .*dropped by rule \d+ of chain inet guard c/,
    seed: (lab) => nft(lab, "filter hook forward priority 0", discovery, betweenPods, "meta nfproto ipv6 drop"),
  },
  {
    name: "the host answers no pod",
    failed: ["pod to gateway", "pod to host"],
    says: /pod to gateway: no answer in \d+ s; .*dropped by rule \d+ of chain inet guard c/,
    seed: (lab) => nft(lab, "filter hook input priority 0", 'iifname "cni0" icmpv6 type echo-request drop'),
  },
  {
    name: "the second container takes no connections",
    failed: ["pod to pod", ...ports],
    says: /pod to pod: no answer in \d+ s; undefined/, // cni test does not read rules inside the container
    seed: (_, server) => nftInside(server, "filter hook input priority 0", "meta nfproto ipv6 meta l4proto tcp drop"),
  },
  {
    name: "the container has lost its address",
    failed: ["pod to pod", "pod to gateway", "pod to host", "pod to outside", "port from pod"],
    skipped: ["mtu to pod", "mtu to outside"],
    says: /pod to pod: connect: .*\(ENETUNREACH\)|pod to pod: connect: .*\(EADDRNOTAVAIL\)/,
    seed: (_, __, client) => client.exec("ip", ["-6", "address", "flush", "dev", "eth0"]),
  },
  {
    name: "the rules of published ports were flushed",
    failed: ports,
    says: /port from outside: .*\(ECONNREFUSED\); no process listens on TCP port 8002 on the host/,
    seed: ({ host }) => host.exec("nft", ["delete", "table", "ip6", "cni_hostports"]),
  },
  {
    name: "nothing comes in from outside",
    failed: ["port from outside"],
    says: /port from outside: no answer in \d+ s; dropped by rule \d+ of chain inet guard c/,
    seed: (lab) =>
      nft(lab, "filter hook prerouting priority 0", 'meta nfproto ipv6 iifname "cnitest*" tcp dport 80 drop'),
  },
  {
    name: "the host itself may not send to containers",
    failed: ["port from host"],
    says: /port from host: (no answer in \d+ s|connect: .*\(EPERM\)); dropped by rule \d+ of chain inet guard c/,
    seed: (lab) => nft(lab, "filter hook output priority 0", "meta nfproto ipv6 tcp dport 80 drop"),
  },
  {
    name: "a rule drops what comes from the first container for the second by the host",
    failed: ["port from pod"],
    says: /port from pod: no answer in \d+ s; dropped by rule \d+ of chain inet guard c/,
    seed: (lab) =>
      nft(lab, "filter hook forward priority 0", betweenPods, "ip6 saddr fd00:85::2 ip6 daddr fd00:85::3 drop"),
  },
  {
    name: "a rule drops what comes back to the second container",
    failed: ["hairpin"],
    says: /hairpin: no answer in \d+ s; dropped by rule \d+ of chain inet guard c/,
    seed: (lab) => nft(lab, "filter hook forward priority 0", "ip6 saddr fd00:85::3 ip6 daddr fd00:85::3 drop"),
  },
  {
    name: "long packets are lost without a word",
    failed: ["mtu to pod", "mtu to outside"],
    says: /mtu to pod: packets of more than 1400 bytes are lost without a report to the sender: the MTU of "eth0" is 1500/,
    seed: (_, __, client) =>
      nftInside(client, "filter hook postrouting priority 0", "meta nfproto ipv6 meta length > 1400 drop"),
  },
]

const nftInside = (pod: ContainerNamespace, hook: string, rule: string) =>
  pod.exec("nft", ["-f", "-"], { input: `table inet guard {\n chain c {\n type ${hook};\n${rule}\n}\n}\n` })

test.each(ofIpv6.map((fault) => [fault.name, fault] as const))(
  "of IPv6 alone: %s, and its probes that meet it fail, and none of IPv4",
  async (_, { failed, skipped = [], says, seed }) => {
    const { lab, client, server } = await scene(dualNetwork)
    await using _lab = lab
    await seed?.(lab, server, client)
    const { probes, exitCode } = await cniTest(lab, "--wait", patience, "--containers", `shop/client,${server.name}`)
    const known = probes.filter(({ probe }) => probe !== "dns")
    const named = (family: string, outcome: string) =>
      known.filter((each) => each.family === family && each.outcome === outcome).map(({ probe }) => probe)
    expect({ failed: named("ipv6", "failed"), skipped: named("ipv6", "skipped") }).toEqual({
      failed: [...failed],
      skipped: [...skipped],
    })
    expect(named("ipv4", "ok")).toEqual(all)
    const ofFailed = known.filter(({ outcome }) => outcome === "failed")
    expect(ofFailed.map(({ probe, reason, stops }) => `${probe}: ${reason}; ${stops}`).join("\n")).toMatch(says)
    expect(exitCode).toBe(3)
  },
)

test("a port of the bridge that sends nothing back by itself: the probe of that alone fails", async () => {
  const { lab, server } = await scene(dualNetwork)
  await using _lab = lab
  await lab.host.exec("bridge", ["link", "set", "dev", await portOf(lab, server), "hairpin", "off"])
  const { failed, probes } = await cniTest(lab, "--wait", patience, "--containers", `shop/client,${server.name}`)
  expect(failed).toEqual(["hairpin", "hairpin"])
  expect(probes.find(({ probe }) => probe === "hairpin")?.stops).toMatch(/has hairpin off/)
})

const near = {
  type: "host-local",
  ranges: [[{ subnet: "192.0.2.0/24", rangeStart: "192.0.2.50", gateway: "192.0.2.1" }]],
  routes: [{ dst: "0.0.0.0/0" }],
}
const noPort = "no TCP port of the container is published"
const far = /^the network gives its containers no route to /

/**
 * Networks that do not provide every connection by design. `cni test` must not report a missing connection as a
 * failure.
 */
const kinds: readonly {
  readonly name: string
  readonly plugins: readonly object[]
  readonly needs: readonly [Feature, ...Feature[]]
  readonly ok: readonly string[]
  readonly skipped: Readonly<Record<string, RegExp | string>>
}[] = [
  {
    name: "a bridge that is not a gateway",
    plugins: [{ ...bridge, bridge: "br1", isDefaultGateway: false, ipMasq: false }],
    needs: ["bridge"],
    ok: ["pod to pod", "mtu to pod"],
    skipped: {
      "pod to gateway": /^no answer in \d+ s, and no route of the result uses the gateway$/,
      "pod to host": far,
      "pod to outside": far,
      "mtu to outside": far,
      ...Object.fromEntries(ports.map((port) => [port, noPort])),
    },
  },
  {
    name: "a bridge that isolates its ports",
    plugins: [{ ...bridge, portIsolation: true }],
    needs: ["bridge"],
    ok: ["pod to gateway", "pod to host", "pod to outside", "mtu to outside"],
    skipped: {
      "pod to pod": /"portIsolation"/,
      "mtu to pod": /"portIsolation"/,
      ...Object.fromEntries(ports.map((port) => [port, noPort])),
    },
  },
  {
    name: "macvlan",
    plugins: [{ type: "macvlan", master: "out0", ipam: near }],
    needs: ["macvlan"],
    ok: ["pod to pod", "pod to gateway", "pod to outside", "mtu to pod", "mtu to outside"],
    skipped: {
      "pod to host": /the kernel passes no packets between a \w+ and its own host/,
      ...Object.fromEntries(ports.map((port) => [port, noPort])),
    },
  },
  {
    name: "tap",
    plugins: [{ type: "tap", ipam: near }],
    needs: ["tap"],
    ok: [],
    skipped: Object.fromEntries(all.map((probe) => [probe, /a tap sends no packets until its process opens it/])),
  },
  {
    name: "a bridge without addresses",
    plugins: [{ type: "bridge", bridge: "br1" }],
    needs: ["bridge"],
    ok: [],
    skipped: {},
  },
]

for (const { name, plugins, needs, ok, skipped } of kinds) {
  testWith(needs, `${name}: what it is not for is left out, with the reason`, async () => {
    const { lab } = await scene()
    await using _lab = lab
    await lab.writeNetwork("20-other.conflist", { cniVersion: "1.1.0", name: "other", plugins })
    const { stdout, exitCode } = await lab.cni(["test", "other", "--json", "--wait", patience])
    const { probes } = JSON.parse(stdout) as Tested
    const known = probes.filter(({ probe }) => probe !== "dns")
    expect({ exitCode, ok: known.filter(({ outcome }) => outcome === "ok").map(({ probe }) => probe) }).toEqual({
      exitCode: 0,
      ok: [...ok],
    })
    const left = known.filter(({ outcome }) => outcome === "skipped")
    expect(left.map(({ probe }) => probe).sort()).toEqual(Object.keys(skipped).sort())
    for (const { probe, reason } of left) expect(reason).toMatch(skipped[probe] ?? "")
  })
}

/**
 * Starts `cni test` on a node whose rules drop its packets, so that it waits for a minute. Returns when `cni test` has
 * attached its containers.
 */
async function startWaiting(lab: NodeLab) {
  await nft(lab, "filter hook forward priority 0", "drop")
  const started = Bun.spawn(lab.commandLine(["test", "pods", "--wait", "60"]), {
    env: lab.env(),
    stdout: "pipe",
    stderr: "pipe",
  })
  const cached = () => lab.host.exec("ls", ["/var/lib/cni/results"])
  await waitFor(async () => (await cached()).stdout.includes(`cni-test-${started.pid}-`), "the test to attach")
  await waitFor(async () => (await lab.host.exec("ip", ["link"])).stdout.includes("cnitest"), "the test to send")
  return started
}

test.each(["SIGINT", "SIGTERM"] as const)("%s ends it at once, and all is as before", async (signal) => {
  const { lab } = await scene()
  await using _lab = lab
  const before = await takeSnapshot(lab.host)
  const started = await startWaiting(lab)
  started.kill(signal)
  const [stderr, exitCode] = await Promise.all([started.stderr.text(), started.exited])
  expect({ stderr, exitCode }).toEqual({ stderr: `cni test: Interrupted by ${signal}\n`, exitCode: 1 })
  await lab.host.exec("nft", ["delete", "table", "inet", "guard"])
  expectUnchanged(before, await takeSnapshot(lab.host), isAllocationTrace)
})

test("Ctrl-C while a plugin works takes back what the plugins before have done", async () => {
  const { lab } = await scene()
  await using _lab = lab
  const slow = `#!/bin/sh
if [ "$CNI_COMMAND" = ADD ]; then echo begun >"$0.begun"; exec sleep 600; fi
[ "$CNI_COMMAND" != VERSION ] || echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}'
`
  await lab.writeNetwork("20-slow.conflist", { ...podsNetwork, name: "slow", plugins: [bridge, { type: "slow" }] })
  await Bun.write(lab.directory.join("bin/slow"), slow)
  await chmod(lab.directory.join("bin/slow"), 0o755)
  const before = await takeSnapshot(lab.host)
  const path = `${lab.env().CNI_PATH}:${lab.directory.join("bin")}`
  const started = Bun.spawn(lab.commandLine(["test", "slow", "--bin-dir", path]), { env: lab.env(), stderr: "pipe" })
  await waitFor(() => Bun.file(lab.directory.join("bin/slow.begun")).exists(), "the plugin to begin")
  started.kill("SIGINT")
  const [stderr, exitCode] = await Promise.all([started.stderr.text(), started.exited])
  expect({ stderr, exitCode }).toMatchObject({
    stderr: expect.stringMatching(/type="slow" failed.*interrupted/),
    exitCode: 1,
  })
  expectUnchanged(before, await takeSnapshot(lab.host), isAllocationTrace)
})

test.each([
  ["first", [[{ subnet: "10.85.0.0/24", rangeStart: "10.85.0.2", rangeEnd: "10.85.0.3" }]]],
  ["second", [[{ subnet: "10.85.0.0/24", rangeStart: "10.85.0.2", rangeEnd: "10.85.0.4" }]]],
])("the ADD of the %s container fails: the error is told, and all is as before", async (_, ranges) => {
  const ipam = { type: "host-local", ranges }
  const { lab } = await scene({ ...podsNetwork, plugins: [{ ...bridge, ipam }, portmap] })
  await using _lab = lab
  const before = await takeSnapshot(lab.host)
  const { stderr, stdout, exitCode } = await lab.cni(["test", "pods"])
  expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 1 })
  expect(stderr).toMatch(/^cni test: plugin type="bridge" failed \(add\): .*no .*addresses/s)
  expectUnchanged(before, await takeSnapshot(lab.host), isAllocationTrace)
})

const cleaners: readonly [string, readonly string[], RegExp][] = [
  ["cni test", ["test", "pods"], /^Deleted leftovers of an earlier test: pods\/cni-test-\d+-[0-9a-f]{8}-1\/eth0$/m],
  ["cni gc --auto", ["gc", "pods", "--auto"], /delete +attachment +cni-test-\d+-[0-9a-f]{8}-1\/eth0/],
  ["cni doctor --fix", ["doctor", "--fix"], /cni-test-\d+-[0-9a-f]{8}-1/],
]

test.each(cleaners)("after kill -9 the next %s names what is left, and deletes it", async (_, args, says) => {
  const { lab } = await scene()
  await using _lab = lab
  const before = await takeSnapshot(lab.host)
  const started = await startWaiting(lab)
  const links = async () => (await lab.host.exec("ip", ["-details", "link"])).stdout
  started.kill("SIGKILL")
  await started.exited
  await lab.host.exec("nft", ["delete", "table", "inet", "guard"])
  await waitFor(async () => !/cni-?test/.test(await links()), "the kernel to delete the links of the namespaces")
  expect(await leasesOf(lab)).toHaveLength(4)
  const { stdout, stderr, exitCode } = await lab.cni(args)
  expect(`${stdout}${stderr}`).toMatch(says)
  expect(exitCode).toBe(0)
  expectUnchanged(before, await takeSnapshot(lab.host), isAllocationTrace)
})

async function leasesOf({ host }: NodeLab): Promise<string[]> {
  const { stdout } = await host.exec("sh", ["-ec", "cd /var/lib/cni/networks/pods; ls"])
  return stdout.split("\n").filter((name) => /^10\./.test(name))
}

test("another test that runs is left alone", async () => {
  const { lab } = await scene()
  await using _lab = lab
  const started = await startWaiting(lab)
  await lab.host.exec("nft", ["delete", "table", "inet", "guard"])
  const leases = await leasesOf(lab)
  const { exitCode, stderr } = await lab.cni(["test", "pods"])
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" })
  expect(await leasesOf(lab)).toEqual(leases)
  started.kill("SIGINT")
  await started.exited
})

/** A DNS server that answers for every name except those that contain "missing". */
const nameServer = `
const server = await Bun.udpSocket({ hostname: "192.0.2.1", port: 53, socket: { data(socket, question, port, address) {
  const answer = Buffer.from(question)
  answer[2] |= 0x80
  if (question.includes("missing")) answer[3] = 3
  socket.send(answer, port, address)
} } })`

test("name servers of the result are asked for the root, and for a name", async () => {
  const { lab, outside } = await scene({
    ...podsNetwork,
    plugins: [{ ...bridge, dns: { nameservers: ["192.0.2.1"] } }, portmap],
  })
  await using _lab = lab
  const dns = async (...args: string[]) => {
    const { probes, exitCode } = await cniTest(lab, "--wait", "1", ...args)
    const { outcome, reason } = probes.find(({ probe }) => probe === "dns") ?? {}
    return { outcome, reason, exitCode }
  }
  expect(await dns()).toEqual({
    outcome: "failed",
    exitCode: 3,
    reason: expect.stringMatching(
      /^192\.0\.2\.1: connect: Connection refused \(ECONNREFUSED\); the host got no answer/,
    ),
  })
  await startDaemon(outside.commandLine([process.execPath, "-e", nameServer]))
  const listeners = async () => (await outside.exec("cat", ["/proc/net/udp"])).stdout
  await waitFor(async () => (await listeners()).includes(":0035 "), "the name server")
  expect(await dns()).toEqual({ outcome: "ok", reason: undefined, exitCode: 0 })
  expect(await dns("--name", "www.example.com")).toEqual({ outcome: "ok", reason: undefined, exitCode: 0 })
  expect(await dns("--name", "missing.example.com")).toEqual({
    outcome: "failed",
    exitCode: 3,
    reason: expect.stringMatching(/^192\.0\.2\.1: the server answers NXDOMAIN for missing\.example\.com/),
  })
})

test("a name server of each family is asked by it: one that does not answer by IPv6 fails there alone", async () => {
  const plugins = [{ ...dualNetwork.plugins[0], dns: { nameservers: ["192.0.2.1", "2001:db8::1"] } }, portmap]
  const { lab, outside } = await scene({ ...dualNetwork, plugins })
  await using _lab = lab
  await startDaemon(outside.commandLine([process.execPath, "-e", nameServer]))
  const listeners = async () => (await outside.exec("cat", ["/proc/net/udp"])).stdout
  await waitFor(async () => (await listeners()).includes(":0035 "), "the name server")
  const { probes, exitCode } = await cniTest(lab, "--wait", patience)
  const asked = probes.filter(({ probe }) => probe === "dns")
  expect({ asked, exitCode }).toMatchObject({
    asked: [
      { family: "ipv4", outcome: "ok" },
      { family: "ipv6", outcome: "failed", reason: expect.stringMatching(/^2001:db8::1: connect: Connection refused/) },
    ],
    exitCode: 3,
  })
})

test("a server outside is asked by TCP where a port is given", async () => {
  const { lab, outside } = await scene()
  await using _lab = lab
  const tcp = async () => {
    const { probes, exitCode } = await cniTest(lab, "--outside", "192.0.2.1:80", "--wait", "1")
    return { ...probes.find(({ probe }) => probe === "pod to outside"), exitCode }
  }
  expect(await tcp()).toMatchObject({ outcome: "failed", reason: expect.stringContaining("ECONNREFUSED"), exitCode: 3 })
  await startDaemon(outside.commandLine(["busybox", "nc", "-ll", "-p", "80", "-e", "true"]))
  const listeners = async () => (await outside.exec("cat", ["/proc/net/tcp6", "/proc/net/tcp"])).stdout
  await waitFor(async () => (await listeners()).includes(":0050 "), "a server")
  expect(await tcp()).toMatchObject({ outcome: "ok", to: "192.0.2.1:80", exitCode: 0 })
})

test("for people there is a line for each probe, and what cannot be tested is said", async () => {
  const { lab, client } = await scene()
  await using _lab = lab
  const { stdout } = await lab.onTerminal(["test", "--outside", "192.0.2.9", "--wait", "1"])
  expect(stdout).toMatch(/network "pods", from cni-test-\S+-1 \(10\.85\.0\.\d+\) to cni-test-\S+-2 \(10\.85\.0\.\d+\)/)
  expect(stdout).toMatch(/^ok {7}pod to pod {14}10\.85\.0\.\d+:8080\r$/m)
  expect(stdout).toMatch(/^failed {3}pod to outside {10}192\.0\.2\.9; (no answer|connect)/m)
  for (const [args, exitCode, says] of [
    [["--wait", "0"], 2, /cannot use --wait 0/],
    [["--outside", "nowhere"], 2, /cannot use --outside nowhere/],
    [["--containers", client.name], 2, /--containers needs two/],
    [["--containers", `${client.name},other`], 1, /Cannot find container "other"/],
  ] as const) {
    const said = await lab.cni(["test", "pods", ...args])
    expect({ exitCode: said.exitCode, stdout: said.stdout }).toEqual({ exitCode, stdout: "" })
    expect(said.stderr).toMatch(says)
  }
})
