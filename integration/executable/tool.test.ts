import { describe, expect, test } from "bun:test"
import { copyFile, readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import { cni, commands } from "../../cmd/cni/main.ts"
import { recordingTerminal } from "../../tools/testing.ts"
import { builtPlugins, mustRun, runProgram, TemporaryDirectory } from "../lab/mod.ts"

/** Tests the tool's executable: what it requires of a system, and that its output equals that of its sources on Bun. */

const project = join(import.meta.dir, "../..")
const dist = join(builtPlugins, "..")

test("one file of 7 MB at most, linked statically, is cni and cnitool, and has no parser of scripts", async () => {
  const [one, other] = [await stat(join(dist, "cni")), await stat(join(dist, "cnitool"))]
  expect(one.ino).toBe(other.ino)
  expect(one.size).toBeLessThanOrEqual(7e6)
  const { stdout } = await mustRun(["readelf", "--program-headers", "--dynamic", join(dist, "cni")])
  expect(stdout).not.toMatch(/INTERP|NEEDED/)
  expect((await readFile(join(dist, "cni"))).includes("invalid destructuring target")).toBe(false)
})

test("the verbs of plugins, which it never runs, and their pages but for the keys are not in it", async () => {
  const bytes = await readFile(join(dist, "cni"))
  const verbs = ["addPortmap", "attachToBridge", "addTuning", "addHostLocal", "addFirewall", "runDaemon", "addDhcp"]
  const headlines = ["## Verbs", "## Errors"]
  const found = [...verbs, ...headlines].filter((text) => [text, encodeUtf16(text)].some((one) => bytes.includes(one)))
  expect(found).toEqual([])
  expect(bytes.includes("readNode")).toBe(true) // proves that the search finds function names
})

/** Returns the engine's encoding of a text that contains a character outside Latin-1. */
const encodeUtf16 = (text: string) => Buffer.from(text, "utf16le")

test("it runs in a root that has nothing but itself", async () => {
  await using root = await TemporaryDirectory.create()
  for (const name of ["cni", "cnitool"]) await copyFile(join(dist, name), root.join(name))
  const run = (...words: string[]) => runProgram(["/usr/sbin/chroot", root.path, ...words], { env: {} })
  expect(await run("/cni", "version")).toMatchObject({
    exitCode: 0,
    stderr: "",
    stdout: expect.stringMatching(/^cni \d/),
  })
  expect((await run("/cni", "--help")).stdout).toContain("cni COMMAND [arguments]")
  expect((await run("/cnitool", "--help")).stdout).toContain("cnitool COMMAND NETWORK NETNS")
  expect((await run("/cni", "explain", "vlan")).exitCode).toBeLessThan(3)
})

test("without memory it says so on stderr, with the environment of a runtime, too", async () => {
  const { size } = await stat(join(dist, "cni"))
  const limit = ["/usr/bin/prlimit", `--as=${size + 600_000}`, join(dist, "cni"), "doctor"]
  const { stdout, stderr, exitCode } = await runProgram(limit, { env: { CNI_COMMAND: "ADD" } })
  const message = "Cannot run this program: not enough memory (RLIMIT_AS, memory cgroup)\n"
  expect({ stdout, stderr, exitCode }).toEqual({ stdout: "", stderr: message, exitCode: 1 })
})

test("its help is few system calls, and nothing is opened", async () => {
  await using directory = await TemporaryDirectory.create()
  await mustRun(["strace", "-qq", "-f", "-o", directory.join("calls"), join(dist, "cni"), "--help"])
  const calls = (await readFile(directory.join("calls"), "utf8")).trimEnd().split("\n")
  expect(calls.length).toBeLessThan(60)
  expect(calls.filter((line) => / open/.test(line))).toEqual([])
})

describe("the native executable says what the sources say on Bun:", () => {
  const same = async (words: readonly string[], input = "") => {
    const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" }
    const { stdout, stderr, exitCode } = await runProgram([join(dist, "cni"), ...words], { env, input })
    const terminal = recordingTerminal(env, false, { stdin: async () => input })
    const bun = { exitCode: await cni(words, terminal), stdout: terminal.out, stderr: terminal.err }
    expect({ words, stdout, stderr, exitCode }).toEqual({ words, ...bun })
    return { exitCode, stdout }
  }

  test("the help of the tool and of each command", async () => {
    await same(["--help"])
    await same(["ipam"])
    for (const name of Object.keys(commands)) {
      const { exitCode, stdout } = await same([...name.split(" "), "--help"])
      expect({ name, exitCode, isLong: stdout.length > 50 }).toEqual({ name, exitCode: 0, isLong: true })
    }
  })

  test("unknown commands, and names that do not exist", async () => {
    for (const words of [
      ["pss"],
      ["ps", "--jso"],
      ["ps", "--json=1"],
      ["add"],
      ["add", "nowhere", "nothing"],
      ["graph", "--format"],
      ["lint", "/nowhere"],
      ["explain", "no-such-thing"],
      ["ipam", "ls", "nothing", "--data-dir", "/nowhere"],
      ["completion", "tcsh"],
      ["dhcp", "lss"],
    ]) {
      const { exitCode } = await same(words)
      expect({ words, failed: exitCode !== 0 }).toEqual({ words, failed: words[0] !== "ipam" || exitCode !== 0 })
    }
  })

  test("completions, schemas, configurations that are checked, messages that are explained", async () => {
    for (const shell of ["bash", "zsh", "fish"]) await same(["completion", shell])
    await same(["__complete", "ipam", ""])
    await same(["schema", "bridge"])
    await same(["lint", join(project, "examples")])
    for (const example of new Bun.Glob("examples/**/*.conflist").scanSync(project))
      await same(["lint", join(project, example), "--json"])
    const log = await same(["explain", "-"], await readFile(join(project, "docs/errors.md"), "utf8"))
    expect(log.stdout.length).toBeGreaterThan(10_000)
    await same(["explain", "7"])
  })
})
