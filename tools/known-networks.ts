import { didYouMean } from "../pkg/config/mod.ts"
import { type Node, type NodeAttachment, readNetworks } from "./node/mod.ts"

/** Throws with the list of networks unless it includes `name`. `none` describes the search for an empty list. */
export function requireNetwork(
  name: string | undefined,
  known: Iterable<string>,
  none = "no configuration and no attachment",
): void {
  const names = [...new Set(known)].sort()
  if (name === undefined || names.includes(name)) return
  const meant = didYouMean(name, names)
  const list = listOfNetworks(names)
  throw new Error(
    `Cannot find network "${name}": ${none} has the name${meant === undefined ? "" : `, did you mean "${meant}"?`}; ${list}`,
  )
}

/** Returns 'there are "lan", "pods"'. */
export function listOfNetworks(names: Iterable<string>): string {
  const quoted = [...new Set(names)].sort().map((each) => `"${each}"`)
  return quoted.length === 0 ? "no network exists" : `there are ${quoted.join(", ")}`
}

/**
 * Returns the networks of a node, by files and by attachments. Includes `name` if a file is unreadable, because it may
 * contain that network.
 */
export function networksOf(
  { networks }: Pick<Node, "networks">,
  attachments: readonly Pick<NodeAttachment, "network">[],
  name?: string,
): string[] {
  const ofFiles = networks.map(({ network }) => network?.name)
  const isOpen = name !== undefined && ofFiles.includes(undefined)
  return [
    ...ofFiles.flatMap((each) => each ?? []),
    ...attachments.map(({ network }) => network),
    ...(isOpen ? [name] : []),
  ]
}

/** Returns the networks of a directory's files, or none without the directory. */
export function configuredNetworks(confDir: string, name?: string): string[] {
  try {
    return networksOf({ networks: readNetworks(confDir) }, [], name)
  } catch {
    return []
  }
}
