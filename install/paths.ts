import { decodeUtf8 } from "../pkg/engine/mod.ts"
import { dirname, findFile, findStat, isDirectory, join, readDirectory, unlessErrno } from "../pkg/libc/mod.ts"

/** The directories in a runtime's configuration: those of plugins in search order, and those of networks. */
export interface RuntimePlaces {
  /** The plugin directories. Empty if the file names only the directory of networks. */
  readonly binDirs: readonly string[]
  readonly confDir: string | undefined
  /** The path of the configuration file. */
  readonly file: string
}

/** How a runtime's TOML configuration names the directories: the table, and the keys in it. */
interface Dialect {
  readonly table: RegExp
  readonly binKeys: readonly string[]
  readonly confKey: string
}

const containerd: Dialect = {
  table: /^\[plugins\.['"]?io\.containerd\.(grpc\.v1\.cri|cri\.v1\.runtime)['"]?\.cni\]/,
  binKeys: ["bin_dirs", "bin_dir"],
  confKey: "conf_dir",
}
const crio: Dialect = {
  table: /^\[crio\.network\]/,
  binKeys: ["plugin_dirs"],
  confKey: "network_dir",
}

/**
 * The paths of runtimes' configurations. Files in a folder are read in order of name, and later ones override earlier
 * ones.
 */
const configurations: readonly (readonly [dialect: Dialect, ...paths: string[]])[] = [
  [containerd, "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"],
  [containerd, "/var/lib/rancher/rke2/agent/etc/containerd/config.toml"],
  [containerd, "/etc/containerd/config.toml", "/etc/containerd/conf.d"],
  [crio, "/etc/crio/crio.conf", "/etc/crio/crio.conf.d"],
]

/** Usual plugin directories: of kubeadm and most runtimes, Debian, Fedora, CRI-O on read-only systems, and k3s. */
const knownBinDirs = [
  "/opt/cni/bin",
  "/usr/lib/cni",
  "/usr/libexec/cni",
  "/var/lib/cni/bin",
  "/var/lib/rancher/k3s/data/cni",
]

/** Returns the directories in the configurations of this node's runtimes. `root` is prepended to every path. */
export function runtimePlaces(root = ""): RuntimePlaces[] {
  return configurations.flatMap(([dialect, ...paths]): RuntimePlaces[] => {
    let found: RuntimePlaces | undefined
    for (const { file, text } of paths.flatMap((path) => filesAt(root, path))) {
      const keys = readTable(text, dialect.table)
      const binDirs = dialect.binKeys.map((key) => keys[key] ?? []).find((values) => values.length > 0)
      const confDir = keys[dialect.confKey]?.[0]
      if (!binDirs && !confDir) continue
      found = {
        binDirs: binDirs?.map(withoutSlash) ?? found?.binDirs ?? [],
        confDir: confDir ? withoutSlash(confDir) : found?.confDir,
        file,
      }
    }
    return found ? [found] : []
  })
}

/** The directories of a node's plugins and networks. */
export interface NodeDirectories {
  readonly binDirs: readonly string[]
  readonly confDir: string
  /** Whether the configuration of a runtime names the plugin directories. */
  readonly isOfRuntime: boolean
  /** The configuration that names the directories, for messages: "as /etc/containerd/config.toml says". */
  readonly origin: string
}

const DEFAULT_BIN_DIR = "/opt/cni/bin"
const DEFAULT_CONF_DIR = "/etc/cni/net.d"

/** Returns the directories that this node's runtime reads: those in its configuration, or else existing usual ones. */
export function nodeDirectories(root = ""): NodeDirectories {
  const runtimes = runtimePlaces(root)
  const first = runtimes.find(({ binDirs }) => binDirs.length > 0)
  const known = first ? undefined : knownBinDir(root)
  return {
    binDirs: first?.binDirs ?? [known ?? DEFAULT_BIN_DIR],
    confDir: first?.confDir ?? runtimes.find(({ confDir }) => confDir)?.confDir ?? DEFAULT_CONF_DIR,
    isOfRuntime: first !== undefined,
    origin: first ? `as ${first.file} says` : known === undefined ? "the default" : "which exists",
  }
}

/** Returns a package's plugin directories by its tool directory: /usr/lib/cni and /usr/libexec/cni for /usr/bin. */
export function packagedBinDirs(toolDirectory: string): string[] {
  return ["lib", "libexec"].map((name) => join(dirname(toolDirectory), name, "cni"))
}

/** Returns the first usual plugin directory that exists, or `undefined`. */
export function knownBinDir(root = ""): string | undefined {
  return knownBinDirs.find((directory) => {
    const found = findStat(`${root}${directory}`)
    return found !== undefined && isDirectory(found)
  })
}

/** Returns the existing files that this user may read, with their content. */
function filesAt(root: string, path: string): { file: string; text: string }[] {
  const isFile = /\.(toml|conf)$/.test(path)
  const names = isFile ? [] : (unlessErrno(() => readDirectory(`${root}${path}`), ...UNREADABLE) ?? [])
  return (isFile ? [path] : names.sort().map((name) => `${path}/${name}`)).flatMap((file) => {
    const bytes = unlessErrno(() => findFile(`${root}${file}`), ...UNREADABLE)
    return bytes === undefined ? [] : { file, text: decodeUtf8(bytes) }
  })
}

const UNREADABLE = ["ENOENT", "ENOTDIR", "EACCES"] as const

const withoutSlash = (path: string) => path.replace(/(?!^)\/+$/, "")

/** Returns the strings of a TOML 1.0 table by key: single ones, or lists on one or several lines. Skips other types. */
function readTable(text: string, table: RegExp): Record<string, string[]> {
  const keys: Record<string, string[]> = {}
  let isInside = false
  const lines = text.split("\n").map((line) => line.trim())
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ""
    if (line.startsWith("[")) isInside = table.test(line)
    const [, key, start = ""] = /^([A-Za-z0-9_-]+) *= *(.*)$/.exec(line) ?? []
    if (!isInside || key === undefined) continue
    let value = start
    while (value.startsWith("[") && !value.includes("]") && at + 1 < lines.length) value += lines[++at] ?? ""
    keys[key] = [...value.replace(/ #.*$/, "").matchAll(/"([^"]*)"|'([^']*)'/g)].map(([, a, b]) => a ?? b ?? "")
  }
  return keys
}
