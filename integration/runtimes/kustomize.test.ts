/** kustomize itself renders the base and each overlay of deploy/plugins, as `kubectl apply -k` does. */
import { expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { runtimeEnv } from "../interop/runtime-host.ts"
import { mustRun } from "../lab/mod.ts"
import { readOverlay } from "../release/daemon-set.ts"

const deploy = join(import.meta.dir, "../../deploy/plugins")
const overlays = await readdir(join(deploy, "overlays"))

async function render(directory: string): Promise<unknown> {
  const { stdout, stderr } = await mustRun(["kustomize", "build", join(deploy, directory)], { env: runtimeEnv })
  expect(stderr).toBe("") // such as a key that is deprecated
  return Bun.YAML.parse(stdout)
}

test("the base is the DaemonSet", async () => {
  expect(await render("base")).toEqual(Bun.YAML.parse(await Bun.file(join(deploy, "base/daemonset.yaml")).text()))
})

test.each(overlays)("the overlay %s is what the tests of the DaemonSet run", async (name) => {
  expect(await render(`overlays/${name}`)).toEqual(await readOverlay(name))
})
