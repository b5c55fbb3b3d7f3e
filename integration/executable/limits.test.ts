import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, readdir, readFile, symlink } from "node:fs/promises"
import { join } from "node:path"
import { calls, elsewhere, reserve } from "../../host/seccomp.json"
import { liveWhole } from "../faults/means.ts"
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
  pluginEnv,
  pluginRow,
  pluginsAs,
  programEnv,
  runProgram,
  TemporaryDirectory,
  takeSnapshot,
  testWith,
  waitFor,
} from "../lab/mod.ts"
import { buildLauncher } from "./launcher.ts"

let launcher: CProgram
beforeAll(async () => {
  launcher = await buildLauncher()
})
afterAll(() => launcher[Symbol.asyncDispose]())

const KiB = 1024
const killedBySeccomp = 128 + 31
const notFound = 126 // the exit code of launcher.c

test("the limits hold: a program that does what they forbid fails [S100]", async () => {
  const writable = "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)"
  const code = [Bun.which("python3") ?? "python3", "-c", `import mmap; ${writable}`]
  await mustRun(code)
  expect((await runProgram([launcher.path, "-m", ...code])).stderr).toContain("PermissionError")
  expect((await runProgram(["prlimit", `--as=${32 * KiB * KiB}`, process.execPath])).exitCode).not.toBe(0)
  expect(await runProgram([launcher.path, "-s", "/bin/true"])).toMatchObject({ exitCode: killedBySeccomp })
  expect(await runProgram([launcher.path, "-b", "/proc=/proc", "/bin/true"])).toMatchObject({ exitCode: notFound })
})

test("the list of system calls has none that no plugin makes [S102]", async () => {
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
  const inReserve = Object.keys(reserve)
  expect([...made].filter((name) => !inReserve.includes(name)).sort()).toEqual(calls.amd64)
})

test("each system call that TypeScript can ask for is in the list, in reserve for a reason, or said to be for other work [S103]", async () => {
  const door = await readFile(join(import.meta.dir, "../../host/door.c"), "utf8")
  const table = /static const struct call calls\[\] = \{(.*?)\n\};/s.exec(door)?.[1] ?? ""
  const [, modern = "", old = ""] = /#ifdef SYS_rename\n(.*?)#else\n(.*?)#endif/s.exec(table) ?? []
  const named = (text: string) => [...text.matchAll(/CALL\((\w+)|SYS_(\w+)\}/g)].map(([, a, b]) => a ?? b ?? "")
  const known = [...Object.keys(reserve), ...Object.values(elsewhere).flat()]
  expect(named(table).length).toBeGreaterThan(40)
  const unknown = (text: string, list: readonly string[]) =>
    named(text).filter((name) => ![...list, ...known].includes(name))
  expect(unknown(table.replace(old, ""), calls.amd64)).toEqual([])
  expect(unknown(table.replace(modern, ""), calls.arm64)).toEqual([])
  for (const reason of Object.values(reserve)) expect(reason).not.toBe("")
})

const store = { verb: "ADD", ifName: "eth0", containerId: "a", netns: "/run/netns/a", path: "/bin" } as const
const hostLocal = join(builtPlugins, "host-local")
const poolIn = (dataDir: string) =>
  JSON.stringify({
    cniVersion: newest,
    name: "net",
    ipam: { type: "host-local", dataDir, ranges: [[{ subnet: "10.1.0.0/24" }]] },
  })

test("calls in reserve are needed: by a clock that no program is lent, by a symbolic link, by dhcp as a process [S104]", async () => {
  await using without = await buildLauncher(calls.amd64)
  await using directory = await TemporaryDirectory.create()
  await mkdir(directory.join("real"))
  await symlink(directory.join("real"), directory.join("link"))
  const ways = [
    { options: ["-v"], bin: hostLocal, dataDir: directory.join("real/clock") },
    { options: [], bin: hostLocal, dataDir: directory.join("link/store") },
    { options: [], bin: join(builtPlugins, "dhcp"), dataDir: "/nowhere", verb: "VERSION" },
  ] as const
  for (const { options, bin, dataDir, ...call } of ways) {
    const given = { env: pluginEnv({ ...store, ...call, bin }), input: poolIn(dataDir) }
    expect(await runProgram([without.path, ...options, "-s", bin], given)).toMatchObject({ exitCode: killedBySeccomp })
    expect(await runProgram([launcher.path, ...options, "-s", bin], given)).toMatchObject({ exitCode: 0 })
  }
  expect(await readdir(directory.join("real/store/net"))).toContain("10.1.0.2")
})

