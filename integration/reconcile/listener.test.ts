import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, readFile } from "node:fs/promises"
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

/** Waits until the listener has made something again, after what is done. */
async function untilRestored(listener: RunningListener, act: () => Promise<unknown>): Promise<ListenerRecord> {
  const before = restorations(await listener.record())
  await act()
  return listener.until((record) => restorations(record) > before, "something to be made again")
}

test("after nft flush ruleset the listener makes all again as it was, amid new flows out and in by a published port", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(3)
  const [first] = pods as [Published]
  await using listener = await RunningListener.start(lab.node)
  const before = await lab.ruleSet()
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
  expect(await lab.ruleSet()).toEqual(before)
  expect(listener.said).toContain("ms: table ip cni_masquerade, table ip cni_hostports")
  await lab.expectTraffic(pods)
  expect(await listener.end()).toBe(0)
  await lab.expectNothingLeft(pods)
})

test("what DEL, also the last one, and GC remove is not made again", async () => {
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
  // A loss that the listener does answer comes after all that it has heard before.
  await untilRestored(listener, () => flush(lab))
  const rules = (await lab.ruleSet()).join()
  for (const { pod } of pods) expect(rules).not.toContain(pod.name)
  expect(rules).toContain(added.pod.name)
})

test("tables that another program makes again before the listener hears of their loss are not made twice", async () => {
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
  expect(await lab.ruleSet()).toEqual(before)
  await lab.expectTraffic(pods)
})

test.each(sabotages)("$what: the listener makes it good", async ({ act, network }) => {
  await using lab = await ReconcileLab.create(network)
  const pods = await lab.addPods(2)
  await using listener = await RunningListener.start(lab.node)
  await untilRestored(listener, () => act(lab, pods))
  await lab.expectTraffic(pods)
})

test("what is removed three times in a minute is left and told, and cni reconcile makes it again", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(1)
  await using listener = await RunningListener.start(lab.node)
  for (let round = 0; round < 2; round++) await untilRestored(listener, () => flush(lab))
  await flush(lab)
  const { losses } = await listener.until((record) => record.losses.length > 0, "losses that are left")
  expect(losses.map(({ what }) => what)).toContain("table ip cni_masquerade")
  expect(await lab.ruleSet()).toEqual([])
  expect(listener.said).toContain("removed three times in a minute")
  const { findings } = await lab.node.doctor()
  expect(findings.filter(({ rule }) => rule === "losses-left")).toHaveLength(1)
  const metrics = await lab.node.cni(["metrics"])
  expect(metrics.stdout).toContain('cni_reconcile_total{trigger="start",result="complete"} 1\n')
  expect(metrics.stdout).toMatch(/^cni_reconcile_losses [1-9]$/m)
  expect(metrics.stdout).toMatch(/^cni_reconcile_outage_seconds_count 2$/m)
  const left = findings.find(({ rule }) => rule === "losses-left")
  expect(left?.remedy).toEndWith("; then cni reconcile makes it again")
  await lab.reconcile()
  await lab.expectTraffic(pods)
  const isTold = async () => (await lab.node.doctor()).findings.some(({ rule }) => rule === "losses-left")
  await waitFor(async () => !(await isTold()), "doctor to tell of no losses")
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

test("a cache that other users can write to is not believed: nothing is made from it or from the copy, and that is told [S126]", async () => {
  await using lab = await ReconcileLab.create()
  await lab.addPods(1)
  await using listener = await RunningListener.start(lab.node)
  await chmod(lab.host.file("/var/lib/cni/results"), 0o777)
  await flush(lab)
  const { losses } = await listener.until((record) => record.losses.length > 0, "losses that are left")
  expect(JSON.stringify(losses)).toContain("everybody may write to")
  expect(await lab.ruleSet()).toEqual([])
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
  await waitFor(() => listener.said.includes("restored in"), "the table to be made again")
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
  // On a busy machine they are no burst, but a fight: what is left then is tried again after a minute.
  await waitFor(isWhole, "all to be there again", 180_000)
  await lab.expectTraffic(pods)
  expect(listener.said.match(/restored in/g)?.length ?? 0).toBeLessThanOrEqual(5)
})
