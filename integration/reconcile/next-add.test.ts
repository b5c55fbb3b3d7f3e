import { expect, test } from "bun:test"
import { chmod, readdir, stat, truncate } from "node:fs/promises"
import { podsNetwork } from "../cni/node-lab.ts"
import { expectNoEcho, outside, uplink } from "../lab/mod.ts"
import { type Published, ReconcileLab, withoutLocalnetRecord } from "./reconcile-lab.ts"

const [bridge = {}, portmap = {}] = podsNetwork.plugins
const guarded = { ...podsNetwork, plugins: [bridge, portmap, { type: "firewall", ingressPolicy: "same-bridge" }] }

/** Rules are gone, and what nothing lets through is dropped, as docker leaves it. */
async function flush({ host }: ReconcileLab): Promise<void> {
  await host.exec("nft", ["flush", "ruleset"])
  await host.exec("iptables", ["-P", "FORWARD", "DROP"])
}

/** Where the host's ADDs leave their notes. */
const notesOf = async ({ host }: ReconcileLab) => `/run/cni/rules/${(await stat(host.path)).ino}`

async function expectUnreached(lab: ReconcileLab, { pod, hostPort }: Published): Promise<void> {
  await expectNoEcho(pod, { transport: "tcp", address: outside.ip, port: 9000 })
  await expectNoEcho(lab.outside, { transport: "tcp", address: uplink.ip, port: hostPort })
}

test("after nft flush ruleset one ADD makes again what all other containers have lost, and DELs leave nothing", async () => {
  await using lab = await ReconcileLab.create(guarded)
  await flush(lab)
  const pods = await lab.addPods(3)
  await lab.expectTraffic(pods)
  const before = withoutLocalnetRecord(await lab.ruleSet())
  await flush(lab)
  await lab.expectNoTraffic(pods)
  const last = await lab.addPods(1)
  await lab.expectTraffic([...pods, ...last])
  expect(await lab.reconcile()).toMatchObject({ restored: [] })
  await lab.removePods(last)
  expect(withoutLocalnetRecord(await lab.ruleSet())).toEqual(before)
  await lab.removePods(pods)
  expect(await readdir(lab.host.file("/run/cni"))).not.toContain("rules")
})

test("by iptables too: after iptables -t nat -F and -F one ADD makes again all masquerades and published ports, and what firewall lets through", async () => {
  const backend = "iptables"
  const plugins = [
    { ...bridge, ipMasqBackend: backend },
    { ...portmap, backend },
    { type: "firewall", backend },
  ]
  await using lab = await ReconcileLab.create({ ...podsNetwork, plugins })
  const pods = await lab.addPods(3)
  await lab.expectTraffic(pods)
  await lab.host.exec("sh", ["-ec", "iptables -t nat -F; iptables -F"])
  const [first] = pods as [Published]
  await expectNoEcho(lab.outside, { transport: "tcp", address: uplink.ip, port: first.hostPort })
  await lab.expectTraffic([...pods, ...(await lab.addPods(1))])
  expect(await lab.reconcile("--dry-run")).toMatchObject({ restored: [] })
})

test("the next ADD makes nothing for containers that are gone, from torn notes, or from a directory that others can change [S144]", async () => {
  await using lab = await ReconcileLab.create()
  const pods = (await lab.addPods(4)) as [Published, Published, Published, Published]
  const [gone, torn, deleted, alive] = pods
  await lab.node.losePod(gone.pod)
  for (const kind of ["masquerade", "portmap"])
    await truncate(lab.host.file(`${await notesOf(lab)}/${kind}/pods:${torn.pod.name}:eth0.json`), 100)
  await lab.host.exec("nft", ["flush", "ruleset"])
  await lab.removePods([deleted]) // and so there is a table again, with nothing but the guard of route_localnet
  const [first] = (await lab.addPods(1)) as [Published]
  await lab.expectTraffic([alive, first])
  await expectUnreached(lab, torn)
  const rules = (await lab.ruleSet()).join()
  for (const { pod } of [gone, torn, deleted]) expect(rules).not.toContain(pod.name)
  for (const kind of ["masquerade", "portmap"]) await chmod(lab.host.file(`${await notesOf(lab)}/${kind}`), 0o777)
  await lab.host.exec("nft", ["flush", "ruleset"])
  await lab.addPods(1)
  await expectUnreached(lab, alive)
})

test("an ADD succeeds where no note can be written, and says so", async () => {
  await using lab = await ReconcileLab.create()
  await lab.host.exec("mount", ["-t", "tmpfs", "-o", "size=4k,nr_inodes=1", "cni-test", "/run/cni"])
  const pod = await lab.host.addContainer()
  const { exitCode, stderr } = await lab.node.cni(["add", "pods", pod.path, "--container-id", pod.name])
  expect(exitCode).toBe(0)
  expect(stderr).toContain(`Cannot note the rules in "${await notesOf(lab)}/masquerade/`)
})

test("ADDs and DELs at once after a flush: all that live are reached, and nothing is left of those that were deleted", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(6)
  for (let round = 0; round < 4; round++) {
    const going = await lab.addPods(3)
    await lab.host.exec("nft", ["flush", "ruleset"])
    const [come] = await Promise.all([lab.addPods(1), ...going.map((one) => lab.removePods([one]))])
    pods.push(...come)
    await lab.expectTraffic(pods)
    const rules = (await lab.ruleSet()).join()
    for (const { pod } of going) expect(rules).not.toContain(pod.name)
  }
})
