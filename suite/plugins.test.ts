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
