import { expect, test } from "bun:test"
import { builtPlugins, type ContainerNamespace, isOfMachine, programEnv, writeSysctl } from "../lab/mod.ts"
import { type Finding, NodeLab, podsNetwork, withoutProgress } from "./node-lab.ts"

async function doctor(lab: NodeLab, ...args: string[]) {
  const { stdout, stderr, exitCode } = await lab.cni(["doctor", "--json", ...args])
  const { findings = [], fixes = [] } = (stdout === "" ? {} : JSON.parse(stdout)) as {
    findings?: Finding[]
    fixes?: string[]
  }
  return { findings: findings.filter(({ rule }) => !isOfMachine(rule)), fixes, stderr, exitCode }
}

test("--fix deletes what containers that are gone have left, says so before, and touches nothing else", async () => {
  await using lab = await NodeLab.create()
  const [alive, gone, forgotten] = [await lab.addPod("a"), await lab.addPod("b"), await lab.addPod("c")]
  await lab.host.exec("rm", [`/var/lib/cni/results/pods-${forgotten.name}-eth0`])
  await lab.losePod(gone)
  const traces = async ({ name }: ContainerNamespace) => {
    const files = await lab.host.tryExec("grep", ["-rlw", name, "/var/lib/cni", "--exclude-dir=.index"])
    const said = `${(await lab.host.exec("ip", ["-d", "link"])).stdout}${(await lab.host.exec("nft", ["list", "ruleset"])).stdout}`
    return [
      ...files.stdout.trim().split("\n"),
      ...said
        .split(/[\n,{}]/)
        .map((line) => line.trim())
        .filter((line) => line.includes(name)),
    ].sort()
  }
  const before = { alive: await traces(alive), forgotten: await traces(forgotten) }
  const looked = await doctor(lab)
  expect(looked.findings.filter(({ fixable }) => fixable).map(({ rule }) => rule)).toEqual(["stale-cache"])
  expect(await traces(gone)).not.toEqual([""])

  const { fixes, exitCode } = await doctor(lab, "--fix")
  expect({ fixes, exitCode }).toEqual({ fixes: [`DEL of pods/${gone.name}/eth0 by portmap, bridge`], exitCode: 0 })
  expect(await traces(gone)).toEqual([""])
  expect({ alive: await traces(alive), forgotten: await traces(forgotten) }).toEqual(before)
  // An attachment without a cache record may be in use, so it is reported and kept.
  expect((await doctor(lab)).findings.map(({ rule, fixable }) => [rule, fixable])).toEqual([["orphaned-link", false]])
})

test("a bundle has what a maintainer needs, and no secrets", async () => {
  await using lab = await NodeLab.create({
    ...podsNetwork,
    plugins: [
      { ...podsNetwork.plugins[0], password: "hunter2", deep: [{ apiToken: "hunter2" }] },
      podsNetwork.plugins[1],
    ],
  })
  await lab.addPod()
  const file = lab.directory.join("bundle.tar")
  expect(await lab.cni(["doctor", "--bundle", file])).toMatchObject({ exitCode: 0, stderr: `Wrote ${file}\n` })
  const list = (await lab.host.exec("tar", ["-tvf", file])).stdout
  for (const name of ["about.json", "doctor.json", "attachments.json", "links.json", "routes.json", "leases.json"])
    expect(list).toContain(name)
  expect(list).toContain("net.d/10-pods.conflist")
  expect(list).toMatch(/^-rw------- root\/root/)
  expect((await lab.host.exec("stat", ["-c", "%a", file])).stdout).toBe("600\n")
  const { stdout } = await lab.host.exec("tar", ["-xOf", file])
  expect(stdout).not.toContain("hunter2")
  expect(stdout).toContain("(removed)")
})

test("a person reads what is wrong, why, and what to do, in lines that fit", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  await writeSysctl(lab.host, "net/ipv4/ip_forward", "0")
  const script = ["-qec", `stty cols 80; ${builtPlugins}/../cni doctor`, "/dev/null"]
  const env = { ...programEnv, NETCONFPATH: lab.confDir, CNI_PATH: builtPlugins, NO_COLOR: "1" }
  const stdout = withoutProgress((await lab.host.tryExec("script", script, { env })).stdout)
  expect(stdout).toContain("ERROR forwarding-off\r\n  net/ipv4/ip_forward is 0")
  expect(stdout).toContain("\r\n  why: ")
  expect(stdout).toContain("\r\n  do: sysctl -w net.ipv4.ip_forward=1")
  expect(stdout).not.toContain("\x1b")
  expect(Math.max(...stdout.split("\r\n").map((line) => line.length))).toBeLessThanOrEqual(80)
})
