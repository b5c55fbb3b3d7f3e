/** What an agent tells of itself: the answer on its Unix socket, and what `cni-agent status`, `cni doctor` and the metrics are made of. */
export interface Status {
  readonly node: { readonly name: string; readonly uid: string; readonly machineId: string }
  readonly store: {
    readonly name: string
    /** Why the store cannot be used now; absent when it can. */
    readonly fault?: string
    /** Why the agent neither claims nor releases, such as a store that went backwards. */
    readonly stopped?: string
    /** Since the last successful request, in seconds by CLOCK_BOOTTIME. */
    readonly lastContactS?: number
    readonly requests: number
    readonly writes: number
    readonly watchEvents: number
  }
  readonly pools: readonly PoolStatus[]
  /** Blocks that another node owns now, with the containers of this node that still have an address of them. */
  readonly lost: readonly LostBlock[]
  readonly routes?: { readonly wanted: number; readonly faults: readonly string[] }
}

export interface PoolStatus {
  readonly name: string
  readonly network: string
  readonly file: string
  /** Why the file could not be written, or why its blocks are of no pool of the store. */
  readonly fault?: string
  readonly prefixes: readonly PrefixStatus[]
  readonly fixed: Readonly<Record<string, readonly string[]>>
}

export interface PrefixStatus {
  readonly prefix: string
  /** The blocks of the file. */
  readonly blocks: readonly { readonly prefix: string; readonly state: "owned" | "draining"; readonly used: number }[]
  /** The blocks that the store says are this node's; the file has the same, but for a moment. Absent as `cluster` is. */
  readonly recorded?: readonly string[]
  /** Addresses of the owned blocks: those that containers have, and those to hand out. */
  readonly used: number
  readonly free: string
  /**
   * In the whole pool: blocks that are free, owned, quarantined. Text, since an IPv6 pool has more than a number holds. Absent where
   * the registry has not come yet, or has no such pool.
   */
  readonly cluster?: { readonly free: string; readonly owned: number; readonly quarantined: number }
}

export interface LostBlock {
  readonly pool: string
  readonly prefix: string
  readonly owner: string
  readonly containers: readonly { readonly id: string; readonly ifName: string; readonly address: string }[]
}
