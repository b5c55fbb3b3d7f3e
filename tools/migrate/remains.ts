import { lockStore } from "../../ipam/host-local/main.ts"
import { removeAcceptMarked, removeLabels } from "../../meta/firewall/main.ts"
import { findStat, isDirectory, readDirectory, readEntries, tryRemoveDirectory, tryUnlink } from "../../pkg/libc/mod.ts"
import { deleteLink, findLink, RouteSocket } from "../../pkg/netlink/mod.ts"
import { atomically, listCommented, listTables, PacketFilter, remove, type Table } from "../../pkg/nftables/mod.ts"
import { DELETIONS, findExposure, ownerOfRecord } from "../../pkg/records/mod.ts"
import { messageOf, ownerComment } from "../../pkg/types/mod.ts"
import { attachmentsOf, deleteRulesOf, type Node, type NodeAttachment } from "../node/mod.ts"

/** An object of this suite that stays on the node after the switch back. */
export interface Remaining {
  /** The object: "table bridge cni_spoofcheck", "/run/cni/tuning/pods:4e5f6a:eth0.json". */
  readonly what: string
  /** The attachments that need the object, as "network/container/interface". */
  readonly of: readonly string[]
  /** When the object is removed. */
  readonly goes: string
}

const BACKUPS = "/run/cni/tuning"
const DEVICES = "/run/cni/host-device"
const WITH_POD = "when this command runs after the pods are deleted"

/**
 * Removes objects of this suite that no pod needs: tables without attachments, rules and backups of deleted containers,
 * labels. Continues after errors. Returns the removed objects, the remaining objects, and the failures.
 */
export function sweep(node: Node): { removed: string[]; remaining: Remaining[]; failures: string[] } {
  const removed: string[] = []
  const failures: string[] = []
  const attempt = (act: () => readonly string[]) => {
    try {
      removed.push(...act())
    } catch (error) {
      failures.push(messageOf(error))
    }
  }
  const isLiving = livingOwners(node)
  for (const one of attachmentsOf(node).filter((one) => isAbandoned(one))) attempt(() => removeRules(one))
  attempt(() => removeTables(isLiving))
  attempt(labels)
  attempt(() => removeLinks(node, isLiving))
  attempt(() => removeFiles(BACKUPS, isLiving))
  attempt(() => removeFiles(DELETIONS, () => false))
  for (const { directory } of node.stores) attempt(() => removeIndex(directory))
  return { removed, remaining: remaining(), failures }
}

/** Returns a function that reports whether a comment names an attachment with a record, an interface or a namespace. */
function livingOwners(node: Node): (comment: string) => boolean {
  const living = attachmentsOf(node).filter(({ cached, link, isAlive }) => cached || isAlive || link?.kind === "veth")
  const comments = new Set(living.map(ownerComment))
  return (comment) => comments.has(comment)
}

/** Reports whether a deleted container still has nf_tables rules, which the Go plugins' DEL would leave. */
function isAbandoned({ cached, isAlive, rules }: NodeAttachment): boolean {
  return cached !== undefined && isAlive === false && rules.some(({ place }) => OURS.test(place))
}

const OURS = /^\w+ cni_(masquerade|hostports|firewall|spoofcheck)\b/

function removeRules(one: NodeAttachment): string[] {
  deleteRulesOf(one)
  return [`rules of ${ownerComment(one)}, whose container was deleted`]
}

/** Returns the tables of this suite with the owners that their content names. */
function tables(filter: PacketFilter | undefined): { table: Table; owners: string[] }[] {
  if (!filter) return []
  const { socket } = filter
  const ours = listTables(socket).filter(({ family, name }) => OURS.test(`${family} ${name}`))
  return ours.map((table) => {
    const isThis = ({ family, name }: Table) => family === table.family && name === table.name
    const { rules, elements } = listCommented(socket, (comment) => comment.split("/").length === 3, isThis)
    return { table, owners: [...new Set([...rules, ...elements].map(({ comment }) => comment.split(" ")[0] ?? ""))] }
  })
}

/** Removes tables without owners in the same transaction as the check, so that a concurrent ADD keeps its table. */
function removeTables(isLiving: (owner: string) => boolean): string[] {
  using filter = PacketFilter.find()
  if (!filter) return []
  let gone: Table[] = []
  const plan = () => {
    gone = tables(filter).flatMap(({ table, owners }) => (owners.some(isLiving) ? [] : [table]))
    return gone.map(remove.table)
  }
  if (plan().length > 0) atomically(filter.socket, plan)
  return gone.map(({ family, name }) => `table ${family} ${name}`)
}

/** Removes labels of firewall in iptables. */
function labels(): string[] {
  using filter = PacketFilter.find()
  removeAcceptMarked(filter, "CNI-ADMIN")
  return removeLabels(filter?.socket) ? ["chain CNI-FIREWALL-OWNERS of iptables"] : []
}

/** Removes ifb devices of deleted containers, because the Go plugin's DEL finds only one for each container. */
function removeLinks({ links }: Node, isLiving: (owner: string) => boolean): string[] {
  const gone = links.filter(({ kind, nsid, alias = "" }) => {
    return kind === "ifb" && nsid === undefined && alias.split("/").length === 3 && !isLiving(alias)
  })
  if (gone.length === 0) return []
  using host = RouteSocket.open()
  return gone.flatMap(({ name, alias }) => {
    const link = findLink(host, name)
    if (!link || link.attributes.alias !== alias) return []
    deleteLink(host, link)
    return [`interface ${name}`]
  })
}

/** Returns the names in a directory. Returns none if users other than root can change the directory. */
function namesIn(directory: string): string[] {
  const found = findStat(directory, true)
  return found && isDirectory(found) && findExposure(directory) === undefined ? readDirectory(directory) : []
}

/** Removes the files of deleted attachments in a directory and its subdirectories, and then empty directories. */
function removeFiles(directory: string, isKept: (owner: string) => boolean): string[] {
  const removed: string[] = []
  for (const name of namesIn(directory)) {
    const path = `${directory}/${name}`
    const owner = ownerOfRecord(name)
    if (owner && !isKept(ownerComment(owner)) && tryUnlink(path)) removed.push(path)
    else if (!owner) removed.push(...removeFiles(path, isKept))
  }
  tryRemoveDirectory(directory)
  return removed
}

/** Removes the index of a host-local store. host-local rebuilds it from the reservations. */
function removeIndex(store: string): string[] {
  const index = `${store}/.index`
  const found = findStat(index, true)
  if (!found || !isDirectory(found)) return []
  using _lock = lockStore(store)
  removeTree(index)
  return [index]
}

function removeTree(directory: string): void {
  for (const { name, isDirectory } of readEntries(directory)) {
    const path = `${directory}/${name}`
    if (isDirectory) removeTree(path)
    else tryUnlink(path)
  }
  tryRemoveDirectory(directory)
}

/** Returns this suite's objects on the node. Changes nothing. Throws `NetlinkError`. */
export function remaining(): Remaining[] {
  using filter = PacketFilter.find()
  const inTables = tables(filter).map(({ table: { family, name }, owners }) => ({
    what: `table ${family} ${name}`,
    of: owners,
    goes: WITH_POD,
  }))
  const records = [BACKUPS, DEVICES].flatMap((directory) =>
    namesIn(directory).flatMap((name) => {
      const owner = ownerOfRecord(name)
      const goes = directory === DEVICES ? `cni gc ${owner?.network} --auto, after the pod is deleted` : WITH_POD
      return owner ? [{ what: `${directory}/${name}`, of: [ownerComment(owner)], goes }] : []
    }),
  )
  return [...inTables, ...records]
}
