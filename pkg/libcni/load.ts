import { basename, dirname, isErrno, isRegularFile, join, readEntries, readFile, stat } from "../libc/mod.ts"
import { CniError, Code } from "../types/mod.ts"
import type { Network } from "./network.ts"
import { type NetworkList, parseNetworkList, parsePlugin, parseSinglePlugin } from "./parse.ts"

/** A network file that cannot be used, and the reason. */
export interface BrokenFile {
  readonly file: string
  readonly reason: string
}

/**
 * Finds the network `name` in a directory such as /etc/cni/net.d. Searches the `.conflist` files in the order of their
 * names, then the `.conf` and `.json` files. A broken file does not hide later networks: it becomes a warning of the
 * network that is found, or part of the error if none is found. Throws code 7.
 */
export function loadNetwork(directory: string, name: string): Network {
  const files = networkFiles(directory)
  if (files.length === 0) throw invalid(`no net configurations found in ${directory}`)

  const broken: BrokenFile[] = []
  const others = new Set<string>()
  for (const file of files) {
    try {
      const network = loadNetworkFile(file)
      if (network.name !== name) {
        others.add(network.name)
        continue
      }
      return { ...network, warnings: [...network.warnings, ...broken.map((one) => `Skipped ${describe(one)}`)] }
    } catch (error) {
      broken.push({ file, reason: String(error) })
    }
  }
  const details = [
    ...broken.map((one) => `cannot use ${describe(one)}`),
    others.size > 0 ? `networks there: ${[...others].join(", ")}` : "no usable network there",
  ]
  throw invalid(`no net configuration with name "${name}" in ${directory}`, details.join("; "))
}

/** Returns the names of usable networks in a directory, without duplicates. Throws code 5 if it cannot be listed. */
export function networkNames(directory: string): string[] {
  const names = networkFiles(directory).flatMap((file) => {
    try {
      return [loadNetworkFile(file).name]
    } catch {
      return []
    }
  })
  return [...new Set(names)].sort()
}

/** Loads a network file: a single plugin, or a list and the plugins in `NETWORK/*.conf`. Throws codes 6 and 7. */
export function loadNetworkFile(file: string): Network {
  if (extensionOf(file) !== ".conflist") return parseSinglePlugin(readRegular(file))
  const list = parseNetworkList(readRegular(file))
  if (list.loadOnlyInlinedPlugins && !list.inlined) {
    throw invalid(`Cannot use network "${list.name}": 'loadOnlyInlinedPlugins' is true and there are no 'plugins'`)
  }
  const plugins = [...list.plugins, ...(list.loadOnlyInlinedPlugins ? [] : directoryPlugins(file, list))]
  if (plugins.length === 0) throw invalid(`Cannot use network "${list.name}": no plugin configs found`)
  return { ...list, plugins }
}

/**
 * Reads a regular file. Refuses other files, because opening a FIFO would wait for a writer, forever and even after a
 * signal. Throws code 7.
 */
function readRegular(file: string): Uint8Array {
  if (!isRegularFile(stat(file))) throw invalid(`Cannot use "${file}": it is not a regular file`)
  return readFile(file)
}

function directoryPlugins(file: string, list: NetworkList): Network["plugins"] {
  return filesIn(join(dirname(file), list.name), [".conf"]).map((plugin) => {
    try {
      return { ...parsePlugin(readRegular(plugin)), fromDirectory: true }
    } catch (cause) {
      throw new CniError(Code.InvalidNetworkConfig, `Cannot use plugin file "${plugin}"`, { cause })
    }
  })
}

/** Returns the network files in a directory, in the order in which `loadNetwork` reads them. */
export function networkFiles(directory: string): string[] {
  return [...filesIn(directory, [".conflist"]), ...filesIn(directory, [".conf", ".json"])]
}

/** Returns the files directly in a directory with these extensions, sorted as text; none if it does not exist. */
function filesIn(directory: string, extensions: string[]): string[] {
  try {
    return readEntries(directory)
      .filter((entry) => !entry.isDirectory && extensions.includes(extensionOf(entry.name)))
      .map((entry) => join(directory, entry.name))
      .sort((a, b) => (a < b ? -1 : 1))
  } catch (cause) {
    if (isErrno(cause, "ENOENT")) return []
    throw new CniError(Code.Io, `Cannot list "${directory}"`, { cause })
  }
}

/** Returns a file's extension, from the last dot on: ".conf". Returns "" if its only dot is at the beginning. */
function extensionOf(file: string): string {
  const name = basename(file)
  const at = name.lastIndexOf(".")
  return at > 0 ? name.slice(at) : ""
}

function describe({ file, reason }: BrokenFile): string {
  return `${basename(file)}: ${reason}`
}

function invalid(message: string, details?: string): CniError {
  return new CniError(Code.InvalidNetworkConfig, message, details === undefined ? {} : { details })
}
