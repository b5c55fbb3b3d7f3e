import {
  FileDescriptor,
  isErrno,
  lockWithin,
  makeDirectories,
  Open,
  readTextFile,
  rename,
  tryLock,
  tryLockShared,
  tryUnlink,
  unlessErrno,
  writeFile,
} from "../../pkg/libc/mod.ts"
import { findExposure } from "../../pkg/records/mod.ts"
import { isJsonObject, parseJsonObject } from "../../pkg/types/mod.ts"

const DIRECTORY = "/run/cni"
/** The file that the running listener locks. */
const LOCK = `${DIRECTORY}/reconcile.lock`
const RECORD = `${DIRECTORY}/reconcile.json`
const DRAFT = `${RECORD}.tmp`
/** The timeout for the lock in milliseconds. Other processes hold it briefly, but a busy machine delays them. */
const PATIENCE_MS = 5000
/** The maximum number of losses in the record. */
const NAMED = 100

/** Upper bounds of the histogram of outages, in seconds. */
export const OUTAGE_BUCKETS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10] as const

export type Trigger = "start" | "rules" | "links" | "settings" | "firewalld" | "overrun" | "again"
export type Result = "restored" | "complete" | "failed"

/** A lost object that could not be restored. */
export interface Loss {
  readonly what: string
  readonly reason: string
}

/** The state of the listener, which `cni doctor` and `cni metrics` read. */
export interface ListenerRecord {
  readonly pid: number
  readonly counts: readonly { readonly trigger: Trigger; readonly result: Result; readonly count: number }[]
  /** The times between the notification of a loss and the restoration. */
  readonly outage: { readonly buckets: readonly number[]; readonly seconds: number; readonly count: number }
  readonly losses: readonly Loss[]
}

/** Locks the listener's file until disposal. Returns undefined if another listener runs. Throws `SyscallError`. */
export function becomeListener(): Disposable | undefined {
  makeDirectories(DIRECTORY)
  const lock = FileDescriptor.open(LOCK, Open.ReadWrite | Open.Create, 0o600)
  if (lockWithin(PATIENCE_MS, () => tryLock(lock.fd))) return lock
  lock[Symbol.dispose]()
  return undefined
}

export function isListening(): boolean {
  using lock = FileDescriptor.find(LOCK)
  return lock !== undefined && !tryLockShared(lock.fd)
}

/** Returns the running listener's record. Undefined without a listener or if unreadable. Never throws. */
export function findListenerRecord(): ListenerRecord | undefined {
  try {
    if (findExposure(DIRECTORY) !== undefined || !isListening()) return undefined
    const record = parseJsonObject(readTextFile(RECORD), RECORD)
    const { counts, losses, outage } = record
    const lists = [counts, losses, isJsonObject(outage) && outage.buckets]
    return lists.every(Array.isArray) ? (record as unknown as ListenerRecord) : undefined
  } catch {
    return undefined
  }
}

/** The counters of the listener, written to its record when they change. */
export class Tally {
  readonly #pid: number
  readonly #counts = new Map<string, { trigger: Trigger; result: Result; count: number }>()
  readonly #buckets = OUTAGE_BUCKETS.map(() => 0)
  #seconds = 0
  #count = 0
  #losses: readonly Loss[] = []
  #isFailing = false
  readonly #log: (line: string) => void

  constructor(pid: number, log: (line: string) => void) {
    this.#pid = pid
    this.#log = log
  }

  count(trigger: Trigger, result: Result): void {
    const key = `${trigger} ${result}`
    const one = this.#counts.get(key) ?? { trigger, result, count: 0 }
    one.count++
    this.#counts.set(key, one)
  }

  outage(ms: number): void {
    this.#count++
    this.#seconds += ms / 1000
    for (const [at, bound] of OUTAGE_BUCKETS.entries())
      if (ms / 1000 <= bound) this.#buckets[at] = (this.#buckets[at] ?? 0) + 1
  }

  /** Sets the objects that the last check could not restore, and logs those that the previous check did not report. */
  set losses(losses: readonly Loss[]) {
    const before = new Set(this.#losses.map(({ what }) => what))
    for (const { what, reason } of losses) if (!before.has(what)) this.#log(`cannot restore ${what}: ${reason}`)
    this.#losses = losses
  }

  /** Writes the record. Logs the first of several failures, as on a full disk, and removes the old record. */
  write(): void {
    const record: ListenerRecord = {
      pid: this.#pid,
      counts: [...this.#counts.values()],
      outage: { buckets: this.#buckets, seconds: Math.round(this.#seconds * 1e6) / 1e6, count: this.#count },
      losses: this.#losses.slice(0, NAMED),
    }
    try {
      writeFile(DRAFT, `${JSON.stringify(record)}\n`)
      rename(DRAFT, RECORD)
      this.#isFailing = false
    } catch (error) {
      if (!isErrno(error)) throw error
      this.remove()
      if (!this.#isFailing) this.#log(`cannot write "${RECORD}": ${error.message}`)
      this.#isFailing = true
    }
  }

  /** Removes the record, which would otherwise become outdated. */
  remove(): void {
    for (const path of [DRAFT, RECORD]) unlessErrno(() => tryUnlink(path))
  }
}
