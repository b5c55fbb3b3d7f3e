import { expect, test } from "bun:test"
import { buildStation, HostNamespace, type Job, Station } from "./mod.ts"

await buildStation()

const job = (script: string, more: Partial<Job> = {}): Job => ({
  command: ["/bin/sh", "-c", script],
  env: {},
  input: "",
  ...more,
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

test("a chain whose job may fail ends there, with the words of that job, and the others go on", async () => {
  await using host = await HostNamespace.create()
  await using station = Station.open(host)
  const chains = [[job("echo one"), job("echo bad luck >&2; exit 3"), job("echo never")], [job("echo two")]]
  const { outcomes } = await station.run(chains, 1, { mayFail: true })
  expect(outcomes.map((chain) => chain.map(({ stdout, failure }) => failure ?? stdout))).toEqual([
    ["one\n", expect.stringMatching(/failed \(3\): bad luck/)],
    ["two\n"],
  ])
  await expect(station.run(chains)).rejects.toThrow(/failed \(3\): bad luck/)
})

test("chains run so many at a time", async () => {
  await using host = await HostNamespace.create()
  await using station = Station.open(host)
  // Each job waits until the other has created its file, so the test would hang if they ran in sequence.
  const meet = (mine: string, other: string) => job(`cd /run/cni; : > ${mine}; until [ -e ${other} ]; do :; done`)
  const { outcomes } = await station.run([[meet("a", "b")], [meet("b", "a")]], 2)
  expect(outcomes.length).toBe(2)
})
