import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readdir, readFile, stat, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { calls, reserve } from "../../host/seccomp.json"
import { buildPlugins, buildTool } from "../../scripts/build.ts"
import { targets } from "../../scripts/engine.ts"
import { muslOf } from "../../scripts/musl.ts"
import { pluginNames } from "../../suite/plugins.ts"
import {
  builtPlugins,
  mustRun,
  type PluginCall,
  type PluginResult,
  pluginEnv,
  runProgram,
  TemporaryDirectory,
} from "../lab/mod.ts"

/** The output and files of a plugin call, in which `at` replaces the directory of the store. */
interface Seen {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  readonly files: Readonly<Record<string, string>>
}

const emulator = targets.arm64.emulator

/** System calls that door.c replaces on this machine, which lacks them. */
const ofHostDoor = { renameat2: "rename" }

test("the calls of host/seccomp.json for this machine are calls of its kernel", async () => {
  await using directory = await TemporaryDirectory.create()
  const names = calls.arm64.map((name) => `SYS_${name}`)
  await writeFile(directory.join("calls.c"), `#include <sys/syscall.h>\nconst int calls[] = {${names.join(", ")}};\n`)
  await mustRun([(await muslOf(targets.arm64)).compiler, "-fsyntax-only", directory.join("calls.c")])
})

/** The plugins of a directory, which QEMU or this machine executes, with their own store. */
class Machine implements AsyncDisposable {
  readonly #bin: string
  readonly #emulator: readonly string[]
  readonly #store: TemporaryDirectory

  private constructor(bin: string, emulator: readonly string[], store: TemporaryDirectory) {
    this.#bin = bin
    this.#emulator = emulator
    this.#store = store
  }

  static async create(bin: string, emulator: readonly string[] = []): Promise<Machine> {
    return new Machine(bin, emulator, await TemporaryDirectory.create("cni-arm64"))
  }

