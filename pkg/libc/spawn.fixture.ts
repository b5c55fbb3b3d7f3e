import { engine } from "../engine/mod.ts"
import { readDirectory } from "./directories.ts"
import type { Spawn, Spawned } from "./running.ts"
import { spawn } from "./spawn.ts"

/** The result of running a program, as a plain value. Long output is replaced by its length. */
type Story = Omit<Spawned, "stdout" | "stderr"> & { stdout: string | number; stderr: string | number }
type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json | undefined }

const shell = "/bin/sh"
const asText = (bytes: Uint8Array) => (bytes.length > 500 ? bytes.length : engine.decodeUtf8(bytes))

function story(program: Partial<Spawn>): Story {
  const all = { path: shell, env: { PATH: "/usr/bin:/bin" }, outputLimit: 1 << 20, ...program }
  const ended = spawn(all)
  return { ...ended, stdout: asText(ended.stdout), stderr: asText(ended.stderr) }
}

const sh = (script: string, options: Partial<Spawn> = {}) => story({ args: ["-c", script], ...options })

const fine = { exitCode: 0, signal: undefined, timedOut: false, wroteTooMuch: false, stdout: "", stderr: "" }
const killed = { ...fine, exitCode: undefined, signal: "SIGKILL" }
const late = { ...killed, timedOut: true }
const timeoutMs = 60
const bytes = (length: number) => new Uint8Array(length).fill(120)

function file(path: string, content: string, mode: number): string {
  const fd = engine.open(path, 0o2000101, mode)
  engine.write(fd, engine.encodeUtf8(content))
  engine.close(fd)
  return path
}

function whileWritten<T>(path: string, work: () => T): T {
  const fd = engine.open(path, 0o2000001, 0)
  const result = work()
  engine.close(fd)
  return result
}

/** Kills the descendant that the program has left running. The output is the descendant's process ID. */
function withoutDescendant(ended: Story): Story {
  const pid = Number(ended.stdout)
  return { ...ended, stdout: pid > 1 && engine.kill(pid, 9) === 0 ? "killed" : "no descendant" }
}

/** The cases: title, function, expected result. `at` returns the path of a name in the case's own directory. */
export const spawnCases: readonly (readonly [
  name: string,
  run: (at: (name: string) => string) => Json,
  expected: Json,
])[] = [
  [
    "exit code and both streams",
    () => sh("echo out; echo err >&2; exit 3"),
    { ...fine, exitCode: 3, stdout: "out\n", stderr: "err\n" },
  ],
  ["a signal ends it", () => sh("kill -TERM $$"), { ...fine, exitCode: undefined, signal: "SIGTERM" }],
  ["a signal that no table names", () => sh("kill -37 $$"), { ...fine, exitCode: undefined, signal: "signal 37" }],
  [
    "a program that dumps core",
    () => sh("ulimit -c 0; kill -SEGV $$"),
    { ...fine, exitCode: undefined, signal: "SIGSEGV" },
  ],
  ["stdin comes whole and ends", () => sh("cat", { stdin: engine.encodeUtf8("é\0") }), { ...fine, stdout: "é\0" }],
  ["no stdin, empty stdin: nothing to read", () => [sh("cat"), sh("cat", { stdin: new Uint8Array() })], [fine, fine]],
  [
    "argv and environment exactly as given",
    () => [
      story({ path: "/usr/bin/env", env: { B: "=2", A: "é \n", "": "x" } }),
      story({ path: "/usr/bin/printf", args: ["[%s]", "", "-n", "$x *"] }),
    ],
    [
      { ...fine, stdout: "B==2\nA=é \n\n=x\n" },
      { ...fine, stdout: "[][-n][$x *]" },
    ],
  ],
  ["the working directory", () => sh("pwd", { cwd: "/usr" }), { ...fine, stdout: "/usr\n" }],
  [
    "more than a pipe holds, in and out at the same time",
    () => sh("cat; cat </dev/zero | head -c 700000 >&2", { stdin: bytes(900_000) }),
    { ...fine, stdout: 900_000, stderr: 700_000 },
  ],
  [
    "stdin that is not read, or only its beginning",
    () => [sh("exit 0", { stdin: bytes(1 << 20) }), sh("head -c 3; exec <&-; exit 1", { stdin: bytes(1 << 20) })],
    [fine, { ...fine, exitCode: 1, stdout: "xxx" }],
  ],
  [
    "as much output as is allowed",
    () => sh("head -c 100 /dev/zero | tr '\\0' x; head -c 100 /dev/zero >&2", { outputLimit: 100 }),
    { ...fine, stdout: "x".repeat(100), stderr: "\0".repeat(100) },
  ],
  [
    "a byte too much",
    () => sh("head -c 101 /dev/zero | tr '\\0' x; exec sleep infinity", { outputLimit: 100 }),
    { ...killed, wroteTooMuch: true, stdout: "x".repeat(100) },
  ],
  [
    "no output is allowed",
    () => [sh("exit 0", { outputLimit: 0 }), sh("echo; exec sleep infinity", { outputLimit: 0 })],
    [fine, { ...killed, wroteTooMuch: true }],
  ],
  [
    "a program that writes to stdout without end",
    () => sh("exec yes", { outputLimit: 100_000 }),
    { ...killed, wroteTooMuch: true, stdout: 100_000 },
  ],
  [
    "a program that writes to stderr without end",
    () => sh("exec yes >&2", { outputLimit: 100_000 }),
    { ...killed, wroteTooMuch: true, stderr: 100_000 },
  ],
  [
    "a program that writes without end until the time is up",
    () => ({ ...sh("while :; do echo x; done", { outputLimit: 1 << 30, timeoutMs }), stdout: "" }),
    late,
  ],
  ["a program that does nothing until the time is up", () => sh("exec sleep infinity", { timeoutMs }), late],
  [
    "what was written before the time was up",
    () => sh("echo out; exec sleep infinity", { timeoutMs: 2_000 }),
    { ...late, stdout: "out\n" },
  ],
  [
    "a program that does not read until the time is up",
    () => sh("exec sleep infinity", { timeoutMs, stdin: bytes(1 << 20) }),
    late,
  ],
  ["a program that has stopped itself", () => sh("kill -STOP $$", { timeoutMs }), late],
  ["a program that ignores signals", () => sh("trap '' TERM INT HUP; while :; do :; done", { timeoutMs }), late],
  ["no time at all", () => sh("exec sleep infinity", { timeoutMs: 0 }), late],
  ["time enough", () => sh("echo out", { timeoutMs: 60_000 }), { ...fine, stdout: "out\n" }],
  [
    "a program that closes its pipes and lives on is waited for",
    () => sh("exec <&- >&- 2>&-; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 5", { stdin: bytes(1 << 20) }),
    { ...fine, exitCode: 5 },
  ],
  [
    "a program that closes its pipes and lives on until the time is up",
    () => sh("exec sleep infinity <&- >&- 2>&-", { timeoutMs }),
    late,
  ],
  [
    "a descendant that keeps the pipes open is waited for",
    () => sh("{ i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo late; } & exit 0"),
    { ...fine, stdout: "late\n" },
  ],
  [
    "a descendant that keeps the pipes open until the time is up",
    () => withoutDescendant(sh("sleep infinity & echo $!; exit 6", { timeoutMs: 10 * timeoutMs })),
    { ...fine, exitCode: 6, timedOut: true, stdout: "killed" },
  ],
  [
    "a descendant with other pipes is nothing to wait for",
    () => withoutDescendant(sh("sleep infinity <&- >&- 2>&- & echo $!")),
    { ...fine, stdout: "killed" },
  ],
  [
    "a program that does not exist",
    () => story({ path: "/absent" }),
    'SyscallError: execve "/absent": No such file or directory (ENOENT)',
  ],
  [
    "a file that is not a program",
    (at) => [
      mistake(() => story({ path: file(at("a"), "#!/bin/sh", 0o600) })),
      mistake(() => story({ path: "/" })),
      mistake(() => story({ path: file(at("b"), "exit 0", 0o700) })),
    ],
    ["EACCES", "EACCES", "ENOEXEC"],
  ],
  [
    "a program that is being written",
    (at) => [file(at("a"), "#!/bin/sh", 0o700)].map((path) => whileWritten(path, () => mistake(() => story({ path })))),
    ["ETXTBSY"],
  ],
  ["too long a command line", () => mistake(() => sh("x".repeat(1 << 18))), "E2BIG"],
  ["a working directory that does not exist", () => mistake(() => sh("exit 0", { cwd: "/absent" })), "ENOENT"],
  ["a command line with NUL", () => mistake(() => sh("exit\0 0")), "EINVAL"],
  [
    "many programs, one after the other",
    () => Array.from({ length: 50 }, () => sh("echo x", { stdin: bytes(1) }).stdout).join(""),
    "x\n".repeat(50),
  ],
]

