/** Tests DEL, and ADD after it, while `cni reconcile` runs. */
import { expect, test } from "bun:test"
import { readdir, stat } from "node:fs/promises"
import { join } from "node:path"
import { programEnv } from "../lab/mod.ts"
import { madeFor, type Published, ReconcileLab } from "./reconcile-lab.ts"

/** Runs DEL of one plugin, as if the chain were killed after it. */
async function deletePorts(lab: ReconcileLab, { pod }: Published): Promise<void> {
  const config = { cniVersion: "1.1.0", name: "pods", type: "portmap" }
  const variables = { CNI_CONTAINERID: pod.name, CNI_NETNS: pod.path, CNI_IFNAME: "eth0", CNI_PATH: lab.node.binDir }
  await lab.host.exec(join(lab.node.binDir, "portmap"), [], {
    env: { ...programEnv, ...variables, CNI_COMMAND: "DEL" },
    input: JSON.stringify(config),
  })
}

test("a container whose DEL has begun gets nothing back, and that is said", async () => {
  await using lab = await ReconcileLab.create()
  const [going, other] = (await lab.addPods(2)) as [Published, Published]
  await deletePorts(lab, going)
  await lab.host.exec("nft", ["flush", "ruleset"])
  const { restored, skipped } = await lab.reconcile()
  expect(skipped).toEqual([
    { network: "pods", containerId: going.pod.name, ifName: "eth0", reason: "a DEL has started" },
  ])
  expect(restored).toEqual([madeFor(other, "bridge", "masquerade"), madeFor(other, "portmap", "published ports")])
  await lab.removePods([going])
  expect(await readdir(lab.host.file("/run/cni/deletions"))).toEqual([])
})

test("an ADD after a DEL is an ADD, however busy the node is: its container gets back what it has lost", async () => {
  await using lab = await ReconcileLab.create()
  const pods = (await lab.addPods(2)) as [Published, Published]
  await lab.reconcile()
  const addAgain = ({ pod, hostPort }: Published) => {
    const CAP_ARGS = JSON.stringify({ portMappings: [{ hostPort, containerPort: 80, protocol: "tcp" }] })
    return lab.node.cni(["add", "pods", pod.path, "--container-id", pod.name], { CAP_ARGS })
  }
  await lab.removePods(pods)
  await deletePorts(lab, pods[1]) // runtimes repeat DEL
  // Another process holds the lock on the files in /run/cni for longer than plugins wait for it.
  const lock = ["flock", "/run/cni/announcements", "sh", "-c", "echo held; cat"]
  const [file = "", ...args] = lab.host.commandLine(lock)
  await using holder = Bun.spawn([file, ...args], { stdio: ["pipe", "pipe", "inherit"], env: { ...programEnv } })
  await holder.stdout.getReader().read()
  for (const pod of pods) expect(await addAgain(pod)).toMatchObject({ exitCode: 0 })
  await holder.stdin.end()
  await holder.exited
  await lab.host.exec("nft", ["flush", "ruleset"])
  expect(await lab.reconcile()).toMatchObject({ skipped: [] })
  await lab.expectTraffic(pods)
})

test("a DEL waits for a run of cni reconcile that has begun, and the directory of marks is root's alone", async () => {
  await using lab = await ReconcileLab.create()
  const [going] = (await lab.addPods(1)) as [Published]
  await lab.reconcile()
  expect((await stat(lab.host.file("/run/cni/deletions"))).mode & 0o777).toBe(0o700)
  const [file = "", ...args] = lab.host.commandLine(["flock", "/run/cni/deletions", "sh", "-c", "echo held; cat"])
  await using holder = Bun.spawn([file, ...args], { stdio: ["pipe", "pipe", "inherit"], env: { ...programEnv } })
  await holder.stdout.getReader().read()
  let hasEnded = false
  const deleted = lab.removePods([going]).then(() => {
    hasEnded = true
  })
  await lab.node.cni(["ps"]) // takes longer than DEL
  expect(hasEnded).toBe(false)
  expect((await lab.ruleSet()).join()).toContain(going.pod.name)
  await holder.stdin.end()
  await deleted
  expect((await lab.ruleSet()).join()).not.toContain(going.pod.name)
})