  async run(
    name: string,
    verb: PluginCall["verb"],
    call: Partial<PluginCall> & { config?: object } = {},
  ): Promise<Seen> {
    const bin = join(this.#bin, name)
    const text = JSON.stringify(call.config ?? {}).replaceAll('"AT"', JSON.stringify(this.#store.path))
    const env = pluginEnv({ netns: "/run/netns/of-no-machine", ifName: "eth0", ...call, bin, verb, path: "/bin" })
    const { stdout, stderr, exitCode } = await runProgram([...this.#emulator, bin], { env, input: text })
    const plain = (said: string) => said.replaceAll(this.#store.path, "AT").replaceAll(dirname(bin), "BIN")
    return { stdout: plain(stdout), stderr: plain(stderr), exitCode, files: await this.#files() }
  }

  /**
   * Returns all files with their content. Of index files it returns only the names, because their content depends on
   * chance and time.
   */
  async #files(): Promise<Record<string, string>> {
    const entries = await readdir(this.#store.path, { recursive: true, withFileTypes: true })
    const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
    const contents = files.sort().map(async (file) => {
      const isIndex = file.includes("/.index/")
      const name = isIndex ? file.replace(/-.*/, "") : file
      return [name.slice(this.#store.path.length), isIndex ? "" : await readFile(file, "latin1")]
    })
    return Object.fromEntries(await Promise.all(contents))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#store[Symbol.asyncDispose]()
  }
}

const ipam = { type: "host-local", dataDir: "AT", ranges: [[{ subnet: "10.1.0.0/29" }], [{ subnet: "fd00:1::/125" }]] }
const network = (keys: object = {}) => ({ cniVersion: "1.1.0", name: "net", type: "ptp", ipam, ...keys })

/** Runs the verbs of host-local: assigns, checks, requests again, releases and collects addresses. */
async function life(machine: Machine): Promise<Seen[]> {
  const call = (verb: PluginCall["verb"], containerId: string, keys: object = {}, args?: string) =>
    machine.run("host-local", verb, { containerId, config: network(keys), ...(args ? { args } : {}) })
  const resultOf = ({ stdout }: Seen) => ({ prevResult: JSON.parse(stdout) as PluginResult })
  const valid = (containerID: string) => ({ "cni.dev/valid-attachments": [{ containerID, ifname: "eth0" }] })
  const seen = [await call("STATUS", ""), await call("ADD", "a"), await call("ADD", "b")]
  const [, a, b] = seen as [Seen, Seen, Seen]
  seen.push(
    await call("CHECK", "a", resultOf(a)),
    await call("CHECK", "c", resultOf(b)),
    await call("ADD", "a"),
    await call("ADD", "ü", {}, "IP=10.1.0.5"),
    await call("ADD", "d", { runtimeConfig: { ips: ["10.1.0.5"] } }),
    await call("DEL", "a"),
    await call("DEL", "a"),
    await call("GC", "", valid("b")),
    await call("STATUS", "", { ipam: { ...ipam, ranges: [[{ subnet: "10.1.0.0/33" }]] } }),
  )
  for (const name of ["e", "f", "g", "h", "i", "j", "k"]) seen.push(await call("ADD", name))
  return seen
}

test("the tool for arm64 is one file of at most 7 MB, and answers as that for amd64", async () => {
  await using place = await TemporaryDirectory.create("cni-arm64", dirname(builtPlugins))
  await buildTool(place.join("cni"), targets.arm64)
  expect((await stat(place.join("cni"))).size).toBeLessThan(7e6)
  await writeFile(
    place.join("10-lab.conflist"),
    JSON.stringify({ cniVersion: "1.1.0", name: "lab", plugins: [{ type: "brigde" }] }),
  )
  const run = async (...command: string[]) => {
    const { exitCode, stdout, stderr } = await runProgram(command, { env: {} })
    return { exitCode, stdout, stderr }
  }
  const commands = [["version"], ["--help"], ["explain", "vlan"], ["lint", place.join("10-lab.conflist")], ["instal"]]
  for (const words of commands) {
    const answer = await run(...emulator, place.join("cni"), ...words)
    expect(answer.stdout + answer.stderr).not.toBe("")
    expect({ words, ...answer }).toEqual({ words, ...(await run(join(builtPlugins, "../cni"), ...words)) })
  }
})

describe.each([
  ["bytecode", "bytecode"],
  ["a heap image", "snapshot"],
] as const)("for arm64, started from %s", (_, start) => {
  let bin: TemporaryDirectory

  beforeAll(async () => {
    bin = await TemporaryDirectory.create("cni-arm64", dirname(builtPlugins))
    await buildPlugins(bin.join("bin"), targets.arm64, start)
  })
  afterAll(() => bin[Symbol.asyncDispose]())

  test.each(["bridge", "dhcp"])("%s is one static file for that machine", async (name) => {
    const { stdout } = await mustRun(["readelf", "--file-header", "--segments", "--wide", bin.join("bin", name)])
    expect(stdout).toContain("AArch64")
    expect(stdout).not.toContain("INTERP")
    const segments = [...stdout.matchAll(/^ *LOAD +(\w+) (\w+) \w+ \w+ (\w+) .*(0x[0-9a-f]+)$/gm)].map((row) => {
      const [offset = 0, address = 0, size = 0, alignment] = row.slice(1).map(Number)
      return { offset, address, size, alignment }
    })
    expect(segments.length).toBeGreaterThan(1)
    // A kernel with pages of 64 KiB maps whole pages of the file, each with the access rights of one segment.
    const page = 0x10000
    for (const { offset, address, alignment } of segments)
      expect({ alignment, place: offset % page }).toEqual({ alignment: page, place: address % page })
    const pages = segments.flatMap(({ address, size }) => {
      const first = Math.floor(address / page)
      return Array.from({ length: Math.floor((address + size - 1) / page) - first + 1 }, (_, at) => first + at)
    })
    expect(pages.length).toBe(new Set(pages).size)
  })

  test("all files together are under 50 MB", async () => {
    const files = await readdir(bin.join("bin"))
    const sizes = await Promise.all(files.map(async (name) => (await stat(bin.join("bin", name))).size))
    expect(files.length).toBe(pluginNames.length)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(50e6)
  })

  test("every name answers VERSION, a file under another name as well, and a human gets help: as on amd64", async () => {
    await using arm = await Machine.create(bin.join("bin"), emulator)
    await using amd = await Machine.create(builtPlugins)
    for (const name of (await readdir(builtPlugins)).sort()) {
      const answer = await arm.run(name, "VERSION")
      expect(JSON.parse(answer.stdout)).toMatchObject({ cniVersion: "1.1.0" })
      expect(answer).toEqual(await amd.run(name, "VERSION"))
      const help = await runProgram([...emulator, bin.join("bin", name)], { env: {} })
      expect(help).toMatchObject({ exitCode: 0, stderr: expect.stringContaining(name) })
    }
    const renamed = await runProgram([...emulator, "-0", "cnv-bridge", bin.join("bin/bridge")], {
      env: { CNI_COMMAND: "VERSION" },
    })
    expect(renamed).toMatchObject({ exitCode: 0 })
    expect(JSON.parse(renamed.stdout)).toMatchObject({ cniVersion: "1.1.0" })
  })

  test("it makes no system call beyond those of host/seccomp.json, and what is listed for this machine alone it makes [S106]", async () => {
    await using traces = await TemporaryDirectory.create()
    await using arm = await Machine.create(bin.join("bin"), [...emulator, "-strace", "-D", traces.join("%d")])
    for (const name of await readdir(builtPlugins)) await arm.run(name, "VERSION")
    await life(arm)
    const made = new Set<string>()
    for (const file of await readdir(traces.path)) {
      const trace = await readFile(traces.join(file), "latin1")
      for (const [, name, unnamed] of trace.matchAll(/^\d+ (?:(\w+)\(|Unknown syscall (\d+))/gm))
        made.add(name ?? `number ${unnamed}`)
    }
    const allowed = [...calls.arm64, ...Object.keys(reserve)]
    expect([...made].filter((name) => !allowed.includes(name))).toEqual([])
    const here = calls.arm64.filter((name) => !calls.amd64.includes(name) && !(name in ofHostDoor))
    expect(here.filter((name) => !made.has(name))).toEqual([])
  })

  test("errors are the same bytes as on amd64: of the configuration, of the kernel, of JSON's depth", async () => {
    await using arm = await Machine.create(bin.join("bin"), emulator)
    await using amd = await Machine.create(builtPlugins)
    const deep = Array.from({ length: 3000 }).reduce<unknown>((inner) => [inner], [])
    const cases = [
      { verb: "ADD", config: network({ ipam: { ...ipam, ranges: [[{ subnet: "10.1.0.0" }]] } }) },
      { verb: "ADD", config: network({ ipam: { ...ipam, dataDir: "/proc/none" } }) },
      { verb: "ADD", config: network({ deep }) },
      { verb: "ADD", config: network(), containerId: "../a" },
    ] as const
    for (const { verb, ...call } of cases) {
      const answer = await arm.run("host-local", verb, { containerId: "a", ...call })
      expect(JSON.parse(answer.stdout)).toMatchObject({ code: expect.any(Number) })
      expect(answer).toEqual(await amd.run("host-local", verb, { containerId: "a", ...call }))
    }
  })

  test("host-local's life leaves the same answers and files, byte for byte, as on amd64", async () => {
    await using arm = await Machine.create(bin.join("bin"), emulator)
    await using amd = await Machine.create(builtPlugins)
    const seen = await life(arm)
    expect(seen[1]?.stdout).toContain("10.1.0.2/29")
    expect(seen[1]?.files["/net/10.1.0.2"]).toBe("a\r\neth0")
    expect(seen.map(({ exitCode }) => exitCode)).toContain(1)
    expect(seen).toEqual(await life(amd))
  })
})
