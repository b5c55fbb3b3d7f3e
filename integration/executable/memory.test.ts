import { afterAll, beforeAll, expect, test } from "bun:test"
import { dirname } from "node:path"
import { failing } from "../../scripts/flavours.ts"
import { buildEach } from "../../scripts/native.ts"
import {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  expectUnchanged,
  extent,
  HostNamespace,
  isAllocationTrace,
  type PluginOutput,
  TemporaryDirectory,
  takeSnapshot,
} from "../lab/mod.ts"
import { buildingMs } from "./launcher.ts"

/**
 * The number of allocations that fail, spread evenly, one for each call. In `npm run test:faults` every allocation
 * fails once.
 */
const points = extent(60, 100_000)
/**
 * The number of last allocations of a call, in which the plugin writes the output and closes all descriptors. Of these
 * allocations every third one fails in `npm test`, and each one in the long form.
 */
const [lastOnes, stepOfLast] = [150, extent(3, 1)]
/** The number of calls between two comparisons of the host. */
const round = 10
const aborted = 128 + 6

let plugins: TemporaryDirectory
beforeAll(async () => {
  plugins = await TemporaryDirectory.create("cni-build", dirname(builtPlugins))
  await buildEach(plugins.path, failing, "snapshot", ["bridge", "host-local"])
}, buildingMs)
afterAll(() => plugins[Symbol.asyncDispose]())

/** Returns evenly spaced numbers up to `last`, and more of the last ones. */
function pointsUpTo(last: number): number[] {
  const step = Math.max(1, last / points)
  const all = new Set(Array.from({ length: Math.ceil(last / step) }, (_, at) => Math.floor(at * step) + 1))
  for (let at = last - lastOnes; at <= last; at += stepOfLast) all.add(at)
  return [...all].sort((a, b) => a - b)
}

const hasFailed = ({ stderr }: PluginOutput) => stderr.includes("An allocation fails")

/** Checks that a call without memory succeeded, failed with one error object and exit code 1, or was aborted. */
function expectClean(allocation: string, { exitCode, stdout, stderr, json }: PluginOutput): void {
  if (exitCode === aborted) return
  const answer = json as { ips?: unknown; code?: unknown; msg?: unknown } | undefined
  const isResult = exitCode === 0 && Array.isArray(answer?.ips)
  const isError = exitCode === 1 && typeof answer?.code === "number" && typeof answer.msg === "string" && answer.msg
  if (!isResult && !isError) throw new Error(`allocation ${allocation}: ${exitCode}\n${stdout}\n${stderr}`)
}

test.each([
  ["a single allocation fails", ""],
  ["memory runs out", "+"],
])(
  "at any point of an ADD %s: a result, one error or a death, and the next DEL leaves nothing",
  async (_, suffix) => {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    const config = bridgeNetwork({ isDefaultGateway: true, ipMasq: true })
    const attachment = new Attachment(host, pod, config, { bin: plugins.join("bridge") })
    const add = async (allocation: number) => {
      const output = await attachment.run("ADD", {}, { env: { FAIL_ALLOCATION: `${allocation}${suffix}` } })
      expectClean(`${allocation}${suffix}`, output)
      await attachment.del()
      return output
    }
    await attachment.add() // creates what stays on purpose, such as the bridge
    await attachment.del()
    const [before, inside] = [await takeSnapshot(host), await takeSnapshot(pod)]

    let [least, beyond] = [1, 1 << 20]
    while (beyond - least > 1) {
      const middle = (least + beyond) >> 1
      if (hasFailed(await add(middle))) least = middle
      else beyond = middle
    }
    expect(least).toBeGreaterThan(1000)
    const codes = new Set<number>()
    let reached = 0
    const allocations = pointsUpTo(least)
    for (const [index, at] of allocations.entries()) {
      const output = await add(at)
      reached += Number(hasFailed(output))
      codes.add(output.exitCode)
      if ((index + 1) % round > 0 && at !== least) continue
      try {
        expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
        expectUnchanged(inside, await takeSnapshot(pod))
      } catch (cause) {
        throw new Error(`after one of the ${round} allocations up to ${at}${suffix}`, { cause })
      }
    }
    expect(codes).toContain(1)
    expect(reached).toBeGreaterThan(allocations.length * 0.9) // calls differ a little, so not all fail
  },
  points > 1000 ? 4 * 3_600_000 : buildingMs,
)
