import type { PoolFile } from "../../ipam/host-local/main.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import { CniError, messageOf } from "../../pkg/types/mod.ts"
import { formatPrefix, parsePrefix } from "../blocks.ts"
import { StoreError } from "../store.ts"
import type { Surroundings } from "./surroundings.ts"

/** The blocks of a node that its cluster chooses: `Node.spec.podCIDRs`. */
export interface PodCidrs {
  /** The CNI network, whose name the pool has, too. */
  readonly network: string
  /** The prefixes of this node: first those that it has, then all after each change. Throws `StoreError`: it is followed again. */
  follow(signal: AbortSignal): AsyncIterable<readonly string[]>
}

const RETRY_MS = 5000

/** The file for such prefixes: each is a block that is the whole pool. Other prefixes than before are in no file: the node was made anew. */
export function podCidrFile(
  { node }: Pick<Surroundings, "node">,
  network: string,
  cidrs: readonly string[],
): PoolFile | undefined {
  const prefixes = cidrs.flatMap((text) => parsePrefix(text) ?? [])
  if (prefixes.length === 0 || prefixes.length < cidrs.length) return undefined
  const sets = prefixes.map((each) => {
    const prefix = formatPrefix(each)
    return { prefix, blockLength: each.length, blocks: [prefix], draining: [], reserved: [] }
  })
  const { name, uid, machineId } = node.owner
  const routes = prefixes.map(({ family }) => ({ dst: family === 2 ? "0.0.0.0/0" : "::/0" }))
  const store = node.storeOf(network)
  return { version: 1, pool: network, epoch: 1, node: { name, uid, machineId }, store, sets, routes, fixed: {} }
}

/**
 * Keeps the file of a pool that is a copy of the node's prefixes, until `signal` is aborted. No record is written, and a node without
 * prefixes, or a store that is down, leaves the file unchanged. `told` is told of what is wrong, and of nothing after a success; the log has each
 * fault once, for as long as it lasts.
 */
export async function followPodCidrs(
  surroundings: Surroundings,
  { network, follow }: PodCidrs,
  signal: AbortSignal,
  told: (fault: string | undefined) => void = () => {},
): Promise<void> {
  const { node, clock, log } = surroundings
  let before: string | undefined
  const tell = (fault: string | undefined) => {
    told(fault)
    if (fault !== undefined && fault !== before) log({ level: "warning", message: fault, pool: network })
    before = fault
  }
  while (!signal.aborted) {
    try {
      for await (const cidrs of follow(signal)) {
        const file = podCidrFile(surroundings, network, cidrs)
        if (!file) {
          log({ level: "warning", message: `This node has no pod CIDRs yet: "${cidrs.join(", ")}"`, pool: network })
          continue
        }
        if (JSON.stringify(node.readPool(network)?.sets) !== JSON.stringify(file.sets)) node.writePool(file)
        tell(undefined)
      }
    } catch (error) {
      if (!(error instanceof StoreError || error instanceof CniError || isErrno(error))) throw error
      tell(messageOf(error))
    }
    if (!signal.aborted) await clock.sleep(RETRY_MS, signal)
  }
}
