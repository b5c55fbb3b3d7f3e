import { SyscallError } from "../../pkg/libc/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import { type Address, parseAddress } from "./address.ts"
import { toolHint } from "./owner.ts"
import { capacityOf, formatRangeSet, isKeptBack, type RangeSet, rangeOf } from "./ranges.ts"
import { listAddresses } from "./scan.ts"
import type { Store } from "./store.ts"
import { surveyStore } from "./survey.ts"

/**
 * Whether ADDs can be served: the store takes new files, and each range set has addresses to hand out. Throws code 50. A
 * range set that is full is a line on stderr: runtimes take an error for a node without network, on which not even the
 * containers start that have an address.
 */
export function checkStatus(store: Store, rangeSets: readonly RangeSet[]): void {
  const refusal = `Cannot reserve addresses in "${store.directory}"`
  try {
    store.prepareLease({ containerId: "status", ifName: "status" })[Symbol.dispose]()
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error
    throw new CniError(Code.PluginNotAvailable, refusal, { cause: error })
  }
  const taken = Array.from(listAddresses(store.files, store.directory), ([, address]) => address)
  let reclaimable: readonly Address[] | undefined // asked for when a set is full: it reads every reservation
  for (const [index, set] of rangeSets.entries()) {
    const name = `range set ${index} (${formatRangeSet(set)})`
    if (usageOf(set, taken).used < capacityOf(set)) continue
    if (capacityOf(set) === 0n) throw new CniError(Code.PluginNotAvailable, `${refusal}: ${name} has none to hand out`)
    reclaimable ??= [...surveyStore(store).reclaimable].flatMap((text) => parseAddress(text) ?? [])
    const usage = usageOf(set, taken, reclaimable)
    if (usage.reclaimable > 0) continue
    store.log(
      `${refusal}: ${name} is full, ${usage.used} of ${usage.total} addresses used; ` +
        `"cni ipam ls" shows who holds them, and GC frees those of containers that are gone ${toolHint}`,
    )
  }
}

/** What of a range set is handed out: how many addresses, how many of these an ADD could take back, of how many. */
export function usageOf(
  set: RangeSet,
  taken: readonly Address[],
  reclaimable: readonly Address[] = [],
): { used: number; reclaimable: number; total: bigint } {
  const isOfSet = (address: Address) => rangeOf(set, address) !== undefined && !isKeptBack(set, address)
  return {
    used: taken.filter(isOfSet).length,
    reclaimable: reclaimable.filter(isOfSet).length,
    total: capacityOf(set),
  }
}
