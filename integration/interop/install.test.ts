import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { builtPlugins, type Output, waitFor } from "../lab/mod.ts"
import { binDir, Containerd } from "./containerd.ts"
import { containerdNetwork } from "./networks.ts"
import { confDir } from "./runtime-host.ts"

const tool = join(builtPlugins, "../cni")
const read = (file: string) => `Runtimes read ${file} without a restart; "crictl info" shows what they have loaded\n`

describe("containerd loads a configuration that cni install places, without a restart", () => {
  let containerd: Containerd
  beforeAll(async () => {
    containerd = await Containerd.create()
  }, 180_000)
  afterAll(() => containerd[Symbol.asyncDispose]())

  /** Runs `cni install --config` with a network of this name and MTU, from a file with this name. */
  async function install(file: string, name: string, mtu: number, ...flags: string[]): Promise<Output> {
    const { plugins, ...network } = containerdNetwork as { plugins: readonly object[] }
    const [first, ...rest] = plugins
    await containerd.host.write(`/run/new/${file}`, { ...network, name, plugins: [{ ...first, mtu }, ...rest] })
    const places = ["--bin-dir", binDir, "--conf-dir", confDir, "--config", `/run/new/${file}`]
    return containerd.host.tryExec(tool, ["install", ...places, ...flags])
  }

  const hasLoaded = (name: string, mtu?: number) =>
    waitFor(async () => {
      const [first] = await containerd.networks()
      return first?.name === name && (mtu === undefined || first.mtu === mtu)
    }, `containerd to load "${name}"`)

  test("a first configuration is loaded, and pods have its network", async () => {
    await containerd.host.exec("rm", [`${confDir}/10-pods.conflist`])
    await waitFor(async () => (await containerd.networks()).length === 0, "containerd to have no network")
    const { exitCode, stderr } = await install("10-first.conflist", "first", 1400)
    expect([exitCode, stderr]).toEqual([0, read("10-first.conflist")])
    await hasLoaded("first", 1400)
    expect(await containerd.host.tryExec("ls", ["-A", confDir])).toMatchObject({
      stdout: ".cni-install\n10-first.conflist\n",
    })
    const pod = await containerd.runPod("first")
    expect((await containerd.podStatus(pod)).network.ip).not.toBe("")
    await containerd.stopPod(pod)
    await containerd.removePod(pod)
  }, 120_000)

  test("a configuration of the same name that has changed is loaded, and the former one after a rollback", async () => {
    const changed = await install("10-first.conflist", "first", 1300)
    expect([changed.exitCode, changed.stderr]).toEqual([0, read("10-first.conflist")])
    await hasLoaded("first", 1300)
    const back = await install("10-first.conflist", "first", 1300, "--rollback")
    expect([back.exitCode, back.stderr]).toEqual([0, read("10-first.conflist")])
    await hasLoaded("first", 1400)
  }, 120_000)

  test("a file of one plugin is loaded, too", async () => {
    const { plugins, ...network } = containerdNetwork as { plugins: readonly object[] }
    const file = "/run/new/05-single.conf"
    await containerd.host.write(file, { ...network, name: "single", ...plugins[0] })
    const places = ["--bin-dir", binDir, "--conf-dir", confDir, "--config", file]
    const installed = await containerd.host.tryExec(tool, ["install", ...places])
    expect([installed.exitCode, installed.stderr]).toEqual([0, read("05-single.conf")])
    await hasLoaded("single")
  }, 120_000)

  test("one that comes behind another is not, and a warning says which one is", async () => {
    const { exitCode, stderr } = await install("20-second.conflist", "second", 1400)
    const said = `Warning: runtimes use the first file of ${confDir}, 05-single.conf, not 20-second.conflist\n`
    expect([exitCode, stderr]).toEqual([0, said])
    expect(await containerd.networks()).toMatchObject([{ name: "single" }])
  }, 120_000)
})