const mistake = (work: () => unknown) => {
  try {
    work()
    return "none"
  } catch (error) {
    return (error as { errno?: string }).errno ?? String(error)
  }
}

/** Runs a case here. Returns its result, the number of leaked descriptors, and whether no child process is left. */
export function answerSpawnCase(index: number, directory: string): Json {
  const own = `${directory}/${index}`
  engine.mkdirat(own, 0o700)
  const before = descriptors()
  const answer = attempt(() => spawnCases[index]?.[1]((name) => `${own}/${name}`) ?? null)
  return { answer, leaked: descriptors() - before, childless: isChildless() }
}

function attempt(work: () => Json): Json {
  try {
    return work()
  } catch (error) {
    return String(error)
  }
}

/** Runs the cases on the current engine and prints the results as JSON: `cases DIRECTORY` or `few`. */
export function run(): never {
  const [, task, directory = ""] = engine.arguments()
  const answer = task === "few" ? spawnWithFewDescriptors() : spawnCases.map((_, at) => answerSpawnCase(at, directory))
  const bytes = engine.encodeUtf8(JSON.stringify(answer))
  for (let done = 0; done < bytes.length; ) done += Math.max(0, engine.write(1, bytes.subarray(done)))
  return engine.exit(0)
}

export const descriptors = () => readDirectory("/proc/self/fd").length

/** Reports whether this process has no child, running or ended: wait4(2) with WNOHANG fails with ECHILD. */
export const isChildless = () => engine.wait4(-1, new Int32Array(1), 1) === -10

/**
 * Starts a program with no free descriptor, then with one, and so on up to seven, which suffice. Returns each result.
 * The process must have a low limit of descriptors.
 */
export function spawnWithFewDescriptors(): Json {
  const before = descriptors()
  const taken: number[] = []
  for (let fd = 0; fd >= 0; ) {
    fd = engine.open("/dev/null", 0o2000000, 0)
    if (fd >= 0) taken.push(fd)
  }
  const stories: Json[] = []
  for (let free = 0; free < 8; free++) {
    stories.push(mistake(() => sh("exit 0", { stdin: bytes(1) })))
    engine.close(taken.pop() ?? -1)
  }
  for (const fd of taken) engine.close(fd)
  return { stories, leaked: descriptors() - before, childless: isChildless() }
}

if (import.meta.main) run()
