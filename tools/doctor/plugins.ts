import { dirname } from "../../pkg/libc/mod.ts"
import { member } from "../../pkg/types/mod.ts"
import { describedPlugins as suite } from "../../suite/plugins.ts"
import { ipamOf } from "../node/mod.ts"
import { isPluginName } from "./binaries.ts"
import { type Check, type DoctorInput, type Finding, installCommand } from "./finding.ts"
import { mountOf } from "./mounts.ts"
import { type Command, sh } from "./remedy.ts"

/** Returns the plugins that networks use, including IPAM plugins, with the names of these networks. */
export function neededPlugins({ members }: DoctorInput): Map<string, string[]> {
  const needed = new Map<string, string[]>()
  for (const { network, raw } of members) {
    const [type, ipam] = [member(raw, "type"), ipamOf(raw)]
    const ipamType = ipam && member(ipam, "type")
    for (const name of [type, ipamType]) {
      if (typeof name !== "string" || name === "") continue
      const networks = needed.getOrInsert(name, [])
      if (!networks.includes(network)) networks.push(network)
    }
  }
  return needed
}

/** Checks the files of the plugins: whether they exist, are executable, and are part of one suite. */
export const checkPlugins: Check = (input) => {
  const directories = input.node.places.binDirs
  const found: Finding[] = []
  const suites = new Map<string, string[]>()
  for (const [type, networks] of neededPlugins(input)) {
    const plugin = input.plugin(type)
    const why = `no container can be attached to ${networks.map((name) => `"${name}"`).join(", ")}`
    const add = (fault: Omit<Finding, "severity" | "why"> & Partial<Finding>) => {
      const about = { severity: "error" as const, why, affected: [{ name: `"${type}"` }] }
      found.push(...networks.map((network): Finding => ({ ...about, network, ...fault })))
    }
    if (!isPluginName(type)) {
      add({
        rule: "plugin-missing",
        what: `"${type}" is not the name of a plugin: expected a file name without a directory`,
        remedy: `correct the "type" in the network's configuration: ${sh`cni lint`.line} shows its place`,
      })
      continue
    }
    if (!plugin) {
      add({
        rule: "plugin-missing",
        cause: `${ofThisSuite(type)} in ${directories.join(", ")}`,
        what: `plugin "${type}" is not in ${directories.join(", ")}`,
        ofMany: (count) => `${count} plugins are not in ${directories.join(", ")}`,
        remedy: install(input, type, directories[0]),
      })
      continue
    }
    const { file, mode, owner, version, isPlugin = false, unstartable } = plugin
    const shown = `"${file}" (mode ${mode.toString(8)})`
    const files = [file]
    const directory = dirname(file)
    const { point, options } = mountOf(file)
    const isExecutable = (mode & 0o111) !== 0
    if (!isExecutable) {
      add({
        rule: "plugin-not-executable",
        cause: directory,
        what: `${shown} is not executable`,
        ofMany: (count) => `${count} plugins in "${directory}" are not executable`,
        remedy: sh`chmod 755 ${files}`,
      })
    } else if (options.includes("noexec")) {
      add({
        rule: "plugin-noexec",
        cause: point,
        what: `${shown} is on a file system mounted with noexec`,
        ofMany: (count) => `${count} plugins are on "${point}", which is mounted with noexec`,
        remedy: `install them elsewhere and set the runtime's bin_dir, or mount the file system without noexec: ${sh`findmnt ${point}`.line} shows its mount options`,
      })
    } else if (unstartable !== undefined) {
      add({
        rule: "plugin-not-runnable",
        cause: `${ofThisSuite(type)} in ${directory}`,
        what: `${shown} cannot be started: ${unstartable}`,
        ofMany: (count) => `${count} plugins in "${directory}" cannot be started`,
        remedy: install(input, type, directory, "replace"),
        note: "it is damaged, or built for another machine",
      })
    } else if (version === undefined) {
      // Multus and plugins of other projects print their own versions.
      if (!isPlugin || ofThisSuite(type) !== type)
        add({
          rule: "plugin-broken",
          severity: "warning",
          cause: `${ofThisSuite(type)} in ${directory}`,
          what: `${shown} does not report its version, as plugins do when they run without CNI_COMMAND`,
          ofMany: (count) => `${count} plugins in "${directory}" do not report their versions`,
          why: "it may be damaged, or built for another machine",
          remedy: install(input, type, directory, "replace"),
        })
    } else suites.getOrInsert(suiteOf(version), []).push(type)
    if ((mode & 0o022) !== 0 || owner !== 0) {
      add({
        rule: "plugin-writable",
        severity: "warning",
        cause: directory,
        what: `${shown} of user ${owner} can be changed by users other than root`,
        ofMany: (count) => `${count} plugins in "${directory}" can be changed by users other than root`,
        why: "it runs as root for every container",
        remedy: sh`chown root:root ${files}; chmod ${isExecutable ? "go-w" : "755"} ${files}`,
      })
    }
  }
  if (suites.size > 1) found.push(mixed(input, suites, directories[0]))
  return found
}

function ofThisSuite(type: string): string {
  return suite.some(({ name }) => name === type) ? "this suite" : type
}

/** Returns the command that installs a plugin of this suite, or a sentence for other plugins. */
function install(input: DoctorInput, type: string, directory = "/opt/cni/bin", how?: "replace"): Command | string {
  if (ofThisSuite(type) === type)
    return `install the plugin "${type}", which is not part of this suite, into ${directory}`
  return installCommand(input, directory, how === "replace")
}

/** Returns the suite and its version, such as "reference plugins v1.1.1" for "CNI bridge plugin v1.1.1". */
function suiteOf(version: string): string {
  return version.replace(/^CNI \S+ plugin (?:version )?(.+)$/, "reference plugins $1")
}

function mixed(
  input: DoctorInput,
  suites: ReadonlyMap<string, readonly string[]>,
  directory = "/opt/cni/bin",
): Finding {
  const types = [...suites.values()].flat()
  const parts = [...suites].map(([suite, types]) => `${types.join(", ")}: ${suite}`)
  const others = types.filter((type) => ofThisSuite(type) === type)
  return {
    rule: "plugins-mixed",
    severity: "warning",
    what: `plugins of several suites or versions are mixed (${parts.join("; ")})`,
    why: "they work, but were not tested together; an interrupted upgrade may have left them",
    affected: types.map((type) => ({ name: `"${type}"` })),
    ofMany: () => `plugins of several suites or versions are mixed (${parts.join("; ")})`,
    remedy:
      others.length === 0
        ? installCommand(input, directory, true)
        : `cni install --bin-dir ${directory} --adopt writes those of this suite; install the matching release of ${others.join(", ")}`,
  }
}
