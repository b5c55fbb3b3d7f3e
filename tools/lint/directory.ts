import { basename, dirname, isErrno, join, readEntries, readTextFile, unlessErrno } from "../../pkg/libc/mod.ts"
import { isManifest } from "./attachments.ts"
import { nodeAt } from "./document.ts"
import { type Findings, readSources, type Source } from "./findings.ts"
import type { LintNetwork } from "./network.ts"

/** Reads the network files and manifests of a directory, in the order of their names as runtimes do. */
export function sourcesIn(directory: string): Source[] {
  return filesIn(directory)
    .filter((name) => isNetworkFile(name) || isManifest(name))
    .flatMap((name) => {
      const sources = readSourceFile(join(directory, name))
      return isNetworkFile(name) ? sources : sources.filter(({ attachment }) => attachment !== undefined)
    })
}

/** Reads one file. If it cannot be read, as a FIFO, returns a source with the reason. */
export function readSourceFile(file: string): Source[] {
  try {
    return readSources(file, readTextFile(file))
  } catch (error) {
    if (!isErrno(error)) throw error
    const unread = error.errno === "EINVAL" ? "it is not a regular file" : error.message
    return [{ file, text: "", tree: undefined, unread }]
  }
}

/** Reads the plugins of a network from the directory that has the network's name and is next to its file. */
export function besideNetwork(file: string, network: string): Source[] {
  if (network === "" || network.includes("/")) return []
  const directory = join(dirname(file), network)
  return filesIn(directory)
    .filter((name) => name.endsWith(".conf"))
    .flatMap((name) => readSourceFile(join(directory, name)))
}

function filesIn(directory: string): string[] {
  const entries = unlessErrno(() => readEntries(directory), "ENOENT", "ENOTDIR") ?? []
  return entries.flatMap(({ name, isDirectory }) => (isDirectory ? [] : [name])).sort((a, b) => (a < b ? -1 : 1))
}

function isNetworkFile(name: string): boolean {
  return /\.(conflist|conf|json)$/.test(name)
}

/** Names that look like network files but that runtimes ignore: copies by editors and package managers, and YAML. */
const looksLikeOne = /\.(conflist|conf|json)[.~_-]|\.(ya?ml|conflist\d|cfg)$/i

export function checkDirectory(directory: string, all: readonly LintNetwork[], findings: Findings): void {
  const networks = all.filter(({ source }) => source.attachment === undefined)
  const manifests = all.filter((each) => !networks.includes(each)).map(({ source }) => source.file)
  for (const name of filesIn(directory).filter((each) => !isNetworkFile(each) && looksLikeOne.test(each))) {
    const file = { file: join(directory, name), text: "" }
    if (manifests.includes(file.file)) continue
    findings.add(
      file,
      undefined,
      "ignored-file",
      "no runtime reads this file: its name does not end with .conflist, .conf or .json",
      {
        hint: "rename it, or move it out of this directory",
      },
    )
  }
  const seen = new Map<string, LintNetwork>()
  for (const network of networks) {
    const other = seen.get(network.name)
    if (other === undefined) seen.set(network.name, network)
    else if (network.name !== "") {
      const message = `${basename(other.source.file)} also has a network "${network.name}": the runtime decides which one it uses`
      findings.add(network.source, nodeAt(network.source.tree, ["name"]), "shadowed-network", message)
    }
  }
  const [first] = networks
  const others = [...seen.keys()].filter((name) => name !== first?.name)
  if (first === undefined || others.length === 0) return
  const message = `containerd and CRI-O use the first file for pods: network "${first.name}", not ${others.map((name) => `"${name}"`).join(", ")}`
  findings.add(first.source, undefined, "file-order", message, {
    hint: "files are sorted by name; Multus, podman, nerdctl and cni find the other networks by their names",
  })
}
