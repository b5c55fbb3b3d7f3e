import { didYouMean } from "../pkg/config/mod.ts"
import { type Node, type NodeAttachment, readNetworks } from "./node/mod.ts"

/** A network that a command is about has to be one of those that there are. Throws with their list: a slip is not a network without anything. */
export function requireNetwork(name: string | undefined, known: Iterable<string>): void {
  const names = [...new Set(known)].sort()
  if (name === undefined || names.includes(name)) return
  const meant = didYouMean(name, names)
  const list = names.length === 0 ? "there are no networks" : `there are ${names.map((each) => `"${each}"`).join(", ")}`
  throw new Error(
    `Cannot find network "${name}": no configuration and no attachment has the name${meant === undefined ? "" : `, did you mean "${meant}"?`}; ${list}`,
  )
}

/** The networks of a node, by files and by attachments; with `name` where a file cannot be read, which may have that network. */
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

/** The networks of a directory's files; none where there is no directory. */
export function configuredNetworks(confDir: string, name?: string): string[] {
  try {
    return networksOf({ networks: readNetworks(confDir) }, [], name)
  } catch {
    return []
  }
}
