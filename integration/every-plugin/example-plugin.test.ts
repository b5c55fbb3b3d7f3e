import { expect, test } from "bun:test"
import { dirname } from "node:path"
import { makeExamplePlugin } from "../../scripts/test/example-plugin.ts"
import { builtPlugins, TemporaryDirectory } from "../lab/mod.ts"

test("the plugin that is made from the steps of CONTRIBUTING passes its own integration test, built", async () => {
  await using place = await TemporaryDirectory.create("cni-example", dirname(dirname(builtPlugins)))
  makeExamplePlugin(place.path)
  const run = (...args: string[]) => {
    const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, ...args], { cwd: place.path })
    return { exitCode, said: `${stdout}${stderr}` }
  }
  expect(run("scripts/build.ts")).toMatchObject({ exitCode: 0, said: expect.stringContaining("macvtap") })
  const { exitCode, said } = run("test", "integration/macvtap/macvtap.test.ts")
  expect({ exitCode, said }).toMatchObject({ exitCode: 0, said: expect.stringContaining(" 1 pass") })
})
