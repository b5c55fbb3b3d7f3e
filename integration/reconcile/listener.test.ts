import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, readdir, readFile, writeFile } from "node:fs/promises"
import { outside, uplink, waitFor } from "../lab/mod.ts"
import { FlowMeter, type ListenerRecord, RunningListener } from "./listener-lab.ts"
import { type Published, ReconcileLab, withoutLocalnetRecord } from "./reconcile-lab.ts"
import { sabotages } from "./sabotages.ts"

let meter: FlowMeter
beforeAll(async () => {
  meter = await FlowMeter.build()
})
afterAll(() => meter[Symbol.asyncDispose]())

const restorations = ({ outage }: ListenerRecord) => outage.count
const flush = (lab: ReconcileLab) => lab.host.exec("nft", ["flush", "ruleset"])

async function untilRestored(listener: RunningListener, act: () => Promise<unknown>): Promise<ListenerRecord> {
  const before = restorations(await listener.record())
  await act()
  return listener.until((record) => restorations(record) > before, "something to be restored")
}

test("after nft flush ruleset the listener makes all again as it was, amid new flows out and in by a published port", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(3)
  const [first] = pods as [Published]
  await using listener = await RunningListener.start(lab.node)
  const before = withoutLocalnetRecord(await lab.ruleSet())
  const out = { transport: "udp", address: outside.ip, port: 9000 } as const
  const into = { transport: "tcp", address: uplink.ip, port: first.hostPort } as const
  for (const [from, question] of [
    [first.pod, out],
    [lab.outside, into],
  ] as const) {
    const flows = await meter.during(from, question, async () => {
      await untilRestored(listener, () => flush(lab))
    })
    expect(flows).toMatchObject({ isBack: true })
  }
  expect(withoutLocalnetRecord(await lab.ruleSet())).toEqual(before)
  await lab.expectTraffic(pods)
  expect(await listener.end()).toBe(0)
  await lab.expectNothingLeft(pods)
})

test("rules removed by DEL, even the last one, and by GC are not restored", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(3)
  const [deleted, lost, last] = pods as [Published, Published, Published]
  await using listener = await RunningListener.start(lab.node)
  await lab.removePods([deleted])
  await lab.node.losePod(lost.pod)
  await lab.node.cni(["gc", "pods", "--auto"])
  await lab.expectTraffic([last])
  await lab.removePods([last])
  await waitFor(async () => (await lab.ruleSet()).join().includes("cni_masquerade") === false, "the table to be gone")
  const [added] = (await lab.addPods(1)) as [Published]
  expect(listener.said).not.toContain("restored")
  // A loss to which the listener reacts. It then has handled all earlier events too.
  await untilRestored(listener, () => flush(lab))
  const rules = (await lab.ruleSet()).join()
  for (const { pod } of pods) expect(rules).not.toContain(pod.name)
  expect(rules).toContain(added.pod.name)
})

test("tables that another program adds back before the listener notices their loss are not added twice", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(2)
  await using listener = await RunningListener.start(lab.node)
  const before = await lab.ruleSet()
  process.kill(listener.pid, "SIGSTOP")
  await lab.host.exec("sh", [
    "-ec",
    "nft -s list ruleset > /run/rules; nft flush ruleset; nft -f /run/rules; rm /run/rules",
  ])
  process.kill(listener.pid, "SIGCONT")
  await listener.until(({ counts }) => counts.some(({ trigger }) => trigger === "rules"), "a look at everything")
  expect(await lab.ruleSet()).toEqual(before)
  await untilRestored(listener, () => flush(lab))
  expect(withoutLocalnetRecord(await lab.ruleSet())).toEqual(withoutLocalnetRecord(before))
  await lab.expectTraffic(pods)
})

test.each(sabotages)("$what: the listener makes it good", async ({ act, network }) => {
  await using lab = await ReconcileLab.create(network)
  const pods = await lab.addPods(2)
  await using listener = await RunningListener.start(lab.node)
  await untilRestored(listener, () => act(lab, pods))
  await lab.expectTraffic(pods)
})

test("after two losses within a minute a first loss of something else is restored like any, and so are more", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(1)
  await using listener = await RunningListener.start(lab.node)
  for (let round = 0; round < 2; round++) await untilRestored(listener, () => flush(lab))
  await untilRestored(listener, () => lab.host.exec("ip", ["link", "delete", "cni0"]))
  await lab.expectTraffic(pods)
  for (let round = 0; round < 3; round++) await untilRestored(listener, () => flush(lab))
  await lab.expectTraffic(pods)
  expect((await listener.record()).losses).toEqual([])
  const lines = listener.said.trim().split("\n")
  expect(
    lines.filter(
      (line) => !/^cni reconcile: (listening|restored \d+ things in \d+ ms, after a change of \w+)$/.test(line),
    ),
  ).toEqual([])
  const { findings } = await lab.node.doctor()
  expect(findings.filter(({ rule }) => rule === "losses-left")).toEqual([])
  const metrics = await lab.node.cni(["metrics"])
  expect(metrics.stdout).toContain('cni_reconcile_total{trigger="start",result="complete"} 1\n')
  expect(metrics.stdout).toMatch(/^cni_reconcile_losses 0$/m)
  expect(metrics.stdout).toMatch(/^cni_reconcile_outage_seconds_count [6-9]$/m)
})

test("rules of a container that is gone do not come back with those of the others", async () => {
  await using lab = await ReconcileLab.create()
  const [gone, alive] = (await lab.addPods(2)) as [Published, Published]
  await using listener = await RunningListener.start(lab.node)
  await lab.node.losePod(gone.pod)
  await untilRestored(listener, () => flush(lab))
  await lab.expectTraffic([alive])
  expect((await lab.ruleSet()).join()).not.toContain(gone.pod.name)
})

