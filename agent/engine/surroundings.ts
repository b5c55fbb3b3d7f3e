import type { PoolFile } from "../../ipam/host-local/main.ts"
import type { Owner } from "../records.ts"
import type { Store } from "../store.ts"

/**
 * All that an agent has to do with outside of itself. A test or a simulation hands in its own, and so decides when time passes,
 * which call fails, and in which order answers come.
 */
export interface Surroundings {
  readonly store: Store
  readonly clock: Clock
  readonly node: NodeFiles
  /** Chance: so many bytes, in hexadecimal digits. */
  randomHex(bytes: number): string
  log(event: LogEvent): void
}

export interface Clock {
  /** CLOCK_BOOTTIME, in milliseconds. It goes on while the machine is suspended, and no wall clock sets it. */
  bootMs(): number
  /** /proc/sys/kernel/random/boot_id: times of `bootMs` of another boot mean nothing. */
  readonly bootId: string
  /** Ends after so many milliseconds, and as soon as `signal` is aborted. Never throws. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

export interface LogEvent {
  readonly level: "info" | "warning" | "error"
  /** One sentence that names what it is about. */
  readonly message: string
  readonly pool?: string
  readonly block?: string
}

/** One address that a container of this node has. */
export interface Reservation {
  readonly address: string
  /** "" where the file is no reservation: then the address is taken all the same. */
  readonly id: string
  readonly ifName: string
}

/** What the agent remembers on the disk, `<poolDir>/.agent.json`. Without the file it starts anew, which is safe. */
export interface Memory {
  /**
   * The store as it was seen last. Revisions are decimal numbers. `wentBackTo`: it came from a backup, and no operator has accepted it. The next
   * agent could not tell: what the nodes write takes it past `revision`.
   */
  readonly store?: { readonly cluster: string; readonly revision: string; readonly wentBackTo?: string }
  /** The boot whose times `quarantined` has. */
  readonly bootId: string
  /** For each block in quarantine, by its key: its version, and since when this agent has seen it, by CLOCK_BOOTTIME. */
  readonly quarantined: Readonly<Record<string, { readonly version: string; readonly sinceMs: number }>>
  /** The epoch of each block of the pool files, by its key. It is written before the file that names the block. 0: the block was lost to another node. */
  readonly epochs: Readonly<Record<string, number>>
}

/** What tells of one change, and of no further one until it is armed again: each would wake the agent. */
export interface Watch extends Disposable {
  /** Does nothing where it is armed. */
  arm(): void
}

/** The files of this node: those of pools, host-local's reservations, and the agent's memory. All calls are synchronous. */
export interface NodeFiles {
  /** Who this node is. */
  readonly owner: Owner
  /** The pools that have a file, those with a file that cannot be used included. */
  listPools(): readonly string[]
  /** The path of a pool's file. */
  fileOf(pool: string): string
  /** The file of a pool that is in force; `undefined` where host-local would use none. */
  readPool(pool: string): PoolFile | undefined
  /**
   * Puts the file of a pool in force: another file, fsync, rename, fsync of the directory. Throws where that fails: then the old file
   * is in force, or the new one, and `readPool` says which.
   */
  writePool(file: PoolFile): void
  removePool(pool: string): void
  /** host-local's store of a network: `<dataDir>/<network>`. */
  storeOf(network: string): string
  /** The addresses of a network that are reserved, by the names of their files: one directory is read, and no file. Reads without locking. */
  takenAddresses(network: string): readonly string[]
  /** The same with the containers that have them. Reads each file, without locking. */
  reservations(network: string): readonly Reservation[]
  /**
   * The reservations of the addresses in a prefix, under host-local's lock: an ADD that comes later reads the file of the pool as
   * it is now. Throws where the lock is held for too long.
   */
  reservationsIn(network: string, prefix: string): readonly Reservation[]
  /** Calls `changed` after the first change of the reservations of a network that follows `arm`, until it is disposed. */
  watchReservations(network: string, changed: () => void): Watch
  readMemory(): Memory | undefined
  /** On the disk when it returns. */
  writeMemory(memory: Memory): void
}
