import { SyscallError } from "../../pkg/libc/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { Address } from "./address.ts"
import { capacityOf, formatRangeSet, isKeptBack, type RangeSet, rangeOf } from "./ranges.ts"
import { listAddresses } from "./scan.ts"
import type { Store } from "./store.ts"

/** Whether an ADD could be served: the store takes new files, and each range set has a free address. Throws code 50. */
export function checkStatus(store: Store, rangeSets: readonly RangeSet[]): void {
  try {
    store.prepareLease({ containerId: "status", ifName: "status" })[Symbol.dispose]()
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error
    throw new CniError(Code.PluginNotAvailable, `Cannot reserve addresses in "${store.directory}"`, { cause: error })
  }
  const taken = [...listAddresses(store.files, store.directory)].map(([, address]) => address)
  const full = rangeSets.flatMap((set, index) => {
    const { used, total } = usageOf(set, taken)
    return used < total
      ? []
      : [`range set ${index} (${formatRangeSet(set)}) is full: ${used} of ${total} addresses used`]
  })
  if (full.length === 0) return
  throw new CniError(Code.PluginNotAvailable, `Cannot reserve addresses in "${store.directory}": ${full.join("; ")}`, {
    details: `"cni ipam ls" shows who holds them; GC frees those of containers that are gone`,
  })
}

/** How many addresses of a range set are handed out, of how many. */
export function usageOf(set: RangeSet, taken: readonly Address[]): { used: number; total: bigint } {
  const used = taken.filter((address) => rangeOf(set, address) && !isKeptBack(set, address)).length
  return { used, total: capacityOf(set) }
}
