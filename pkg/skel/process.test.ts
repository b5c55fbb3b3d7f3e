import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import { attachment } from "./plugin.fixture.ts"
import { inputLimit } from "./process.ts"

const fixture = join(import.meta.dir, "process.fixture.ts")

/** Runs the fixture, or the shell script `shell` with the fixture's command line in `$0` and `$1`. */
async function run(name: string, options: { command?: string; shell?: string } = {}) {
  const env = { ...attachment, PATH: process.env.PATH, CNI_COMMAND: options.command ?? "ADD" }
  const plugin = [process.execPath, fixture]
  const argv = options.shell ? ["/bin/bash", "-c", options.shell, ...plugin] : plugin
  const config = new TextEncoder().encode(JSON.stringify({ cniVersion: "1.0.0", name }))
  const child = Bun.spawn(argv, { env, stdin: config, stdout: "pipe", stderr: "pipe" })
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
  return { stdout, stderr, exitCode: await child.exited }
}

const errorOf = (reply: { stdout: string; exitCode: number }) => {
  expect(reply.exitCode).toBe(1)
  return JSON.parse(reply.stdout)
}

describe("a plugin as a process", () => {
  test("#1, #4 answers ADD with one document on stdout and exits with 0", async () => {
    const reply = await run("fine")
    expect(JSON.parse(reply.stdout)).toEqual({ cniVersion: "1.0.0", ips: [{ address: "192.0.2.7/24" }] })
    expect(reply).toMatchObject({ stderr: "", exitCode: 0 })
  })

  test("#2, #93 answers with one error object, exits with 1, and leaves a bug's stack on stderr", async () => {
    const reply = await run("throws")
    expect(errorOf(reply)).toMatchObject({ cniVersion: "1.0.0", code: 999, msg: "on purpose" })
    expect(JSON.parse(reply.stdout).details).toMatch(/^at throws pkg\/skel\/process\.fixture\.ts:\d+/)
    expect(reply.stderr).toMatch(/^recorder: Error: on purpose\n.*process\.fixture\.ts/s)
  })

  test("#3 logs on stderr only", async () => {
    const reply = await run("chatty")
    expect(reply.stderr).toBe("a line of another program\nrecorder: a line of the plugin\n")
    expect(JSON.parse(reply.stdout).ips).toHaveLength(1)
  })

  test("#89 introduces itself on stderr when no command is given", async () => {
    const reply = await run("fine", { command: "" })
    expect(reply).toMatchObject({ stdout: "", exitCode: 0 })
    expect(reply.stderr).toStartWith("CNI recorder plugin v1.")
  })
})

