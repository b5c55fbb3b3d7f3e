import { expect, test } from "bun:test"
import { chmodSync, closeSync, openSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { execute } from "./execute.ts"
import { failure, Lab } from "./testing/lab.ts"

function script(lab: Lab, body: string) {
  const file = join(lab.root, "script")
  writeFileSync(file, `#!/bin/sh\n${body}\n`)
  chmodSync(file, 0o755)
  return { file, env: { PATH: process.env.PATH ?? "" }, stdin: "{}", stderr: () => {} }
}

const isRunning = (pid: string) => {
  try {
    return !readFileSync(`/proc/${pid.trim()}/stat`, "utf8").includes(") Z ")
  } catch {
    return false
  }
}

test("#132 what a plugin prints comes back as it is", async () => {
  using lab = new Lab()
  const { stdout } = await execute(script(lab, 'printf \' {"a": \\000"\\303\\251"} \\n\\n\''))
  expect(stdout).toBe(' {"a": \0"é"} \n\n')
})

test("#136 both streams, the exit status and a signal are told apart", async () => {
  using lab = new Lab()
  expect(await execute(script(lab, "cat; echo log >&2"))).toEqual({ stdout: "{}", stderr: "log\n", cause: undefined })
  expect(await execute(script(lab, "exit 3"))).toMatchObject({ cause: "exit status 3" })
  expect(await execute(script(lab, "kill -9 $$"))).toMatchObject({ cause: "signal: SIGKILL" })
})

const mebibytes16 = 16 << 20

test("16 MiB on stdout are read, and with more the plugin is killed: code 11", async () => {
  using lab = new Lab()
  const zeros = (count: number) =>
    script(lab, `head -c ${count} /dev/zero; [ ${count} = ${mebibytes16} ] || exec sleep 60`)
  expect((await execute(zeros(mebibytes16))).stdout.length).toBe(mebibytes16)
  const execution = zeros(mebibytes16 + 1)
  expect(await failure(execute(execution))).toMatchObject({
    code: 11,
    message: `netplugin failed with no error message: stopped "${execution.file}": more than 16777216 bytes on stdout`,
  })
})

test("of stderr 64 KiB are kept for the error, and all of it is passed on: a plugin may say a lot", async () => {
  using lab = new Lab()
  const plugin = script(lab, "{ head -c 65535 /dev/zero; printf yz; head -c 1000000 /dev/zero; } >&2; echo ok")
  const passed: number[] = []
  const { stderr, stdout, cause } = await execute({ ...plugin, stderr: (chunk) => passed.push(chunk.length) })
  expect({ stdout, cause }).toEqual({ stdout: "ok\n", cause: undefined })
  expect(passed.reduce((sum, length) => sum + length)).toBe(1_065_537)
  expect([stderr.length, stderr.replaceAll("\0", "")]).toEqual([65_536, "y"])
})

test("a plugin that does not read its stdin is not an error", async () => {
  using lab = new Lab()
  expect(await execute({ ...script(lab, "echo ok"), stdin: "x".repeat(1 << 20) })).toMatchObject({ stdout: "ok\n" })
})

test("#139 at the time limit the plugin and its children are killed", async () => {
  using lab = new Lab()
  const child = join(lab.root, "pid")
  const run = execute({ ...script(lab, `sleep 60 & echo $! >${child}; wait`), timeoutMs: 2000 })
  const { message } = await failure(run)
  expect(message).toStartWith("netplugin failed with no error message: stopped ")
  expect(message).toEndWith("no answer within 2000 ms")
  while (isRunning(readFileSync(child, "utf8"))) await Bun.sleep(1) // was killed with the plugin, which did not wait for it
})

test("an interruption kills it too", async () => {
  using lab = new Lab()
  const stop = new AbortController()
  const run = failure(execute({ ...script(lab, "sleep 60"), signal: stop.signal }))
  stop.abort()
  expect((await run).message).toContain("interrupted")
})

test("a descendant that keeps the pipes open does not keep the caller", async () => {
  using lab = new Lab()
  const child = join(lab.root, "pid")
  const { stdout } = await execute(script(lab, `sleep 60 & echo $! >${child}; echo done`))
  process.kill(Number(readFileSync(child, "utf8")))
  expect(stdout).toBe("done\n")
})

test("#140 a plugin that is just being written is started when the writer has finished", async () => {
  using lab = new Lab()
  const execution = script(lab, "echo ok")
  const writer = openSync(execution.file, "r+")
  setTimeout(() => closeSync(writer), 150)
  expect(await execute(execution)).toMatchObject({ stdout: "ok\n" })
})

test("#140 a plugin that stays open for writing is an error in the end: nothing has run", async () => {
  using lab = new Lab()
  const execution = script(lab, "echo ok")
  const writer = openSync(execution.file, "r+")
  try {
    const error = await failure(execute(execution, [1, 1, 1, 1, 1]))
    expect(error).toMatchObject({ code: 11, message: `Cannot start plugin "${execution.file}"` })
    expect(String(error)).toContain("ETXTBSY")
  } finally {
    closeSync(writer)
  }
})
