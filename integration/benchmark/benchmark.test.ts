import { expect, test } from "bun:test"
import { join } from "node:path"
import { buildPrograms, programs } from "../../bench/programs.ts"
import { chainOf } from "../../bench/rows/chain.ts"
import { Node } from "../../bench/rows/node.ts"
import { type Job, Station } from "../../bench/station.ts"
import { type Change, diffSnapshots, expectUnchanged, HostNamespace, type Snapshot, takeSnapshot } from "../lab/mod.ts"

await buildPrograms()

const job = (script: string, more: Partial<Job> = {}): Job => ({
  command: ["/bin/sh", "-c", script],
  env: {},
  input: "",
  ...more,
})

/** A change without what is a matter of names and chance. */
const plain = ({ section, sign, line }: Change) =>
  `${section} ${sign} ${line}`
    .replaceAll(/vethfloor|veth[0-9a-f]{8}/g, "VETH")
    .replaceAll(/\b10\.88\.200\.20\d\b/g, "POD") // the chain takes the address after the last one
    .replaceAll(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC")
    .replaceAll(/bench\/\w+\/eth0/g, "OWNER")

const plainDifference = (before: Snapshot, after: Snapshot) => diffSnapshots(before, after).map(plain).sort()

test("the kernel floor leaves what the chain leaves, and takes all of it back", async () => {
  await using node = await Node.open({ name: "ours", directory: join(import.meta.dir, "../../dist/bin") }, chainOf(1))
  await node.populate(1)
  const pod = await node.host.addContainer()
  const floor = (verb: string) =>
    node.station.time({ command: [programs.floor, verb, pod.path, join(node.dataDir, "bench")], env: {}, input: "" })
  const state = async () => ({ host: await takeSnapshot(node.host), pod: await takeSnapshot(pod) })
  const before = await state()
  await floor("ADD")
  const byFloor = await state()
  await floor("DEL")
  const after = await state()
  await node.station.run([node.adds({ index: 0, containerId: "a", netns: pod.path })])
  const byChain = await state()
  expect(plainDifference(before.host, byFloor.host)).toEqual(plainDifference(before.host, byChain.host))
  expect(plainDifference(before.pod, byFloor.pod)).toEqual(plainDifference(before.pod, byChain.pod))
  expect(plainDifference(before.host, byFloor.host).length).toBeGreaterThan(5)
  expectUnchanged(before.host, after.host)
  // arp_notify and accept_dad of an interface that is gone are not there to be seen; all else is as it was.
  expectUnchanged(before.pod, after.pod)
})

test("a station hands each job the result of the one before, and tells what each took", async () => {
  await using host = await HostNamespace.create()
  await using station = Station.open(host)
  const { whole, outcomes } = await station.run([
    [job(`echo '{"a": 1}'`), job("cat", { input: `{"b": {"c": "}"}}`, takesResult: true })],
    [job("cat", { input: "alone" })],
  ])
  expect(outcomes.map((chain) => chain.map(({ stdout }) => stdout))).toEqual([
    ['{"a": 1}\n', '{"b": {"c": "}"},"prevResult":{"a": 1}\n}'],
    ["alone"],
  ])
  expect(whole.ms).toBeGreaterThanOrEqual(Math.max(...outcomes.flat().map(({ ms }) => ms)))
  expect(whole.faults).toBe(outcomes.flat().reduce((sum, { faults }) => sum + faults, 0))
})

test("CPU time, memory and faults include what the job's own children took", async () => {
  await using host = await HostNamespace.create()
  await using station = Station.open(host)
  const idle = await station.time(job("true"))
  const busy = await station.time(job("x=$(head -c 30000000 /dev/zero | tr '\\0' x); : $x"))
  expect(busy.peakKb).toBeGreaterThan(30_000)
  expect(idle.peakKb).toBeLessThan(4_000)
  expect(busy.cpuMs).toBeGreaterThan(idle.cpuMs)
  expect(busy.faults).toBeGreaterThan(idle.faults)
})

test("a job that fails is an error with its words, and the station goes on", async () => {
  await using host = await HostNamespace.create()
  await using station = Station.open(host)
  await expect(station.time(job("echo bad luck >&2; exit 3"))).rejects.toThrow(/failed \(3\): bad luck/)
  await expect(station.time(job("kill -9 $$"))).rejects.toThrow("failed (265)")
  expect((await station.time(job("echo well"))).stdout).toBe("well\n")
})

test("chains run so many at a time", async () => {
  await using host = await HostNamespace.create()
  await using station = Station.open(host)
  // Each waits until the other has made its file: one after the other would never end.
  const meet = (mine: string, other: string) => job(`cd /run/cni; : > ${mine}; until [ -e ${other} ]; do :; done`)
  const { outcomes } = await station.run([[meet("a", "b")], [meet("b", "a")]], 2)
  expect(outcomes.length).toBe(2)
})
