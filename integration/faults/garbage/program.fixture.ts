import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { writePluginOfBuild } from "../../../pkg/invoke/directory.fixture.ts"
import { buildFromBytecode, type Flavour } from "../../../scripts/native.ts"
import { neededDirectories } from "../../../scripts/sanitized.ts"
import { pluginNames } from "../../../suite/plugins.ts"
import { buildLauncher } from "../../executable/launcher.ts"
import { builtPlugins, type CProgram, type HostNamespace, mustRun } from "../../lab/mod.ts"
import type { Case, Outcome } from "./case.ts"

/** IPAM plugins of other authors for `CNI_PATH`, as shell scripts by name, each with its own output and exit code. */
const delegates: Readonly<Record<string, string>> = {
  delegate: `printf '{"cniVersion":"1.1.0","ips":[{"address":"10.77.0.5/24","gateway":"10.77.0.1"}]}'`,
  "delegate-endless": `yes '{"cniVersion"' | head -c 70000000`,
  "delegate-large": `printf '{"cniVersion":"1.1.0","x":"'; yes | tr -d '\\n' | head -c 17000000; printf '"}'`,
  "delegate-killed": "kill -9 $$",
  "delegate-silent": "exit 0",
  "delegate-code": "exit 17",
  "delegate-error": `printf '{"cniVersion":"1.1.0","code":"seven","msg":[]}'; exit 1`,
  "delegate-refusing": `printf '{"cniVersion":"1.1.0","code":111,"msg":"no"}'; exit 1`,
}

/** The names of the scripts that fail, each in a different way. */
export const badDelegates: readonly string[] = Object.keys(delegates).filter((name) => name !== "delegate")

/** The devices in /dev: path, major and minor number. */
const devices = [
  ["null", "1", "3"],
  ["net/tun", "10", "200"],
] as const

/**
 * The program that runs cases, built like the plugins. It has its own root directory, so a configuration with any path
 * does no harm to the machine.
 */
export class FuzzProgram implements AsyncDisposable {
  readonly #directory: string
  readonly #launcher: CProgram

  private constructor(directory: string, launcher: CProgram) {
    this.#directory = directory
    this.#launcher = launcher
  }

  /** Builds the program in a directory of `dist`. */
  static async build(directory: string, flavour: Flavour = {}): Promise<FuzzProgram> {
    rmSync(directory, { recursive: true, force: true })
    mkdirSync(directory, { recursive: true })
    const path = join(directory, "fuzz")
    const run = { main: join(import.meta.dir, "fuzz.fixture.ts"), name: "run" }
    await buildFromBytecode(path, flavour, [{ name: "fuzz", run }])
    const program = new FuzzProgram(directory, await buildLauncher())
    // When the program calls another plugin of this suite, that plugin runs in the same process.
    mkdirSync(program.bin)
    for (const name of pluginNames) writePluginOfBuild(join(program.bin, name), name, path)
    for (const [name, script] of Object.entries(delegates)) {
      writeFileSync(join(program.bin, name), `#!/usr/bin/dash\n${script}\n`)
      chmodSync(join(program.bin, name), 0o755)
    }
    await mustRun(["mkdir", "-p", join(directory, "dev/net")])
    for (const [file, ...numbers] of devices) await mustRun(["mknod", join(directory, "dev", file), "c", ...numbers])
    return program
  }

  /** The plugins' `CNI_PATH`. It contains plugins of this suite, which run in the same process, and the `delegates`. */
  get bin(): string {
    return join(this.#directory, "bin")
  }

  /** Returns the command that runs a program with its own root directory. */
  inOwnRoot(program: string): [string, string[]] {
    const kept = [
      "/proc",
      "/sys",
      "/var/lib/cni",
      "/run/cni",
      "/run/netns",
      "/etc/alternatives",
      ...neededDirectories,
      builtPlugins,
    ]
    const there = [...new Set([...kept, this.#directory])].filter(existsSync)
    const directories = there.filter((path) => !there.some((other) => path.startsWith(`${other}/`)))
    const bound = directories.map((directory) => `${directory}=${directory}`)
    const options = [...bound, `${join(this.#directory, "dev")}=/dev`].flatMap((pair) => ["-b", pair])
    return [this.#launcher.path, [...options, program]]
  }

  /**
   * Runs cases in sequence in one process. If the process dies or hangs, throws an error with the case that it was
   * running.
   */
  async run(host: HostNamespace, cases: readonly Case[], timeoutMs = 1_200_000): Promise<Outcome> {
    const [file, args] = this.inOwnRoot(join(this.#directory, "fuzz"))
    const input = cases.map((one) => `${JSON.stringify(one)}\n`).join("")
    const { stdout, stderr, exitCode } = await host.tryExec(file, args, { input, timeoutMs })
    if (exitCode === 0) return JSON.parse(stdout) as Outcome
    const lines = stderr.trimEnd().split("\n")
    const at = lines.findLast((line) => /^\d+( \d+)?$/.test(line)) ?? ""
    const said = lines.slice(-30).join("\n")
    throw new Error(`exit code ${exitCode} at ${at}, ${JSON.stringify(cases[Number.parseInt(at, 10)])}\n${said}`)
  }

  /** Returns the kernel's answers to all requests of plugins, as cases. */
  async record(host: HostNamespace): Promise<Case[]> {
    const [file, args] = this.inOwnRoot(join(this.#directory, "fuzz"))
    const { stdout } = await host.exec(file, [...args, "record"])
    return stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Case)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#launcher[Symbol.asyncDispose]()
  }
}
