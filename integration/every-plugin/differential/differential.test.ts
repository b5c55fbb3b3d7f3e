import { expect, test } from "bun:test"
import { join } from "node:path"
import { PluginDirectory } from "../../../pkg/invoke/directory.fixture.ts"
import { pluginNames, pluginsInProcess, requirePlugin } from "../../../suite/plugins.ts"
import { builtPlugins, hostFor, TemporaryDirectory } from "../../lab/mod.ts"
import { generateCalls } from "./calls.ts"
import type { DriverAnswer, DriverCall, Side } from "./driver.ts"
import { place } from "./values.ts"

const seed = Number(process.env.CNI_TEST_SEED ?? 20251122)

/** Makes the calls on a new host, in the way that `side` names, and returns the outputs. */
async function drive(side: Side, calls: readonly DriverCall[]): Promise<DriverAnswer[]> {
  await using host = await hostFor(...pluginNames)
  await using directory = await TemporaryDirectory.create()
  for (const path of place.pods) {
    const { path: pod } = await host.addContainer()
    await host.exec("touch", [path])
    await host.exec("mount", ["--bind", pod, path])
  }
  await host.exec("mkdir", [place.bin])
  using ofThisProcess = new PluginDirectory()
  const delegates = pluginsInProcess(requirePlugin("flannel"))
  for (const name of pluginNames) {
    // A process serves delegates itself only if their files are of its own build.
    const isServed = side === "served" && delegates.some((delegate) => delegate.name === name)
    const file = isServed ? ofThisProcess.ownPlugin(name, name) : join(builtPlugins, name)
    await host.exec("ln", ["-s", file, `${place.bin}/${name}`])
  }
  await Bun.write(directory.join("calls"), JSON.stringify(calls))
  const driver = join(import.meta.dir, "driver.ts")
  const files = [directory.join("calls"), directory.join("answers")]
  await host.exec(process.execPath, [driver, side, ...files])
  return await Bun.file(directory.join("answers")).json()
}

/** Returns an output without its random parts and without names of functions. */
function normal({ exitCode, stdout, stderr }: DriverAnswer): DriverAnswer {
  const plain = (text: string) =>
    text
      .replaceAll(/veth[0-9a-f]{8}/g, "vethX")
      .replaceAll(/\b(?!0a:00:00)[0-9a-f]{2}(:[0-9a-f]{2}){5}\b/g, "MAC") // MAC addresses of configurations begin with 0a:00:00
      .replaceAll(/\/new\/[0-9a-f]{16}/g, "/new/DRAFT")
      .replaceAll(/(\n {4}at .*)+/g, "\n    at")
      .replaceAll(/"details": "at [^"]*"/g, '"details": "at"')
  return { exitCode, stdout: plain(stdout), stderr: plain(stderr) }
}

/** Returns the calls with different outputs, with both outputs. */
function differences(calls: readonly DriverCall[], one: readonly DriverAnswer[], two: readonly DriverAnswer[]) {
  return calls.flatMap((call, at) => {
    const [first, second] = [one[at], two[at]].map((answer) => answer && normal(answer))
    if (Bun.deepEquals(first, second) && first) return []
    const { plugin, env, stdin } = call
    return [{ at, plugin, env, stdin: Buffer.from(stdin, "base64").toString(), first, second }]
  })
}

test("thousands of calls have the same answers from the executables and from the same code on Bun", async () => {
  console.log(`seed ${seed}; CNI_TEST_SEED=NUMBER for another`)
  const calls = generateCalls(seed, 3000, 60)
  const sample = calls.slice(0, 60)
  const [executable, served, main] = await Promise.all([
    drive("executable", calls),
    drive("served", calls),
    drive("main.ts", sample),
  ])
  expect(differences(calls, executable, served)).toEqual([])
  expect(differences(sample, executable, main)).toEqual([])
  // Check that many calls succeed, and that the expected errors occur.
  const added = calls.filter(({ env }, at) => env.CNI_COMMAND === "ADD" && executable[at]?.exitCode === 0)
  expect(added.length).toBeGreaterThan(8 * pluginNames.length)
  const codes = new Set(executable.map(({ exitCode, stdout }) => (exitCode === 0 ? 0 : JSON.parse(stdout).code)))
  for (const code of [0, 1, 4, 6, 7]) expect([...codes]).toContain(code)
})
