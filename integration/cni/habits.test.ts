import { describe, expect, test } from "bun:test"
import { builtPlugins, programEnv, waitFor } from "../lab/mod.ts"
import { NodeLab } from "./node-lab.ts"

const tool = `${builtPlugins}/../cni`
const environmentOf = (lab: NodeLab) => ({ ...programEnv, NETCONFPATH: lab.confDir, CNI_PATH: builtPlugins })

/** Runs a bash command line, in which `cni` is the tool under test. */
function shell(lab: NodeLab, line: string, env: Record<string, string> = {}) {
  const script = `set -o pipefail; cni() { ${tool} "$@"; }; ${line}`
  return lab.host.tryExec("bash", ["-c", script], { env: { ...environmentOf(lab), ...env } })
}

/** Returns the output on a terminal of this width, without colors. */
async function onTerminal(lab: NodeLab, columns: number, args: string): Promise<string[]> {
  const env = { ...environmentOf(lab), NO_COLOR: "1", TERM: "xterm" }
  const line = `stty cols ${columns}; ${tool} ${args}`
  return (await lab.host.tryExec("script", ["-qec", line, "/dev/null"], { env })).stdout.split("\r\n")
}

describe("what is printed", () => {
  test("is text, into a pipe as well; JSON where it is asked for, by -o or --json", async () => {
    await using lab = await NodeLab.create()
    const pod = await lab.addPod()
    const commands = [
      ["ps"],
      ["doctor"],
      ["status", "pods"],
      ["trace", "pods", pod.path, "--to", "10.85.0.1"],
      ["diff", "pods", pod.path, "--container-id", pod.name],
      ["gc", "pods", "--auto", "--dry-run"],
      ["ipam", "ls"],
      ["dhcp", "ls"],
      ["lint"],
      ["explain", "7"],
      ["graph"],
      ["metrics"],
      ["dry-run", "ADD", "pods"],
    ]
    for (const command of commands) {
      const text = await shell(lab, `cni ${command.join(" ")} | cat`)
      expect(() => JSON.parse(text.stdout)).toThrow()
      expect(text.stdout.length).toBeGreaterThan(5) // the shortest text is "No leases"
      const json = (await lab.cni([...command, "--json"])).stdout
      const timeless = (said: string) =>
        said.replace(/"(ms|value|packets|bytes)": [\d.]+|"veth\w+|([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "")
      expect(timeless((await lab.cni([...command, "-o", "json"])).stdout)).toBe(timeless(json))
      JSON.parse(json)
    }
  })

  test("has the control characters of a name as escapes [S145]", async () => {
    await using lab = await NodeLab.create()
    const { stderr } = await lab.cni(["doctor", "pods\x1b[2J\x1b[H"])
    expect(stderr).toContain('"pods\\u001b[2J\\u001b[H"')
    expect(stderr).not.toContain("\x1b")
  })

  test("without heads is rows alone, for awk and its like", async () => {
    await using lab = await NodeLab.create()
    await lab.addPod("web-10")
    await lab.addPod("web-9")
    const rows = await shell(lab, "cni ps --no-headers | awk '{ print $3, $5 }'")
    expect(rows).toMatchObject({ exitCode: 0, stdout: "web-9 10.85.0.3/24\nweb-10 10.85.0.2/24\n" })
  })

  test("is one namespace of Kubernetes where one is named, and all of them with -A", async () => {
    await using lab = await NodeLab.create()
    await lab.addPod()
    const count = async (args: string) => (await shell(lab, `cni ps --no-headers ${args} | wc -l`)).stdout.trim()
    expect([await count("-n shop"), await count("-n other"), await count("-n other -A")]).toEqual(["1", "0", "1"])
  })

  test("at 80 columns has names and addresses whole, and all of it with -o wide", async () => {
    await using lab = await NodeLab.create()
    const id = "0123456789abcdef".repeat(4)
    await lab.addPod("checkout-service-7d9f8b6c5d-x2x4z", "pods", id)
    const container = await lab.host.addContainer()
    const other = "fedcba9876543210".repeat(4)
    await lab.cni(["add", "pods", container.path, "--container-id", other])
    const narrow = await onTerminal(lab, 80, "ps")
    expect(narrow[1]).toMatch(/fedcba987654 .*10\.85\.0\.3\/24/)
    expect(narrow[2]).toMatch(/ checkout-service-7d9f8b6c5d-x2x4z .*10\.85\.0\.2\/24/)
    expect(Math.max(...narrow.map((line) => line.length))).toBeLessThanOrEqual(80)
    expect(await shell(lab, "cni ps | cat", { COLUMNS: "80" })).toMatchObject({ stdout: narrow.join("\n") })
    for (const args of ["ps -o wide", "graph -o wide"]) {
      const wide = (await onTerminal(lab, 80, args)).join("\n")
      expect(wide).toMatch(/NAMESPACE +CONTAINER/)
      expect(wide).toContain(other)
      expect(wide).toMatch(/veth[0-9a-f]{8}/)
    }
  })
})

describe("a reader that goes", () => {
  /**
   * A Python program that runs a command whose stdout is a pipe without a reader. The exit status is that of a shell.
   */
  const withoutReader = `import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
done = subprocess.run(sys.argv[1:], stdout=writer, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
code = done.returncode
print(128 - code if code < 0 else code, done.stderr.decode(), end="")`

  test.each(["ps", "ps -w", "doctor", "graph", "lint", "--help", "ps --help", "explain 7", "log --follow"])(
    "ends cni %s without a word, as it ends ls",
    async (args) => {
      await using lab = await NodeLab.create()
      await lab.cni(["recorder", "on"])
      await lab.addPod()
      const run = (command: string[]) =>
        lab.host.tryExec("python3", ["-c", withoutReader, ...command], { env: environmentOf(lab) })
      const ls = await run(["ls", "/"])
      expect(ls.stdout).toStartWith("141")
      expect((await run([tool, ...args.split(" ")])).stdout).toBe("141 ")
    },
  )

  test("cni ps | head -1 prints the line, and no error", async () => {
    await using lab = await NodeLab.create()
    await lab.addPod()
    const { stdout, stderr } = await shell(lab, "cni ps | head -1")
    expect([stdout.split(/ +/)[0], stderr]).toEqual(["NETWORK", ""])
    const watched = await shell(lab, "cni ps --watch --interval 0.02 | head -1")
    expect([watched.stdout.split(/ +/)[0], watched.stderr]).toEqual(["NETWORK", ""])
  })
})

describe("--watch", () => {
  /** Starts a command, and collects its output. */
  function start(lab: NodeLab, command: readonly string[]) {
    const env = { ...environmentOf(lab), TERM: "xterm", NO_COLOR: "1" }
    const process = Bun.spawn(lab.host.commandLine(command), { env, stdin: "pipe", stdout: "pipe", stderr: "pipe" })
    const seen = { out: "", err: "" }
    const read = async (stream: ReadableStream<Uint8Array>, name: "out" | "err") => {
      for await (const chunk of stream) seen[name] += new TextDecoder().decode(chunk)
    }
    const ended = Promise.all([process.exited, read(process.stdout, "out"), read(process.stderr, "err")])
    return { process, seen, exitCode: async () => (await ended)[0] }
  }

  test.each(["ps", "ps --json", "graph -o text", "doctor"])(
    "of %s shows what changes, and ends by Ctrl-C with exit code 0",
    async (command) => {
      await using lab = await NodeLab.create()
      await lab.addPod("first")
      const { process, seen, exitCode } = start(lab, [tool, ...command.split(" "), "--watch", "--interval", "0.05"])
      try {
        await waitFor(() => seen.out !== "", "the first look")
        const { length } = seen.out
        await lab.addPod("second")
        await waitFor(() => seen.out.length > length, "the second look")
      } finally {
        process.kill("SIGINT")
      }
      expect(await exitCode()).toBe(0)
      if (!command.endsWith("--json")) return
      const looks = seen.out.trim().split("\n")
      expect(looks.map((line) => JSON.parse(line).length)).toContain(2)
    },
  )

  test("of status goes on when the network no longer can take containers, and says so", async () => {
    await using lab = await NodeLab.create()
    const { process, seen, exitCode } = start(lab, [tool, "status", "pods", "-w", "--interval", "0.05"])
    try {
      await waitFor(() => seen.out === 'Network "pods" is ready\n', "the first look")
      await lab.writeNetwork("10-pods.conflist", "{")
      await waitFor(() => seen.err.startsWith("cni status: "), "the error")
    } finally {
      process.kill("SIGINT")
    }
    expect(await exitCode()).toBe(0)
  })

  test("on a terminal it has a screen of its own that is drawn again, and Ctrl-C ends it", async () => {
    await using lab = await NodeLab.create()
    await lab.addPod("first")
    const line = `stty cols 120; exec ${tool} ps --watch --interval 0.05`
    const { process, seen, exitCode } = start(lab, ["script", "-qec", line, "/dev/null"])
    // Cursor to the first line, and erase the rest of the screen: ECMA-48, 8.3.57 and 8.3.39
    const screens = () => seen.out.split("\x1b[H\x1b[J").slice(1)
    try {
      await waitFor(() => screens().some((screen) => screen.includes("first")), "the first look")
      await lab.addPod("second")
      await waitFor(() => screens().some((screen) => screen.includes("second")), "the second look")
    } finally {
      process.stdin.write("\x03")
      await process.stdin.flush()
    }
    expect(await exitCode()).toBe(0)
    expect(screens()[0]).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z {2}cni ps\r\n\r\nNETWORK /)
  })
})
