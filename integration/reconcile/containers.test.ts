import { expect, test } from "bun:test"
import { chmod, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { podsNetwork } from "../cni/node-lab.ts"
import { madeFor, type Published, ReconcileLab } from "./reconcile-lab.ts"

test("cni reconcile skips and names a container whose namespace is gone, and leaves nothing of it", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(2)
  const [gone, alive] = pods as [Published, Published]
  await lab.node.losePod(gone.pod)
  await lab.host.exec("nft", ["flush", "ruleset"])
  const { restored, skipped } = await lab.reconcile()
  expect(skipped).toEqual([
    {
      network: "pods",
      containerId: gone.pod.name,
      ifName: "eth0",
      reason: `its namespace "${gone.pod.path}" does not exist`,
    },
  ])
  expect(restored).toEqual([madeFor(alive, "bridge", "masquerade"), madeFor(alive, "portmap", "published ports")])
  expect((await lab.ruleSet()).join()).not.toContain(gone.pod.name)
  await lab.expectTraffic([alive])
})

test("cni reconcile restores one network alone where that is asked for", async () => {
  await using lab = await ReconcileLab.create()
  await lab.node.writeNetwork("20-other.conflist", {
    ...podsNetwork,
    name: "other",
    plugins: [{ ...podsNetwork.plugins[0], bridge: "cni1", ipam: { type: "host-local", subnet: "10.87.0.0/24" } }],
  })
  const pods = await lab.addPods(1)
  const other = await lab.node.addPod("other", "other")
  await lab.host.exec("nft", ["flush", "ruleset"])
  expect((await lab.reconcile("other")).restored).toEqual([
    madeFor({ pod: other, hostPort: 0 }, "bridge", "masquerade", "other"),
  ])
  expect((await lab.reconcile()).restored).toHaveLength(2)
  await lab.expectTraffic(pods)
})

/** Returns a script that acts as a plugin of another suite and records its input. */
const foreignPlugin = (log: string) => `#!/bin/sh
echo "$CNI_COMMAND" >> ${log}
case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}' ;;
ADD) exec ${process.execPath} -e 'console.log(JSON.stringify(JSON.parse(await Bun.stdin.text()).prevResult))' ;;
"") echo "CNI portmap plugin v1.9.1" >&2 ;;
esac
`

test("a plugin of another suite is not asked to restore, also under one of this suite's names, and is named [S124]", async () => {
  const plugins = [podsNetwork.plugins[0] as object, { type: "portmap" }, { type: "strange" }]
  await using lab = await ReconcileLab.create({ ...podsNetwork, plugins })
  const log = lab.node.directory.join("log")
  await lab.node.useOwnPlugins(async (directory) => {
    for (const name of ["portmap", "strange"]) {
      await lab.host.exec("rm", ["-f", join(directory, name)])
      await writeFile(join(directory, name), foreignPlugin(log))
      await chmod(join(directory, name), 0o755)
    }
  })
  const pod = await lab.node.addPod()
  await writeFile(log, "")
  await lab.host.exec("nft", ["flush", "ruleset"])
  const { restored, foreign } = await lab.reconcile()
  expect(restored).toEqual([madeFor({ pod, hostPort: 0 }, "bridge", "masquerade")])
  expect(foreign).toEqual([
    { network: "pods", plugin: "portmap" },
    { network: "pods", plugin: "strange" },
  ])
  expect((await readFile(log, "utf8")).split("\n").filter((line) => line !== "")).toEqual([])
})

test("a cache that other users can write to is not believed, and nothing is made from it [S125]", async () => {
  await using lab = await ReconcileLab.create()
  await lab.addPods(1)
  await lab.host.exec("nft", ["flush", "ruleset"])
  await chmod(lab.host.file("/var/lib/cni/results"), 0o777)
  const { stdout, stderr, exitCode } = await lab.node.cni(["reconcile", "-o", "json"])
  expect(exitCode).toBe(1)
  expect(stderr).toContain('Cannot trust "/var/lib/cni"')
  expect(JSON.parse(stdout)).toMatchObject({ restored: [] })
  expect(await lab.ruleSet()).toEqual([])
})

test("a port that another container has by now stays that one's, and a message names it", async () => {
  await using lab = await ReconcileLab.create()
  const [first] = (await lab.addPods(1)) as [Published]
  await lab.host.exec("nft", ["flush", "ruleset"])
  const CAP_ARGS = JSON.stringify({
    portMappings: [{ hostPort: first.hostPort, containerPort: 80, protocol: "tcp" }],
  })
  const taker = await lab.host.addContainer()
  await lab.node.cni(["add", "pods", taker.path, "--container-id", taker.name], { CAP_ARGS })
  const { stderr, exitCode } = await lab.node.cni(["reconcile", "-o", "json"])
  expect(exitCode).toBe(1)
  expect(stderr).toContain(`Cannot map host port ${first.hostPort}/tcp to`)
  expect(stderr).toContain(`for pods/${taker.name}/eth0`)
  const { stdout } = await lab.host.exec("nft", ["list", "map", "ip", "cni_hostports", "ports"])
  expect(stdout).toContain(taker.name)
  expect(stdout).not.toContain(first.pod.name)
})

test("two runs at once, and one beside ADD and DEL, make each thing once, and DEL leaves nothing", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(4)
  const before = (await lab.ruleSet()).filter((line) => !/localnet_/.test(line))
  for (let round = 0; round < 5; round++) {
    await lab.host.exec("nft", ["flush", "ruleset"])
    const runs = await Promise.all([1, 2, 3].map(() => lab.node.cni(["reconcile", "-o", "json"])))
    expect(runs.map(({ exitCode, stderr }) => ({ exitCode, stderr }))).toEqual(
      runs.map(() => ({ exitCode: 0, stderr: "" })),
    )
    expect((await lab.ruleSet()).filter((line) => !/localnet_/.test(line))).toEqual(before)
  }
  for (let round = 0; round < 5; round++) {
    await lab.host.exec("nft", ["flush", "ruleset"])
    const [added] = await Promise.all([lab.addPods(1), lab.reconcile()])
    await lab.expectTraffic([...pods, ...added])
    await lab.host.exec("nft", ["flush", "ruleset"])
    await Promise.all([lab.removePods(added), lab.node.cni(["reconcile"])])
    expect((await lab.ruleSet()).join()).not.toContain(added[0]?.pod.name)
  }
  await lab.expectNothingLeft(pods)
})
