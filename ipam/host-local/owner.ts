/** Whom an address is reserved for. */
export interface Owner {
  readonly containerId: string
  /** "" in reservations made before 2019, which hold for all interfaces of a container. */
  readonly ifName: string
}

/** What the file of a reservation holds: upstream's format, byte for byte. */
export function formatOwner({ containerId, ifName }: Owner): string {
  return ifName === "" ? containerId.trim() : `${containerId.trim()}\r\n${ifName}`
}

/**
 * Reads the file of a reservation. "torn": nothing, or zero bytes, as after a power cut. "foreign": nobody's format, such
 * as a note of the operator's.
 */
export function parseOwner(text: string): Owner | "torn" | "foreign" {
  const trimmed = text.replaceAll("\0", "").trim()
  if (trimmed === "") return "torn"
  const [, containerId, ifName = ""] = /^([A-Za-z0-9][\w.-]*)(?:\r\n([^\s/]+))?$/.exec(trimmed) ?? []
  return containerId === undefined ? "foreign" : { containerId, ifName }
}

/** Whether a reservation of `holder` is one of `owner`: by container and interface, or an old one by container alone. */
export function isHeldBy(holder: Owner | "torn" | "foreign", owner: Owner): boolean {
  if (typeof holder === "string" || holder.containerId !== owner.containerId) return false
  return holder.ifName === owner.ifName || holder.ifName === ""
}

/** "container abc, interface eth0" */
export function describeOwner({ containerId, ifName }: Owner): string {
  return ifName === "" ? `container ${containerId}` : `container ${containerId}, interface ${ifName}`
}

/** Where the tool comes from that errors tell people to use: no plugin needs it, so a node may not have it. */
export const toolHint = '("cni" is put on a node by "cni install --tool-dir")'
