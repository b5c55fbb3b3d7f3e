import { expect, test } from "bun:test"
import { join } from "node:path"
import { execa } from "execa"
import { pluginNames, pluginsInProcess, requirePlugin } from "./plugins.ts"

const root = join(import.meta.dir, "..")

test("each plugin's main.ts is that plugin by itself, also without a build", async () => {
  const versions = await Promise.all(
    pluginNames.map(async (name) => {
      const [main = ""] = new Bun.Glob(`{plugins,ipam,meta}/${name}/main.ts`).scanSync(root)
      const { stderr } = await execa(process.execPath, [join(root, main)], {
        env: {},
        extendEnv: false,
        stdin: "ignore",
      })
      return stderr.split("\n")[0]?.replace(/v[\d.]+$/, "v")
    }),
  )
  expect(versions).toEqual(pluginNames.map((name) => `CNI ${name} plugin v`))
})

test("every IPAM plugin can be called in the process of the one that needs it", () => {
  const names = [...new Bun.Glob("ipam/*/main.ts").scanSync(root)].map((file) => file.split("/")[1] ?? "")
  expect(pluginsInProcess(requirePlugin("bridge")).map(({ name }) => name)).toEqual(names.sort())
})

test.each([
  [
    {},
    {
      stdout: "",
      stderr: `Cannot act as "NAME": no such plugin; names that this executable answers to: bridge, tap\n`,
    },
  ],
  [
    { CNI_COMMAND: "VERSION" },
    {
      stdout: `{"cniVersion":"1.1.0","code":4,"msg":"Cannot act as \\"NAME\\": no such plugin","details":"names that this executable answers to: bridge, tap"}\n`,
      stderr: "",
    },
  ],
])("under another name, with the environment %j, it says which names there are", (env, said) => {
  const script = `import { runUnknown } from ${JSON.stringify(join(root, "suite/unknown.ts"))}; globalThis.plugins = { bridge: 1, tap: 1, unknown: 1 }; runUnknown()`
  const { stdout, stderr, exitCode } = Bun.spawnSync([process.execPath, "-e", script], { env })
  const named = (bytes: Uint8Array) => new TextDecoder().decode(bytes).replace(/(act as \\?")[^"\\]*/, "$1NAME")
  expect({ stdout: named(stdout), stderr: named(stderr), exitCode }).toEqual({ ...said, exitCode: 1 })
})
