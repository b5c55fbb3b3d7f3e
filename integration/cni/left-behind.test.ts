import { expect, test } from "bun:test"
import { builtPlugins, type ContainerNamespace, chooseIptables } from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

/** The directory of Debian's Go plugins. */
const upstreamPlugins = "/usr/lib/cni"

/** The network with a version of the specification that has no GC, as most nodes use it. */
const oldNetwork = { ...podsNetwork, cniVersion: "1.0.0" }

/**
 * Creates a node on which the Go plugins left objects of a container that no longer exists, with its lease and cache
 * record.
 */
async function nodeOfOthers(): Promise<{ lab: NodeLab; gone: ContainerNamespace; alive: ContainerNamespace }> {
  const lab = await NodeLab.create(oldNetwork)
  await chooseIptables(lab.host, "nf_tables")
  const add = async (hostPort: number) => {
    const pod = await lab.host.addContainer()
    const CAP_ARGS = JSON.stringify({ portMappings: [{ hostPort, containerPort: 80, protocol: "tcp" }] })
    const args = ["add", "pods", pod.path, "--container-id", pod.name, "--bin-dir", upstreamPlugins]
    const { stderr, exitCode } = await lab.cni(args, { CAP_ARGS })
    expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 })
    return pod
  }
  const [gone, alive] = [await add(8001), await add(8002)]
  await lab.losePod(gone)
  const files = `rm /var/lib/cni/results/pods-${gone.name}-eth0; grep -rlw ${gone.name} /var/lib/cni/networks/pods | xargs rm`
  await lab.host.exec("sh", ["-ec", files])
  return { lab, gone, alive }
}

/** Returns the lines of table nat that contain one of these words. */
async function linesOf({ host }: NodeLab, ...words: string[]): Promise<string[]> {
  const { stdout } = await host.exec("iptables-save", ["-t", "nat"])
  return stdout.split("\n").filter((line) => words.some((word) => line.includes(word)))
}

const ways = [
  ["cni doctor --fix", ["doctor", "--fix"]],
  ["cni gc --auto", ["gc", "pods", "--auto"]],
] as const

for (const [name, args] of ways) {
  test.each([
    ["this suite's plugins", builtPlugins],
    ["the reference plugins", upstreamPlugins],
  ])(`${name} deletes the rules that the reference plugins have left, on a node with %s`, async (_, directory) => {
    const { lab, gone, alive } = await nodeOfOthers()
    await using _lab = lab
    const ofAlive = await linesOf(lab, alive.name, "10.85.0.3")
    expect((await linesOf(lab, gone.name, "10.85.0.2")).length).toBeGreaterThan(4)
    const { stdout, stderr, exitCode } = await lab.cni([...args, "--bin-dir", directory])
    expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 })
    expect(stdout).toMatch(/ip nat CNI-HOSTPORT-DNAT/)
    expect(await linesOf(lab, gone.name, "10.85.0.2")).toEqual([])
    expect(ofAlive.length).toBeGreaterThan(4)
    expect(await linesOf(lab, alive.name, "10.85.0.3")).toEqual(ofAlive)
    const { findings } = JSON.parse((await lab.cni(["doctor", "--json"])).stdout) as { findings: { rule: string }[] }
    expect(findings.filter(({ rule }) => rule === "orphaned-rules")).toEqual([])
  })

  test(`${name} says what it could not delete, and fails`, async () => {
    await using lab = await NodeLab.create(oldNetwork)
    const rule = 'ip daddr 10.85.0.9 counter comment "pods/c9/eth0"'
    await lab.host.exec("nft", ["-f", "-"], { input: `table inet cni_of_others {\nchain c {\n${rule}\n}\n}\n` })
    const { stdout, stderr, exitCode } = await lab.cni([...args])
    expect(exitCode).toBe(1)
    expect(stdout).toContain("inet cni_of_others c")
    expect(stderr).toMatch(/Cannot delete .*pods\/c9\/eth0.* still exists?$/m)
    expect((await lab.host.exec("nft", ["list", "table", "inet", "cni_of_others"])).stdout).toContain(rule.slice(0, 20))
  })
}

test("cni gc deletes in a network of a version without GC what it prints: leases, links and rules", async () => {
  await using lab = await NodeLab.create(oldNetwork)
  const [alive, forgotten] = [await lab.addPod("a"), await lab.addPod("b")]
  await lab.host.exec("rm", [`/var/lib/cni/results/pods-${forgotten.name}-eth0`])
  const dry = await lab.cni(["gc", "pods", "--auto", "--dry-run", "--json"])
  const rows = JSON.parse(dry.stdout) as { what: string; kind: string; name: string; of: string }[]
  const kindsOf = (what: string, id: string) => [
    ...new Set(rows.filter((row) => row.what === what && `${row.name} ${row.of}`.includes(id)).map(({ kind }) => kind)),
  ]
  expect(kindsOf("keep", alive.name)).toEqual(["attachment"])
  expect(kindsOf("would delete", forgotten.name)).toEqual(["lease", "link", "rule"])
  const real = await lab.cni(["gc", "pods", "--auto", "--json"])
  expect(real).toMatchObject({ stderr: "", exitCode: 0, stdout: dry.stdout.replaceAll("would delete", "delete") })
  const files = await lab.host.tryExec("grep", [
    "-rlw",
    forgotten.name,
    "/var/lib/cni/networks/pods",
    "--exclude-dir=.index",
  ])
  const [links, rules] = [await lab.host.exec("ip", ["-d", "link"]), await lab.host.exec("nft", ["list", "ruleset"])]
  for (const text of [files.stdout, links.stdout, rules.stdout]) expect(text).not.toContain(forgotten.name)
  expect(rules.stdout).toContain(alive.name)
  expect(links.stdout).toContain(alive.name)
})

test("after --fix the last line counts what is left, not what was found", async () => {
  await using lab = await NodeLab.create()
  await lab.losePod(await lab.addPod())
  const { stdout } = await lab.onTerminal(["doctor", "--fix"])
  // A full table of neighbors on the machine causes a warning.
  expect(stdout).toMatch(
    /WARNING stale-cache.*Fixing: DEL of pods.*\n0 errors, [01] warnings?, 0 attachments looked at, after 1 deletion\r?\n$/s,
  )
})

test("a container whose network's file is gone, as after cni install --uninstall, is detached by the record of its ADD", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod()
  await lab.host.exec("rm", [`${lab.confDir}/10-pods.conflist`])
  const del = ["del", "pods", pod.path, "--container-id", pod.name]
  expect(await lab.cni(del)).toMatchObject({ exitCode: 0, stderr: "" })
  expect((await pod.exec("ip", ["-br", "link"])).stdout).not.toContain("eth0")
  expect((await lab.cni(["ps", "--no-headers"])).stdout).not.toContain(pod.name)
  expect(await lab.cni(del)).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('Cannot find network "pods"'),
  })
})
