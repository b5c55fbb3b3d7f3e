import { describe, expect, test } from "bun:test"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { pluginNames } from "../../suite/plugins.ts"
import { builtPlugins, mustRun, runProgram, TemporaryDirectory, waitFor } from "../lab/mod.ts"

/**
 * The commands with which other installers replace a file. The working directory contains `theirs/portmap` and `bin`.
 * Calico's installer copies, renames, and then sets the mode.
 */
const installers = {
  cp: "cp theirs/portmap bin/portmap",
  "cp -f": "cp -f theirs/portmap bin/portmap",
  "busybox cp -f": "busybox cp -f theirs/portmap bin/portmap",
  "tar --overwrite": "tar -C theirs -c portmap | tar -C bin -x --overwrite",
  "Calico's sequence": "cp theirs/portmap bin/portmap.tmp && mv bin/portmap.tmp bin/portmap && chmod 755 bin/portmap",
}

const theirs = "#!/bin/sh\necho 'CNI portmap plugin v9.9.9' >&2\n"
const tool = join(builtPlugins, "../cni")

async function makePlace(): Promise<TemporaryDirectory> {
  const place = await TemporaryDirectory.create("cni-foreign", join(builtPlugins, ".."))
  await mkdir(place.join("bin"))
  await mkdir(place.join("theirs"))
  await writeFile(place.join("theirs/portmap"), theirs, { mode: 0o755 })
  await mustRun([tool, "install", "--bin-dir", place.join("bin")])
  return place
}

/** Starts every plugin. Each plugin waits for its configuration, so its file is busy. */
function startAll(bin: string) {
  const env = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "a", CNI_NETNS: "/none", CNI_IFNAME: "eth0", CNI_PATH: bin }
  const running = pluginNames.map((name) =>
    Bun.spawn([join(bin, name)], { env, stdin: "pipe", stdout: "ignore", stderr: "ignore" }),
  )
  return {
    isStarted: async () => {
      const states = running.map(({ pid }) => readFile(`/proc/${pid}/syscall`, "utf8").catch(() => ""))
      return (await Promise.all(states)).every((state) => /^(7|73) /.test(state)) // poll(2), ppoll(2)
    },
    [Symbol.asyncDispose]: async () => {
      for (const one of running) one.kill("SIGKILL")
      await Promise.all(running.map(({ exited }) => exited))
    },
  }
}

// Installers differ only if a plugin is running.
describe.each([
  ["idle", Object.entries(installers).slice(0, 1)],
  ["running", Object.entries(installers)],
] as const)("over plugins that are %s, another installer's portmap", (state, each) => {
  test.each(each)("by %s changes no other name, and the tool names its owner", async (_, command) => {
    await using place = await makePlace()
    await using running = state === "running" ? startAll(place.join("bin")) : undefined
    if (running) await waitFor(running.isStarted, "all plugins to wait for stdin")
    const { exitCode } = await runProgram(["sh", "-c", `cd ${place.path}\n${command}`])
    const isReplaced = (await readFile(place.join("bin/portmap"), "latin1")) === theirs
    expect(isReplaced).toBe(exitCode === 0) // cp fails with "Text file busy" and leaves our file intact
    if (state === "idle") expect(isReplaced).toBe(true)
    for (const name of pluginNames.filter((name) => name !== "portmap" || !isReplaced)) {
      const [there, ours] = [await readFile(place.join("bin", name)), await readFile(join(builtPlugins, name))]
      expect([name, there.equals(ours)]).toEqual([name, true])
    }
    const verified = await runProgram([tool, "install", "--bin-dir", place.join("bin"), "--verify", "--json"])
    const files = isReplaced ? [{ name: "portmap", is: "replaced", by: "CNI portmap plugin v9.9.9" }] : []
    expect(JSON.parse(verified.stdout)).toMatchObject([{ directory: place.join("bin"), files }])
    expect(verified.exitCode).toBe(isReplaced ? 3 : 0)
  })
})

test("what another installer replaced stays until it is adopted, and comes back with the uninstallation", async () => {
  await using place = await makePlace()
  const install = (...flags: string[]) => runProgram([tool, "install", "--bin-dir", place.join("bin"), ...flags])
  await writeFile(place.join("bin/portmap"), theirs)
  expect(await install()).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('"portmap" was placed by other programs'),
  })
  expect(await readFile(place.join("bin/portmap"), "latin1")).toBe(theirs)
  expect(await install("--adopt")).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/portmap +adopted/) })
  expect(await install("--verify")).toMatchObject({ exitCode: 0 })
  expect(await install("--uninstall")).toMatchObject({
    exitCode: 0,
    stdout: expect.stringMatching(/portmap +restored/),
  })
  const left = (await mustRun(["ls", "-A", place.join("bin")])).stdout
  expect([left, await readFile(place.join("bin/portmap"), "latin1")]).toEqual(["portmap\n", theirs])
})
