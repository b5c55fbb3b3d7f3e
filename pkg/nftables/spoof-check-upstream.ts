import { encodeUtf8 } from "../engine/mod.ts"
import { CniError, Code, type Owner } from "../types/mod.ts"
import { hasChain } from "./chains.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { listRules } from "./read.ts"
import { type Chain, flush, remove, type Table } from "./rule-set.ts"
import { atomically } from "./transaction.ts"

/** Where the Go suite's bridge plugin keeps its spoof check: a rule for each port, and two chains that it leads to. */
const table: Table = { family: "bridge", name: "nat" }
const prerouting: Chain = { table, name: "PREROUTING" }

/**
 * Removes the spoof check that the Go suite's ADD has left for this attachment, so that a node can change suites with
 * containers running. Its table and base chain stay, as its own DEL leaves them. Nothing there is success. Its comments
 * do not say which network they are for: GC cannot know what is gone. Throws `CniError`.
 */
export function deleteUpstreamSpoofCheck(socket: Netfilter, { containerId, ifName }: Owner): void {
  const id = `${containerId}-${ifName}`
  const comment = `macspoofchk-${id}`
  const needles = [encodeUtf8(comment)]
  const chains: Chain[] = [`cni-br-iface-${id}`, `cni-br-iface-${id}-mac`].map((name) => ({ table, name }))
  try {
    if (!hasChain(socket, prerouting)) return
    atomically(socket, () => {
      const rules = listRules(socket, prerouting, needles).filter((rule) => rule.comment === comment)
      const left = chains.filter((chain) => hasChain(socket, chain))
      // A chain can go when nothing is in it and nothing leads to it.
      return [...rules.map(remove.rule), ...left.map(flush.chain), ...left.map(remove.chain)]
    })
  } catch (error) {
    const whose = `"${ifName}" of container ${containerId}`
    throw new CniError(Code.Internal, `Cannot remove the other suite's spoof check of ${whose}`, { cause: error })
  }
}
