/** Tests the units with a real systemd, which is process 1 in its own namespaces. */
import { expect, test } from "bun:test"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { podsNetwork } from "../cni/node-lab.ts"
import { builtPlugins, programEnv, TemporaryDirectory, waitFor } from "../lab/mod.ts"

const units = join(import.meta.dir, "../../share/systemd")

test("the listener restores, is confined, restarted and stopped; the timer collects what is gone, and nothing else; metrics are written", async () => {
  await using directory = await TemporaryDirectory.create()
  await Bun.write(directory.join("10-pods.conflist"), JSON.stringify(podsNetwork))
  await Bun.write(directory.join("scene.sh"), Bun.file(join(import.meta.dir, "systemd-scene.sh")))
  const command = [join(import.meta.dir, "systemd-root.sh"), directory.path, join(builtPlugins, ".."), units]
  const systemd = Bun.spawn(["unshare", "--mount", "sh", ...command], {
    env: { ...programEnv },
    stdio: ["ignore", "ignore", "pipe"],
  })
  const said = async () => (await readFile(directory.join("scene.out"), "utf8").catch(() => "")).trim().split("\n")
  try {
    await waitFor(async () => systemd.exitCode !== null || (await said()).at(-1) === "end", "the scene's end", 100_000)
    expect(await said()).toEqual([
      "ok: the listener has looked",
      "ok: rules come back after a flush",
      "ok: the bridge comes back",
      "ok: it is confined",
      "ok: it is started again, and looks",
      "ok: it stops",
      "ok: its directory stays",
      "ok: the timer deletes what the gone container left",
      "ok: gc has ended",
      "ok: gc did all",
      "ok: the other one keeps its port",
      "ok: the metrics are written",
      "end",
    ])
  } finally {
    systemd.kill("SIGTERM")
    await systemd.exited
  }
})
