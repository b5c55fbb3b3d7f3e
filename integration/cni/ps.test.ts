import { expect, test } from "bun:test"
import { Attachment, bridgeNetwork, builtPlugins, expectUnchanged, programEnv, takeSnapshot } from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

interface Row {
  network: string
  containerId: string
  ifName: string
  pod?: { namespace: string; name: string }
  netns?: string
  alive?: boolean
  addresses: string[]
  ports: object[]
  unservedPorts?: object[]
  hostInterface?: string
  sources: string[]
  orphan: string[]
}

const port = { hostPort: 8001, containerPort: 80, protocol: "tcp" }

async function ps(lab: NodeLab, ...args: string[]) {
  const { stdout, stderr, exitCode } = await lab.cni(["ps", "--json", ...args])
  return { rows: JSON.parse(stdout) as Row[], stderr, exitCode }
}

test("an attachment is one row: pod, addresses, ports, the host's end, namespace, sources; looking changes nothing", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod()
  const [veth] = await lab.host.json<{ ifname: string }[]>("ip", ["-j", "link", "show", "type", "veth"])
  const before = await takeSnapshot(lab.host)
  const { rows, stderr, exitCode } = await ps(lab)
  expectUnchanged(before, await takeSnapshot(lab.host))
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 })
  expect(rows).toMatchObject([
    {
      network: "pods",
      containerId: pod.name,
      ifName: "eth0",
      pod: { namespace: "shop", name: "web" },
      netns: pod.path,
      alive: true,
      addresses: ["10.85.0.2/24"],
      ports: [port],
      hostInterface: veth?.ifname ?? "",
      sources: ["cache", "lease", "link", "rule"],
      orphan: [],
    },
  ])
})

test("a published port whose rules were flushed is not shown as served", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  await lab.host.exec("nft", ["flush", "ruleset"])
  const { rows } = await ps(lab)
  expect(rows).toMatchObject([{ ports: [], unservedPorts: [port] }])
  expect((await lab.onTerminal(["ps"])).stdout).toContain("8001→80/tcp (no rules)")
})

test("a port that portmap of the Go plugins serves by nf_tables is served", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod()
  await lab.host.exec("nft", ["delete", "table", "ip", "cni_hostports"])
  const rules = `table ip cni_hostport {
    comment "CNI portmap plugin"
    chain hostports {
      tcp dport 8001 dnat to 10.85.0.2:80 comment "${pod.name}"
    }
    chain prerouting {
      type nat hook prerouting priority -100
      fib daddr type local jump hostports
    }
  }`
  await lab.host.exec("nft", ["-f", "-"], { input: rules })
  const { rows } = await ps(lab)
  expect(rows).toMatchObject([{ containerId: pod.name, ports: [port], rules: expect.anything() }])
  expect(rows[0]?.unservedPorts).toBeUndefined()
  const doctor = await lab.cni(["doctor", "--json"])
  expect(doctor.stdout).not.toContain("missing-ports")
  await lab.host.exec("nft", ["flush", "chain", "ip", "cni_hostport", "hostports"])
  expect((await lab.cni(["doctor", "--json"])).stdout).toContain("missing-ports")
})

test("a masquerade that the Go plugins have made by nf_tables is the attachment's", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod()
  await lab.host.exec("nft", ["delete", "table", "ip", "cni_masquerade"])
  const comment = `d23676b4f2d9fe04-1c8f6ae798001240, net: pods, if: eth0, id: ${pod.name}`
  const rules = `table inet cni_plugins_masquerade {
    chain masq_checks {
      ip saddr 10.85.0.2 ip daddr != 10.85.0.0/24 masquerade comment "${comment}"
    }
    chain postrouting {
      type nat hook postrouting priority 100
      goto masq_checks
    }
  }`
  expect((await lab.cni(["doctor", "--json"])).stdout).toContain("missing-masquerade")
  await lab.host.exec("nft", ["-f", "-"], { input: rules })
  expect((await lab.cni(["doctor", "--json"])).stdout).not.toContain("missing-masquerade")
})