describe("stdin", () => {
  const endless = (command: string) => `exec 3< <(${command}); "$0" "$@" <&3`

  test("#85 is not waited for by VERSION", async () => {
    const env = { CNI_COMMAND: "VERSION" }
    const child = Bun.spawn([process.execPath, fixture], { env, stdin: "pipe", stdout: "pipe" })
    expect(await child.stdout.json()).toHaveProperty("supportedVersions")
    expect(await child.exited).toBe(0)
    child.stdin.end()
  })

  test("#69 that never ends is refused at 16 MiB", async () => {
    const { code, msg } = errorOf(await run("fine", { shell: endless("cat /dev/zero") }))
    expect(code).toBe(5)
    expect(msg).toContain(`more than ${inputLimit} bytes`)
  })

  const readingScript = `import { readStdin } from ${JSON.stringify(join(import.meta.dir, "process.ts"))}
    const bytes = readStdin()
    console.log(bytes.length, new Bun.CryptoHasher("sha256").update(bytes).digest("hex"))`

  // The buffer begins with 8 KiB and grows to this suite's limit. The specification has none.
  test.each([1, 8191, 8192, 8193, 100_000, 16 * 1024 * 1024])("of %d bytes is read whole", async (size) => {
    const stdin = new Uint8Array(size).map((_, at) => (at * 31) >> 3)
    const child = Bun.spawn([process.execPath, "-e", readingScript], { stdin, stdout: "pipe" })
    expect(await child.stdout.text()).toBe(`${size} ${new Bun.CryptoHasher("sha256").update(stdin).digest("hex")}\n`)
  })

  test("of one byte more than 16 MiB is refused", async () => {
    const stdin = new Uint8Array(16 * 1024 * 1024 + 1)
    const child = Bun.spawn([process.execPath, "-e", readingScript], { stdin, stdout: "ignore", stderr: "pipe" })
    expect(await child.stderr.text()).toContain("more than 16777216 bytes: this is not a network configuration")
  })

  test("#69 that cannot be read, a directory, is refused", async () => {
    const { code, msg } = errorOf(await run("fine", { shell: '"$0" "$@" < /' }))
    expect(code).toBe(5)
    expect(msg).toStartWith("error reading from stdin: ")
    expect(msg).toContain("EISDIR")
  })

  test("#68 that is closed reads as empty", async () => {
    expect(errorOf(await run("fine", { shell: '"$0" "$@" <&-' })).code).toBe(6)
  })

  test("may come in pieces, late", async () => {
    const pieces = `(printf '{"cniVersion":'; sleep 0.1; printf '"1.0.0", "name": "fine"}')`
    expect((await run("", { shell: endless(pieces) })).exitCode).toBe(0)
  })

  test("may be non-blocking and late", async () => {
    const perl = `exec 3< <(sleep 0.1; cat <<< '{"cniVersion":"1.0.0","name":"fine"}'); perl -MFcntl -e 'open(F, "<&=3"); fcntl(F, F_SETFL, O_NONBLOCK); exec @ARGV' "$0" "$@" <&3`
    expect((await run("", { shell: perl })).exitCode).toBe(0)
  })

  test("#69 that stays silent and open is given up", async () => {
    const script = `import { readStdin } from ${JSON.stringify(join(import.meta.dir, "process.ts"))}; readStdin(50)`
    const child = Bun.spawn([process.execPath, "-e", script], { stdin: "pipe", stdout: "ignore", stderr: "pipe" })
    expect(await child.exited).toBe(1)
    expect(await child.stderr.text()).toContain("stdin had no data and no end of file for 0.05 s")
    child.stdin.end()
  })
})

describe("stdout", () => {
  test("that is full fails ADD and says so on stderr", async () => {
    const reply = await run("fine", { shell: '"$0" "$@" > /dev/full' })
    expect(reply.exitCode).toBe(1)
    expect(reply.stderr).toContain("Cannot write the result to stdout")
    expect(reply.stderr).toContain("ENOSPC")
  })

  test("without a reader fails ADD too", async () => {
    const reply = await run("throws", { shell: 'exec 3> >(exec true); sleep 0.2; "$0" "$@" >&3' })
    expect(reply.exitCode).toBe(1)
    expect(reply.stderr).toMatch(/^Cannot write to stdout: .*EPIPE/m)
  })
})

describe("stdout that is non-blocking", () => {
  /** Writes 1 MiB to a pipe of 64 KiB. `open` makes the pipe stdout, with "R" as its other end. */
  const write = (open: string, fullMs: number) => {
    const script = `import { writeStdout } from ${JSON.stringify(join(import.meta.dir, "process.ts"))}
      writeStdout("x".repeat(1 << 20), ${fullMs})`
    const perl = `use Fcntl; $^F = 9; ${open}; fcntl(STDOUT, F_SETFL, O_NONBLOCK); exec @ARGV`
    return Bun.spawn(["perl", "-e", perl, process.execPath, "-e", script], { stdout: "pipe", stderr: "pipe" })
  }

  test("is waited for when it is full", async () => {
    const child = write('open(R, "|-", "wc -c"); open(STDOUT, ">&R")', 60_000)
    expect(await child.stdout.text()).toBe("1048576\n")
    expect(await child.exited).toBe(0)
  })

  test("is given up when its reader does not read", async () => {
    const child = write('pipe(R, W); open(STDOUT, ">&W")', 50)
    expect(await child.exited).toBe(1)
    expect(await child.stderr.text()).toContain("the reader of stdout has not read for 0.05 s")
  })
})

test("something left behind by a verb neither adds to the answer nor holds the process up", async () => {
  const reply = await run("leaves-things")
  expect(JSON.parse(reply.stdout)).toHaveProperty("ips")
  expect(reply.exitCode).toBe(0)
})
