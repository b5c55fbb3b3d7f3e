import { readFileSync, realpathSync, type Stats, statSync } from "node:fs"
import { dirname, join } from "node:path"
import { member } from "../../pkg/types/mod.ts"
import { ipamOf } from "../node/mod.ts"
import type { Check, Finding, Patient } from "./finding.ts"

/** A plugin's file, and what it says of itself when it is run without a command. */
export interface PluginBinary {
  readonly type: string
  readonly file: string
  readonly mode: number
  readonly owner: number
  /** "cni-plugins v0.1.0", "CNI bridge plugin v1.1.1"; undefined when it cannot be run. */
  readonly version?: string
}

/** A plugin that does not answer in this time is broken. */
const PATIENCE_MS = 5000

/** The plugins that a node's networks name, IPAM plugins included, each with the networks that need it. */
export function neededPlugins({ members }: Patient): Map<string, string[]> {
  const needed = new Map<string, string[]>()
  for (const { network, type, raw } of members) {
    const ipam = ipamOf(raw)
    const ipamType = ipam && member(ipam, "type")
    for (const name of [type, ...(typeof ipamType === "string" && ipamType !== "" ? [ipamType] : [])]) {
      const networks = needed.getOrInsert(name, [])
      if (!networks.includes(network)) networks.push(network)
    }
  }
  return needed
}

/** Finds a plugin in the directories and asks for its version; undefined when it is in none. */
export function inspectPlugin(type: string, directories: readonly string[]): PluginBinary | undefined {
  for (const directory of directories) {
    const file = join(directory, type)
    const found = statSync(file, { throwIfNoEntry: false })
    if (found?.isFile()) return { type, file, mode: found.mode & 0o7777, owner: found.uid, ...versionOf(file, found) }
  }
  return undefined
}

/** Ours says two lines on stderr, the reference suite's one. */
function versionOf(file: string, { mode }: Stats): { version?: string } {
  if ((mode & 0o111) === 0) return {}
  try {
    const { stderr } = Bun.spawnSync([file], { env: {}, stdin: "ignore", stdout: "ignore", timeout: PATIENCE_MS })
    const said = stderr.toString()
    const [version] = /^cni-plugins v[\w.+-]+/m.exec(said) ?? /^CNI .* v?[\w.+-]+$/m.exec(said) ?? []
    return version === undefined ? {} : { version }
  } catch {
    return {}
  }
}

/** The executables: are they there, may they be run, are they of one suite. */
export const checkPlugins: Check = (patient) => {
  const directories = patient.node.places.binDirs
  const found: Finding[] = []
  const suites = new Map<string, string[]>()
  for (const [type, networks] of neededPlugins(patient)) {
    const network = networks[0] ?? ""
    const about = { network, severity: "error" as const }
    const why = `no container can be attached to ${networks.map((name) => `"${name}"`).join(", ")}`
    const plugin = inspectPlugin(type, directories)
    if (!plugin) {
      const what = `plugin "${type}" is not in ${directories.join(", ")}`
      found.push({ ...about, rule: "plugin-missing", what, why, remedy: `cni install --bin-dir ${directories[0]}` })
      continue
    }
    const { file, mode, owner, version } = plugin
    const shown = `"${file}" (mode ${mode.toString(8)})`
    if ((mode & 0o111) === 0) {
      const rule = "plugin-not-executable"
      found.push({ ...about, rule, what: `${shown} may not be executed`, why, remedy: `chmod 755 ${file}` })
    } else if (isNoexec(file)) {
      const remedy = `mount -o remount,exec ${dirname(file)}, or install them elsewhere and set the runtime's bin_dir`
      found.push({
        ...about,
        rule: "plugin-noexec",
        what: `${shown} lies on a file system that is mounted noexec`,
        why,
        remedy,
      })
    } else if (version === undefined) {
      const what = `${shown} does not say which version it is, as plugins do when they are run without CNI_COMMAND`
      found.push({
        ...about,
        severity: "warning",
        rule: "plugin-broken",
        what,
        why: "it may be damaged, or of another machine",
        remedy: `run it by hand; file ${file}`,
      })
    } else suites.getOrInsert(suiteOf(version), []).push(type)
    if ((mode & 0o022) !== 0 || owner !== 0) {
      const what = `${shown} of user ${owner} can be changed by others than root`
      found.push({
        ...about,
        severity: "warning",
        rule: "plugin-writable",
        what,
        why: "it runs as root for every container",
        remedy: `chown root ${file}; chmod 755 ${file}`,
      })
    }
  }
  if (suites.size > 1) found.push(mixed(suites))
  return found
}

/** "CNI bridge plugin v1.1.1" is "reference plugins v1.1.1". */
function suiteOf(version: string): string {
  return version.replace(/^CNI .* (v?[\w.+-]+)$/, "reference plugins $1")
}

function mixed(suites: ReadonlyMap<string, readonly string[]>): Finding {
  const parts = [...suites].map(([suite, types]) => `${types.join(", ")}: ${suite}`)
  return {
    rule: "plugins-mixed",
    severity: "warning",
    what: `plugins of several suites or versions work together (${parts.join("; ")})`,
    why: "it works, and is not what was tested together; after an upgrade that stopped half-way it is a mistake",
    remedy: "cni install writes all of one version",
  }
}

/** Whether the mount that a file is on has noexec, proc_pid_mountinfo(5). */
function isNoexec(file: string): boolean {
  const path = realpathSync(file)
  let best = { point: "", options: "" }
  for (const line of readFileSync("/proc/self/mountinfo", "utf8").split("\n")) {
    const [, , , , point = "", options = ""] = line.split(" ")
    const isOn = point === "/" || path === point || path.startsWith(`${point}/`)
    if (isOn && point.length >= best.point.length) best = { point, options }
  }
  return best.options.split(",").includes("noexec")
}
