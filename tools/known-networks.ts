import { didYouMean } from "../pkg/config/mod.ts"
import { type Node, type NodeAttachment, readNetworks } from "./node/mod.ts"

/** Throws an error with the list of networks if it lacks `name`. `none` is the message for an empty list. */
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

/** Returns a list in words: 'there are "lan", "pods"'. */
export function listOfNetworks(names: Iterable<string>): string {
  const quoted = [...new Set(names)].sort().map((each) => `"${each}"`)
  return quoted.length === 0 ? "no network exists" : `there are ${quoted.join(", ")}`
}

/** Returns the node's networks, by files and attachments, and `name` if an unreadable file may contain it. */
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

/** Returns the names of the networks in a directory, or none if the directory does not exist. */
export function configuredNetworks(confDir: string, name?: string): string[] {
  try {
    return networksOf({ networks: readNetworks(confDir) }, [], name)
  } catch {
    return []
  }
}
