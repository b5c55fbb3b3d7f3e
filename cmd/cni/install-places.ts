import {
  type Installation,
  nodeDirectories,
  requireExecutable,
  requireVersion,
  runtimePlaces,
} from "../../install/mod.ts"
import { basename, dirname, executablePath, exists, join, resolve } from "../../pkg/libc/mod.ts"
import { loadNetworkFile, type Network } from "../../pkg/libcni/mod.ts"
import { type Arguments, given, text, UsageError } from "../../tools/command.ts"
import { defaults } from "../../tools/environment.ts"
import { type InstallationManner, pluginInstallation } from "../../tools/plugin-source.ts"

export interface InstallPlace {
  readonly title: "PLUGIN" | "TOOL" | "CONFIGURATION"
  readonly directory: string
  readonly mode: number
  readonly adopt: boolean
  readonly dryRun: boolean
  /** Returns the installation. Throws if source files are missing. */
  readonly installation: () => Installation
}

/** The directories to install into: plugins first, configuration last. */
export interface InstallPlaces {
  readonly binDir: string
  readonly confDir: string
  /** The configuration that names the directories, for messages. Undefined if the user gave the directories. */
  readonly origin: string | undefined
  readonly places: readonly InstallPlace[]
  readonly config: { readonly file: string; readonly network: Network } | undefined
}

/** Returns the directories from flags, or else from the runtimes' files. Throws a usage error if runtimes differ. */
export function installPlaces(args: Arguments): InstallPlaces {
  const found = findDirectories(args)
  const { binDir, confDir } = found
  const common = { adopt: given(args, "adopt"), dryRun: given(args, "dry-run") }
  const toolDir = text(args, "tool-dir")
  const isShared = toolDir !== undefined && resolve(toolDir) === binDir
  const installation = () => (isShared ? pluginsAndTools : pluginInstallation)({ ...common, directory: binDir })
  const places: InstallPlace[] = [{ ...common, title: "PLUGIN", directory: binDir, mode: 0o755, installation }]
  if (toolDir !== undefined && !isShared) {
    const directory = resolve(toolDir)
    const installation = () => tools({ ...common, directory })
    places.push({ ...common, title: "TOOL", directory, mode: 0o755, installation })
  }
  const asked = text(args, "config")
  const file = asked === undefined ? undefined : resolve(asked)
  const config = file === undefined ? undefined : { file, network: loadNetworkFile(file) }
  if (file !== undefined || exists(`${confDir}/.cni-install`)) {
    const installation = () => configuration({ ...common, directory: confDir }, file)
    places.push({ ...common, title: "CONFIGURATION", directory: confDir, mode: 0o644, installation })
  }
  for (const [at, { directory }] of places.entries())
    if (places.findIndex((place) => place.directory === directory) < at)
      throw new UsageError(`cannot use ${directory} twice: plugins, tools and configurations need separate directories`)
  return { ...found, places, config }
}

function findDirectories(args: Arguments): Pick<InstallPlaces, "binDir" | "confDir" | "origin"> {
  const [binDir, confDir] = [text(args, "bin-dir"), text(args, "conf-dir")]
  const found = nodeDirectories()
  if (binDir !== undefined)
    return { binDir: resolve(binDir), confDir: resolve(confDir ?? found.confDir), origin: undefined }
  const runtimes = runtimePlaces().filter(({ binDirs }) => binDirs.length > 0)
  const [first] = runtimes
  const other = runtimes.find(({ binDirs }) => binDirs[0] !== first?.binDirs[0])
  if (first && other) {
    const uses = [first, other].map(({ binDirs, file }) => `${binDirs[0]} (${file})`)
    throw new UsageError(`cannot choose a directory: runtimes use ${uses.join(" and ")}; name one with --bin-dir`)
  }
  return {
    binDir: found.binDirs[0] ?? defaults.binDir,
    confDir: resolve(confDir ?? found.confDir),
    origin: found.origin,
  }
}

function tools(common: InstallationManner): Installation {
  const own = executablePath()
  const from = dirname(own)
  const agent = join(from, "cni-agent")
  const names = ["cni", "cnitool", ...(exists(agent) ? ["cni-agent"] : [])]
  const source = (name: string) => (name === "cni-agent" ? agent : own)
  return { ...common, inspect: requireExecutable, from, source, names }
}

/** Returns an installation of plugins and tools in one directory, as in a container image. */
function pluginsAndTools(common: InstallationManner): Installation {
  const [ours, beside] = [pluginInstallation(common), tools(common)]
  const isTool = (name: string) => beside.names.includes(name)
  return {
    ...ours,
    names: [...ours.names, ...beside.names],
    source: (name) => (isTool(name) ? beside : ours).source(name),
    introduce: (file) => (isTool(basename(file)) ? undefined : requireVersion(file)),
  }
}

function configuration(common: InstallationManner, file: string | undefined): Installation {
  if (file === undefined) return { ...common, mode: 0o644, from: "", source: (name) => name, names: [] }
  return { ...common, mode: 0o644, from: dirname(file), source: () => file, names: [basename(file)] }
}