test("orphans: a lease without namespace, rules without lease, a link without cache entry; exit code 3", async () => {
  await using lab = await NodeLab.create()
  const [alive, noLease, noCache, noNamespace] = [
    await lab.addPod("a"),
    await lab.addPod("b"),
    await lab.addPod("c"),
    await lab.addPod("d"),
  ]
  expect(await ps(lab, "--orphans")).toEqual({ rows: [], stderr: "", exitCode: 0 })
  await lab.losePod(noNamespace)
  await lab.losePod(noLease)
  const results = "/var/lib/cni/results"
  await lab.host.exec("rm", [`${results}/pods-${noLease.name}-eth0`, `${results}/pods-${noCache.name}-eth0`])
  await lab.host.exec("rm", ["/var/lib/cni/networks/pods/10.85.0.3"])
  const { rows, exitCode } = await ps(lab, "--orphans")
  expect(exitCode).toBe(3)
  const reasons = Object.fromEntries(rows.map(({ containerId, orphan }) => [containerId, orphan]))
  expect(Object.keys(reasons)).not.toContain(alive.name)
  expect(reasons[noCache.name]).toEqual(["link without cache entry"])
  expect(reasons[noLease.name]).toContain("rules without lease")
  expect(reasons[noNamespace.name]).toContain("lease without namespace")
})

test("a network's name leaves out the others, and --help says what there is", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  await lab.writeNetwork("20-other.conflist", { ...podsNetwork, name: "other" })
  expect((await ps(lab, "other")).rows).toEqual([])
  expect((await ps(lab, "pods")).rows).toHaveLength(1)
  expect((await lab.cni(["ps", "--help"])).stdout).toContain("--orphans")
})

test("what the Go plugins have attached is shown as well", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.host.addContainer()
  const config = { ...bridgeNetwork({ ipMasq: true }), name: "go" }
  const attachment = new Attachment(lab.host, pod, config, { bin: "/usr/lib/cni/bridge", path: "/usr/lib/cni" })
  await attachment.add({ cniVersion: "1.0.0" })
  const { rows } = await ps(lab)
  expect(rows).toMatchObject([
    { network: "go", containerId: pod.name, addresses: ["10.22.0.2"], sources: ["lease", "rule"] },
  ])
})

test("a person gets a table that fits, with words for what colors say", async () => {
  await using lab = await NodeLab.create()
  await lab.losePod(await lab.addPod())
  const run = async (columns: number, env: Record<string, string> = {}) => {
    const line = `stty cols ${columns}; ${builtPlugins}/../cni ps`
    const all = { ...programEnv, NETCONFPATH: lab.confDir, TERM: "xterm", ...env }
    return (await lab.host.exec("script", ["-qec", line, "/dev/null"], { env: all })).stdout.split("\r\n")
  }
  const plain = await run(90, { NO_COLOR: "1" })
  expect(plain[0]).toMatch(/^NETWORK +NAMESPACE +CONTAINER +INTERFACE +ADDRESS +PORTS +NETNS +AGE +NOTES$/)
  expect(plain[1]).toMatch(/^pods +shop +web +eth0 .*gone.*orphan: /)
  expect(Math.max(...plain.map((line) => line.length))).toBeLessThanOrEqual(90)
  const coloured = await run(200)
  expect(coloured.join("\n")).toContain("\x1b[31;1mgone\x1b[0m")
})

test("a user who is not root is told what could not be seen", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  const say = (...words: string[]) => {
    const as = ["--reuid=65534", "--clear-groups", "--", `${builtPlugins}/../cni`, ...words]
    return lab.host.tryExec("setpriv", as, { env: { ...programEnv, NETCONFPATH: "/nowhere" } })
  }
  expect((await say("ps", "--json")).stderr).toContain("Warning: cannot see the ")
  for (const words of [
    ["doctor"],
    ["test"],
    ["reconcile", "--dry-run"],
    ["trace", "--from", "host", "--to", "192.0.2.1"],
  ]) {
    const stderr = `cni ${words[0]}: Cannot read this node: it needs root, with CAP_NET_ADMIN\n`
    expect(await say(...words)).toMatchObject({ stdout: "", stderr, exitCode: 1 })
  }
})
