import { expect, test } from "bun:test"
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { bridgeNetwork, builtPlugins, runProgram, TemporaryDirectory } from "../lab/mod.ts"

// integration/interop/install.test.ts tests this with a real containerd.

const tool = join(builtPlugins, "../cni")
const { cniVersion, name: _, ...plugin } = bridgeNetwork({ isGateway: true })

test("a directory that exists for a moment has runtimes read a configuration, also where an installer was killed there", async () => {
  await using place = await TemporaryDirectory.create("cni-loaded", join(builtPlugins, ".."))
  const confDir = place.join("net.d")
  for (const directory of [place.join("bin"), place.join("net.d/.cni-wake")])
    await mkdir(directory, { recursive: true })
  const file = place.join("10-pods.conflist")
  await writeFile(file, JSON.stringify({ cniVersion, name: "pods", plugins: [plugin] }))
  const command = [tool, "install", "--bin-dir", place.join("bin"), "--conf-dir", confDir, "--config", file]
  const dry = await runProgram([...command, "--dry-run"])
  expect({ code: dry.exitCode, said: dry.stderr }).toEqual({ code: 0, said: "" })
  const trace = place.join("trace")
  const traced = ["strace", "-qq", "-o", trace, "-e", "trace=mkdir,mkdirat,rmdir,unlinkat", ...command]
  const { exitCode, stderr } = await runProgram(traced)
  expect([exitCode, stderr]).toEqual([
    0,
    'Runtimes read 10-pods.conflist without a restart; "crictl info" shows what they have loaded\n',
  ])
  const calls = (await readFile(trace, "utf8")).split("\n").filter((line) => /\.cni-wake.* = 0$/.test(line))
  expect(calls.map((line) => line.replace(/\(.*\)/, "").replace(/ +/g, " "))).toEqual([
    expect.stringMatching(/^(rmdir|unlinkat) = 0$/), // the directory that a killed installer left
    expect.stringMatching(/^mkdir(at)? = 0$/),
    expect.stringMatching(/^(rmdir|unlinkat) = 0$/),
  ])
  expect(await readdir(confDir)).not.toContain(".cni-wake")
  await writeFile(join(confDir, "05-other.conf"), "{}")
  expect((await runProgram(command)).stderr).toBe(
    `Warning: runtimes use the first file of ${confDir}, 05-other.conf, not 10-pods.conflist\n`,
  )
})
