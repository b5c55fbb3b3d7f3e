import { describe, expect, test } from "bun:test"
import { closeSync, openSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { CniError } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { PluginDirectory } from "./directory.fixture.ts"
import { busyWaitsMs, type Execution, execPlugin } from "./exec.ts"

const stdin = new TextEncoder().encode('{"cniVersion":"1.1.0","name":"lab"}')

/** Runs a script as a plugin. Returns its stdout as text, the log, and the exception. */
function run(body: string, options: Partial<Execution> = {}, waitsMs?: number[]) {
  using directory = new PluginDirectory()
  const path = directory.script("plugin", body)
  const log: string[] = []
  const execution = { path, env: { PATH: process.env.PATH }, stdin, log: (text: string) => log.push(text), ...options }
  try {
    return { stdout: new TextDecoder().decode(execPlugin(execution, waitsMs)), log, path }
  } catch (error) {
    return { error: error as CniError, log, path }
  }
}

describe("a plugin that succeeds", () => {
  test("#131 gets stdin and environment as they are", () => {
    const { stdout } = run('cat; env | grep -E "^(CNI|OWN)_"', { env: { PATH: process.env.PATH, CNI_ARGS: "A= b;" } })
    expect(stdout).toBe(`${new TextDecoder().decode(stdin)}CNI_ARGS=A= b;\n`)
  })

  test("#131 is not given a variable that is undefined", () => {
    const { stdout } = run('env | grep "^OWN_"', { env: { PATH: process.env.PATH, OWN_A: undefined, OWN_B: "" } })
    expect(stdout).toBe("OWN_B=\n")
  })

  test("may leave stdin unread", () => {
    expect(run("exit 0", { stdin: new Uint8Array(1 << 20) }).stdout).toBe("")
  })

  test("#132 has its stdout passed on byte for byte", () => {
    using directory = new PluginDirectory()
    const path = directory.script("plugin", "printf ' \\000\\377 {} \\n\\n'")
    expect([...execPlugin({ path, env: {}, stdin })]).toEqual([0x20, 0, 0xff, 0x20, 0x7b, 0x7d, 0x20, 0x0a, 0x0a])
  })

  test("#133 has its stderr passed on", () => {
    expect(run("echo one >&2; echo two >&2; echo {}")).toMatchObject({ stdout: "{}\n", log: ["one\ntwo"] })
    expect(run("printf 'one\\ntwo\\n\\n' >&2").log).toEqual(["one\ntwo\n"])
    expect(run("exit 0").log).toBeEmpty()
  })

  test("prints as much as a plugin reads, 16 MiB, and a byte more is an error, also when it has ended before", () => {
    const printing = (bytes: number) => run(`head -c ${bytes} /dev/zero`)
    expect(printing(16_777_216).stdout).toHaveLength(16_777_216)
    expect(printing(16_777_217).error?.details).toBe("signal: killed after 16777216 bytes of output")
  })
})

describe("a plugin that fails", () => {
  test("#134 with an error object means that error, and its stderr is passed on", () => {
    const { error, log } = run(`echo '{"code":11,"msg":"busy","details":"ask later"}'; echo why >&2; exit 1`)
    expect(error).toMatchObject({ code: 11, message: "busy", details: "ask later" })
    expect(log).toEqual(["why"])
  })

  test("#135 with stderr only is quoted", () => {
    const { error } = run('echo "oh \\"no\\"" >&2; exit 3')
    expect(error).toMatchObject({ code: 0, message: 'netplugin failed: "oh \\"no\\"\\n": exit status 3' })
  })

  test("#136 without a word is told by its exit status", () => {
    expect(run("exit 4").error).toMatchObject({
      code: 0,
      message: "netplugin failed with no error message: exit status 4",
    })
  })

  test.each([
    ["KILL", "killed"],
    ["TERM", "terminated"],
    ["HUP", "SIGHUP"],
  ])("#136 or by the signal that killed it, SIG%s: %s", (signal, text) => {
    expect(run(`kill -${signal} $$`).error?.message).toBe(`netplugin failed with no error message: signal: ${text}`)
  })

  test.each([
    ["garbage", "panic: at the disco"],
    ["two documents", '{"code":1,"msg":"a"}{"code":1,"msg":"b"}'],
    ["a list", "[]"],
    ["a negative code", '{"code":-1,"msg":"a"}'],
    ["a code that is text", '{"code":"1","msg":"a"}'],
    ["a message that is not a string", '{"code":1,"msg":{}}'],
  ])("#137 with %s on stdout has that quoted", (_what, text) => {
    const { error } = run(`printf '%s' '${text}'; exit 1`)
    expect(error).toMatchObject({ code: 0, details: "exit status 1" })
    expect(error?.message).toStartWith(
      `netplugin failed but error parsing its diagnostic message ${JSON.stringify(text)}: `,
    )
  })

  test("with an error object without a code has code 0", () => {
    for (const code of ["", '"code":null,', '"code":0,']) {
      expect(run(`echo '{${code}"msg":"no"}'; exit 1`).error).toMatchObject({ code: 0, message: "no" })
    }
  })

  test.each(["{}", "null", '{"code":7}'])(
    "with an error object that says nothing, like %s, still has a text",
    (text) => {
      expect(run(`echo '${text}'; exit 1`).error?.message).toBe("netplugin failed without a message: exit status 1")
    },
  )

  test("#138 to start is named by its path", () => {
    using directory = new PluginDirectory()
    const path = directory.script("plugin", "", 0o644)
    const start = (at: string) => () => execPlugin({ path: at, env: {}, stdin })
    expect(start(path)).toThrow(`netplugin failed with no error message: fork/exec ${path}: permission denied`)
    expect(start(`${path}-not`)).toThrow(`fork/exec ${path}-not: no such file or directory`)
    const garbage = join(directory.path, "garbage")
    writeFileSync(garbage, "\x7fELF", { mode: 0o755 })
    expect(start(garbage)).toThrow(`fork/exec ${garbage}: exec format error`)
    expect(start(`${path}/below`)).toThrow(/^netplugin failed .*: fork\/exec \S+\/below: .*ENOTDIR/)
  })

  test("#139 to end in time is killed", () => {
    const { error } = run("exec sleep 60", { timeoutMs: 100 })
    expect(error?.message).toBe("netplugin failed with no error message: signal: killed after 100 ms")
  })

  test("a closed output does not keep the caller: a descendant that holds it does not count after the time is up", () => {
    const started = performance.now()
    expect(run("sleep 60 & echo {}", { timeoutMs: 2000 }).stdout).toBe("{}\n")
    expect(performance.now() - started).toBeLessThan(50_000)
  })
})

describe("a plugin that is just being written", () => {
  test("#140 is tried five more times in five seconds, sooner first, and then it is an error: nothing has run", () => {
    expect(busyWaitsMs).toHaveLength(5)
    expect(busyWaitsMs.reduce<number>((sum, wait) => sum + wait, 0)).toBe(5000)
    using directory = new PluginDirectory()
    const path = directory.script("plugin", "echo {}")
    const writer = openSync(path, "r+")
    try {
      expect(refusalOf(() => execPlugin({ path, env: {}, stdin }, [1, 1]))).toMatchObject({
        code: 11,
        message: `netplugin failed with no error message: fork/exec ${path}: text file busy`,
      })
    } finally {
      closeSync(writer)
    }
    expect(new TextDecoder().decode(execPlugin({ path, env: {}, stdin }))).toBe("{}\n")
  })

  test("#140 succeeds as soon as the writer is gone", async () => {
    using directory = new PluginDirectory()
    const path = directory.script("plugin", "echo {}")
    const writer = Bun.spawn(["/bin/sh", "-c", `exec 3<>${path}; echo open; sleep 0.2`], { stdout: "pipe" })
    await writer.stdout.getReader().read()
    expect(new TextDecoder().decode(execPlugin({ path, env: { PATH: process.env.PATH }, stdin }))).toBe("{}\n")
  })
})