test("a loss that cannot be restored is in the journal, in doctor and in the metrics, until it can", async () => {
  await using lab = await ReconcileLab.create()
  const [torn] = (await lab.addPods(1)) as [Published]
  await using listener = await RunningListener.start(lab.node)
  const record = lab.host.file(`/var/lib/cni/results/pods-${torn.pod.name}-eth0`)
  const whole = await readFile(record, "utf8")
  const { result: _, ...rest } = JSON.parse(whole)
  await writeFile(record, JSON.stringify(rest))
  await flush(lab)
  await listener.until(({ losses }) => losses.length > 0, "a loss that is reported")
  expect(listener.said.match(/cannot restore /g)).toHaveLength(1)
  const isFound = async () => (await lab.node.doctor()).findings.some(({ rule }) => rule === "losses-left")
  expect(await isFound()).toBe(true)
  expect((await lab.node.cni(["metrics"])).stdout).toMatch(/^cni_reconcile_losses 1$/m)
  await writeFile(record, whole)
  await listener.until(({ losses }) => losses.length === 0, "the next check")
  await lab.expectTraffic([torn])
  expect(await isFound()).toBe(false)
})

test("a listener that was killed is followed by one that makes good what was lost before; a second one beside it is refused", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(1)
  await using killed = await RunningListener.start(lab.node)
  const second = await lab.node.cni(["reconcile", "--listen"])
  expect(second).toMatchObject({
    exitCode: 1,
    stderr: "cni reconcile: Cannot listen: another listener runs on this host\n",
  })
  await killed.end("SIGKILL")
  await flush(lab)
  await using listener = await RunningListener.start(lab.node)
  expect((await listener.record()).counts).toEqual([{ trigger: "start", result: "restored", count: 1 }])
  await lab.expectTraffic(pods)
})

test("a cache that other users can write to is not believed: nothing is restored from it, and that is reported [S126]", async () => {
  await using lab = await ReconcileLab.create()
  await lab.addPods(1)
  await using listener = await RunningListener.start(lab.node)
  await chmod(lab.host.file("/var/lib/cni/results"), 0o777)
  await flush(lab)
  const { losses } = await listener.until((record) => record.losses.length > 0, "a loss that is reported")
  expect(JSON.stringify(losses)).toContain("all users may write to")
  expect(await lab.ruleSet()).toEqual([])
})

test("the listener keeps at most 2 MB of its own memory after it has restored the ports of 250 attachments", async () => {
  await using lab = await ReconcileLab.create()
  await lab.addPods(1)
  const results = lab.host.file("/var/lib/cni/results")
  const record = await readFile(`${results}/${(await readdir(results))[0]}`, "utf8")
  const plugins = [{ type: "portmap", capabilities: { portMappings: true } }]
  const config = Buffer.from(JSON.stringify({ cniVersion: "1.1.0", name: "pods", plugins })).toString("base64")
  for (let at = 3; at < 253; at++) {
    const portMappings = [{ hostPort: 20_000 + at, containerPort: 80, protocol: "tcp" }]
    const other = { containerId: `copy-${at}`, config, capabilityArgs: { portMappings } }
    const copy = { ...JSON.parse(record.replaceAll(/\.\d+\/(?=\d)/g, `.${at}/`)), ...other }
    await writeFile(`${results}/pods-copy-${at}-eth0`, JSON.stringify(copy))
  }
  await using listener = await RunningListener.start(lab.node)
  expect(listener.said).toContain("restored 250 things")
  const memory = await readFile(`/proc/${(await listener.record()).pid}/smaps_rollup`, "utf8")
  expect(Number(/^Anonymous: *(\d+) kB$/m.exec(memory)?.[1])).toBeLessThanOrEqual(2048)
})

test("a full disk, and a torn record of one container, keep nothing from the others", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(2)
  const [torn, whole] = pods as [Published, Published]
  await using listener = await RunningListener.start(lab.node)
  await lab.host.exec("mount", ["-t", "tmpfs", "-o", "size=4k,mode=755", "cni-test", "/run/cni"])
  await lab.host.tryExec("sh", ["-c", "head -c 8192 /dev/zero > /run/cni/full"])
  await lab.host.exec("truncate", ["-s", "20", `/var/lib/cni/results/pods-${torn.pod.name}-eth0`])
  await lab.host.exec("nft", ["delete", "table", "ip", "cni_hostports"])
  await waitFor(() => listener.said.includes("restored 1 things"), "the table to be restored")
  await lab.expectTraffic([whole])
  await waitFor(() => listener.said.includes("cannot write"), "the listener to tell that the disk is full")
  expect(await readFile(`/proc/${listener.pid}/comm`, "utf8")).toBe("cni\n")
})

test("after a thousand sabotages, as fast as they go, all is there in the end, and few of them were answered", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(2)
  await using listener = await RunningListener.start(lab.node)
  const before = withoutLocalnetRecord(await lab.ruleSet())
  const isWhole = async () => Bun.deepEquals(withoutLocalnetRecord(await lab.ruleSet()), before)
  const one = "add table ip cni_masquerade; delete table ip cni_masquerade; flush ruleset"
  await untilRestored(listener, () => lab.host.exec("nft", ["-i"], { input: `${one}\n`.repeat(1000) }))
  await waitFor(isWhole, "all to be there again", 180_000)
  await lab.expectTraffic(pods)
  expect(listener.said.match(/restored \d+ things/g)?.length ?? 0).toBeLessThanOrEqual(15)
})
