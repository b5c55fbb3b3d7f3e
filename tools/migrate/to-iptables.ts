import { type ErrorObject, type Owner, ownerComment } from "../../pkg/types/mod.ts"
import { attachmentsOf, type Node } from "../node/mod.ts"
import { type PluginRuns, reconcileAll } from "../reconcile/mod.ts"
import { isInTable, tableOf } from "./pods.ts"

/** The moved rules, such as "network/container/interface: masquerade", and the failures. */
export interface Moved {
  readonly moved: readonly string[]
  readonly failures: readonly string[]
}

/**
 * Moves masquerade, published ports and firewall rules of running pods from nf_tables to iptables, where the Go
 * plugins' DEL finds them. Calls each plugin in `runs.path` once. Rules in iptables stay unchanged. Throws
 * `SyscallError`.
 */
export function moveToIptables(node: Node, runs: PluginRuns): Moved {
  const attachments = new Map(attachmentsOf(node).map((one) => [ownerComment(one), one]))
  const isToMove = (type: string, comment: string) => {
    const [one, table] = [attachments.get(comment), tableOf(type)]
    return one !== undefined && table !== undefined && isInTable(one, table)
  }
  if (![...attachments.keys()].some((comment) => MOVING.some((type) => isToMove(type, comment))))
    return { moved: [], failures: [] }
  const isWanted = (type: string, owner: Owner) => isToMove(type, ownerComment(owner))
  const { cacheDir } = node.places
  const { cached, outcome } = reconcileAll({ cacheDir, toIptables: true, isWanted }, runs)
  return {
    moved: outcome.restored.map((one) => `${nameOf(one)}: ${one.what}`),
    failures: [
      ...outcome.failed.map((one) => `${one.plugin}: ${nameOf(one)}: ${describe(one.error)}`),
      ...cached.skipped.flatMap((one) => (one.isFailure ? [`${nameOf(one)}: ${one.reason}`] : [])),
    ],
  }
}

/** The plugins that move their rules, one for each table. */
const MOVING = ["bridge", "portmap", "firewall"]

function nameOf({ network, containerId, ifName }: Partial<Record<"network" | "containerId" | "ifName", string>>) {
  return [network, containerId, ifName].filter(Boolean).join("/")
}

function describe({ msg, details }: ErrorObject): string {
  return details ? `${msg}: ${details}` : msg
}