test("a closed stdin or stderr takes no other call than those", async () => {
  await using directory = await TemporaryDirectory.create()
  for (const [fd, verb] of [
    ["0", "VERSION"],
    ["2", "ADD"],
  ] as const) {
    const given = { env: pluginEnv({ ...store, verb, bin: hostLocal }), input: poolIn(directory.path) }
    expect(await runProgram([launcher.path, "-s", "-c", fd, hostLocal], given)).toMatchObject({ exitCode: 0 })
  }
})

// Every attachment uses these two plugins, and the others read the clock in the same way.
for (const plugin of ["bridge", "host-local"]) {
  testWith(
    ["kernel_clock"],
    `${plugin} does all its work with these system calls where the clock is hpet or acpi_pm`,
    () => liveWhole(plugin, { under: [launcher.path, "-s"] }),
  )
}

/** Returns the state of a process and the number of its present system call, from /proc. */
async function doing(pid: number): Promise<{ state: string | undefined; call: number }> {
  const [stat, call] = await Promise.all(["stat", "syscall"].map((name) => readFile(`/proc/${pid}/${name}`, "utf8")))
  return { state: /\) (\w)/.exec(stat ?? "")?.[1], call: Number.parseInt(call ?? "", 10) }
}

const [pollCall, restartCall] = [7, 219] // <asm/unistd_64.h>

test("a plugin that waits for another's lock may be stopped, and goes on when it is woken [S105]", async () => {
  await using directory = await TemporaryDirectory.create()
  await mkdir(directory.join("store/net"), { recursive: true })
  const holder = Bun.spawn(["flock", directory.join("store/net/lock"), "sh", "-c", "echo held; read line"], {
    stdin: "pipe",
    stdout: "pipe",
  })
  await holder.stdout.getReader().read()
  const plugin = Bun.spawn([launcher.path, "-s", hostLocal], {
    env: pluginEnv({ ...store, bin: hostLocal }),
    stdin: Buffer.from(poolIn(directory.join("store"))),
    stdout: "pipe",
  })
  try {
    const is = async (state: string, ...calls: number[]) => {
      if (plugin.exitCode !== null || plugin.signalCode !== null)
        throw new Error(`it ended: ${plugin.exitCode ?? plugin.signalCode}`)
      const now = await doing(plugin.pid)
      return now.state === state && (calls.length === 0 || calls.includes(now.call))
    }
    await waitFor(() => is("S", pollCall), "the plugin to wait for the lock")
    plugin.kill("SIGSTOP")
    await waitFor(() => is("T"), "the plugin to stop")
    plugin.kill("SIGCONT")
    await waitFor(() => is("S", restartCall, pollCall), "the plugin to wait again")
    holder.stdin.write("\n")
    await holder.stdin.end()
    expect(await plugin.exited).toBe(0)
    expect(JSON.parse(await plugin.stdout.text())).toMatchObject({ ips: [{ address: "10.1.0.2/24" }] })
  } finally {
    plugin.kill("SIGKILL")
    holder.kill("SIGKILL")
    await Promise.all([plugin.exited, holder.exited])
  }
})

test.each(["loopback", "dhcp"])("a stack that is too small for anything is one error (%s) [S107]", async (plugin) => {
  for (const size of [16, 64, 128, 192]) {
    const under = ["prlimit", `--stack=${size * KiB}`]
    const { stdout, exitCode } = await runProgram([...under, `${builtPlugins}/${plugin}`], {
      env: { ...programEnv, CNI_COMMAND: "VERSION" },
    })
    expect({ size, exitCode, error: JSON.parse(stdout) }).toMatchObject({
      exitCode: 1,
      error: { code: 999, msg: expect.stringContaining("RLIMIT_STACK") },
    })
  }
})

test("a limit on the size of files is an error, and nothing is left [S108]", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const before = await takeSnapshot(host)
  const attachment = new Attachment(host, pod, bridgeNetwork())
  for (const size of [0, 8]) {
    const error = await fail(attachment.run("ADD", {}, { under: ["prlimit", `--fsize=${size}`] }))
    expect(error.details).toContain("EFBIG")
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
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
