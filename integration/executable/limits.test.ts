import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, readFile } from "node:fs/promises"
import { calls } from "../../host/seccomp.json"
import {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  type CProgram,
  expectUnchanged,
  fail,
  HostNamespace,
  isAllocationTrace,
  mustRun,
  newest,
  type PluginCall,
  pluginRow,
  pluginsAs,
  programEnv,
  runProgram,
  Stage,
  succeed,
  TemporaryDirectory,
  takeSnapshot,
  testPlugin,
} from "../lab/mod.ts"
import { buildLauncher } from "./launcher.ts"

let launcher: CProgram
beforeAll(async () => {
  launcher = await buildLauncher()
})
afterAll(() => launcher[Symbol.asyncDispose]())

const KiB = 1024
const limits: Readonly<Record<string, () => string[]>> = {
  "PR_SET_MDWE, which refuses new code": () => [launcher.path, "-m"],
  "32 MB of address space": () => ["prlimit", `--as=${32 * KiB * KiB}`],
  "16 descriptors": () => ["prlimit", "--nofile=16"],
  "a stack of 256 KiB": () => ["prlimit", `--stack=${256 * KiB}`],
  "an unlimited stack": () => ["prlimit", "--stack=unlimited"],
  "the system calls of host/seccomp.json": () => [launcher.path, "-s"],
}

/**
 * Calls a plugin with every verb, for two attachments, of which one is deleted and the other collected; `call` says how it is
 * run. Throws when a call fails, and when something is left.
 */
async function liveWhole(plugin: string, call: Partial<PluginCall>): Promise<void> {
  await using stage = await Stage.create(plugin)
  const first = await stage.attach({ call }) // on a host that has never seen a plugin; a bridge stays
  await first.attachment.add()
  await first.attachment.del()
  const [one, other] = [await stage.attach({ call }), await stage.attach({ call })]
  const before = await takeSnapshot(stage.host)
  await succeed(one.attachment.run("VERSION"))
  await succeed(one.attachment.run("STATUS"))
  for (const { attachment } of [one, other]) await attachment.check(await attachment.add())
  await one.attachment.del()
  await succeed(other.attachment.run("GC", { "cni.dev/valid-attachments": [] }))
  await other.attachment.del()
  expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
}

const killedBySeccomp = 128 + 31
const notFound = 126 // as launcher.c has it

test("the limits hold: a program that does what they forbid fails", async () => {
  const writable = "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)"
  const code = [Bun.which("python3") ?? "python3", "-c", `import mmap; ${writable}`]
  await mustRun(code)
  expect((await runProgram([launcher.path, "-m", ...code])).stderr).toContain("PermissionError")
  expect((await runProgram(["prlimit", `--as=${32 * KiB * KiB}`, process.execPath])).exitCode).not.toBe(0)
  expect(await runProgram([launcher.path, "-s", "/bin/true"])).toMatchObject({ exitCode: killedBySeccomp })
  expect(await runProgram([launcher.path, "-b", "/proc=/proc", "/bin/true"])).toMatchObject({ exitCode: notFound })
})

for (const plugin of pluginsAs()) {
  for (const [name, under] of Object.entries(limits)) {
    testPlugin(plugin, `${plugin} does all its work under ${name}`, () => liveWhole(plugin, { under: under() }))
  }

  testPlugin(plugin, `${plugin} does all its work in a root with /proc, /sys, its data and the plugins`, async () => {
    const directories = ["/proc", "/sys", "/var/lib/cni", "/run/cni", "/run/netns", `${builtPlugins}=/opt/cni/bin`]
    const binds = [...directories, ...(pluginRow(plugin).devices ?? [])].flatMap((name) => [
      "-b",
      name.includes("=") ? name : `${name}=${name}`,
    ])
    await liveWhole(plugin, { bin: `/opt/cni/bin/${plugin}`, under: [launcher.path, ...binds] })
  })
}

test("the list of system calls has none that no plugin makes", async () => {
  await using directory = await TemporaryDirectory.create()
  const made = new Set<string>()
  for (const plugin of pluginsAs().filter((name) => pluginRow(name).like === undefined)) {
    await mkdir(directory.join(plugin))
    await liveWhole(plugin, { under: ["strace", "-f", "--quiet=all", "-ff", "-o", directory.join(plugin, "trace")] })
    for (const file of new Bun.Glob(`${plugin}/*`).scanSync(directory.path)) {
      const trace = await readFile(directory.join(file), "utf8")
      for (const [, name = ""] of trace.matchAll(/^(\w+)\(/gm)) made.add(name)
    }
  }
  expect([...made].sort()).toEqual(calls)
})

test("a stack that is too small for anything is one error", async () => {
  for (const size of [16, 64, 128, 192]) {
    const under = ["prlimit", `--stack=${size * KiB}`]
    const { stdout, exitCode } = await runProgram([...under, `${builtPlugins}/loopback`], {
      env: { ...programEnv, CNI_COMMAND: "VERSION" },
    })
    expect({ size, exitCode, error: JSON.parse(stdout) }).toMatchObject({
      exitCode: 1,
      error: { code: 999, msg: expect.stringContaining("RLIMIT_STACK") },
    })
  }
})

test.each([[], ["prlimit", `--stack=${256 * KiB}`], ["prlimit", "--stack=unlimited"]])(
  "JSON of 100,000 levels is one error that says so (%j %j)",
  async (...under) => {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`
    for (const key of ["deep", "prevResult", "ipam", "args"]) {
      const stdin = `{"cniVersion":"${newest}","name":"lab","type":"bridge","${key}":${deep}}`
      const attachment = new Attachment(host, pod, bridgeNetwork(), { under })
      const error = await fail(attachment.run("ADD", {}, { config: stdin }))
      expect(error).toMatchObject({ code: 6, msg: expect.stringContaining("nested more than 1000 levels deep") })
    }
  },
)

test("as deep as it may be, on a small stack: an error that says what was too small, or none", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const deep = `${"[".repeat(990)}${"]".repeat(990)}`
  const stdin = `{"cniVersion":"${newest}","name":"lab","type":"bridge","bridge":"br-lab","deep":${deep}}`
  for (const size of [224, 256, 300, 400, 600, 1024]) {
    const under = ["prlimit", `--stack=${size * KiB}`]
    const attachment = new Attachment(host, pod, bridgeNetwork(), { under })
    const output = await attachment.run("ADD", {}, { config: stdin })
    if (output.exitCode === 0) await attachment.del()
    else expect(await fail(Promise.resolve(output))).toMatchObject({ msg: expect.stringContaining("stack") })
    if (size === 1024) expect(output.exitCode).toBe(0)
  }
})

test("a caller that ignores SIGCHLD gets an answer of a program that was started", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const config = bridgeNetwork({ isDefaultGateway: true, ipMasq: true, ipMasqBackend: "iptables" })
  const under = ["env", "--ignore-signal=CHLD"]
  const attachment = new Attachment(host, pod, config, { under })
  await attachment.add()
  await attachment.del()
})
