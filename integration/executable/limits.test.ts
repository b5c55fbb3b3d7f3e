import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, readFile } from "node:fs/promises"
import { calls } from "../../host/seccomp.json"
import { liveWhole } from "../faults/means.ts"
import {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  type CProgram,
  fail,
  HostNamespace,
  mustRun,
  newest,
  pluginRow,
  pluginsAs,
  programEnv,
  runProgram,
  TemporaryDirectory,
} from "../lab/mod.ts"
import { buildLauncher } from "./launcher.ts"

let launcher: CProgram
beforeAll(async () => {
  launcher = await buildLauncher()
})
afterAll(() => launcher[Symbol.asyncDispose]())

const KiB = 1024
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

/** Made where a file system knows no O_TMPFILE: a trial of STATUS has a name there, and is removed. */
const onOtherFileSystems = ["rmdir"]

test("the list of system calls has none that no plugin makes", async () => {
  await using directory = await TemporaryDirectory.create()
  const made = new Set(onOtherFileSystems)
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
