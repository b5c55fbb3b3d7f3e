import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { builtPlugins, HostNamespace, programEnv, waitFor } from "../lab/mod.ts"

/** Tests signals that end the tool while a file system hangs, like a hard NFS mount without its server. */

const tool = join(builtPlugins, "../cni")
const hung = "/run/cni/hung"

let host: HostNamespace
/**
 * A process that holds the descriptor of a FUSE mount, but does not serve it. System calls on the mount's files
 * therefore wait, even after a fatal signal.
 */
let server: ReturnType<typeof Bun.spawn>

beforeAll(async () => {
  host = await HostNamespace.create()
  const mount = `mkdir -p ${hung}; exec 3<>/dev/fuse
    mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none ${hung}; echo mounted; exec cat`
  const started = Bun.spawn(host.commandLine(["sh", "-ec", mount]), { stdin: "pipe", stdout: "pipe" })
  server = started
  for await (const _ of started.stdout) break
})
afterAll(async () => {
  server.kill("SIGKILL") // the kernel then ends all waiting calls with an error
  await server.exited
  await host[Symbol.asyncDispose]()
})

/** Returns the name of the kernel function in which a process waits, proc_pid_wchan(5). */
const place = (pid: number) => readFileSync(`/proc/${pid}/wchan`, "utf8")

const commands = [
  ["ps", "--conf-dir", `${hung}/net.d`],
  ["ps", "--cache-dir", hung],
  ["lint", `${hung}/10-pods.conflist`],
  ["doctor", "--bin-dir", hung],
  ["add", "pods", "nowhere", "--conf-dir", hung],
  ["del", "pods", "nowhere", "--conf-dir", hung],
  ["gc", "--auto", "--conf-dir", hung],
  ["install", "--verify", "--bin-dir", hung],
]

describe.each(["SIGTERM", "SIGINT"] as const)("%s ends the tool while a file system does not answer:", (signal) => {
  test.each(commands.map((words) => [words.join(" "), words] as const))("cni %s", async (_, words) => {
    const started = Bun.spawn(host.commandLine([tool, ...words]), {
      env: programEnv,
      stdout: "ignore",
      stderr: "ignore",
    })
    try {
      const isHeldUp = () => started.exitCode !== null || place(started.pid).includes("fuse")
      await waitFor(isHeldUp, "the wait for the file system")
      started.kill(signal)
      await started.exited
      expect(started.signalCode).toBe(signal)
    } finally {
      started.kill("SIGKILL")
    }
  })
})
