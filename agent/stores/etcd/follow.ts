import type { Kind } from "../../records.ts"
import { type Identity, type Stored, StoreError, type WatchEvent } from "../../store.ts"
import { asFault, MemberFault } from "./fault.ts"
import type { Gateway } from "./gateway.ts"
import type { PulseLimits } from "./pulse.ts"
import { watchMember } from "./watch.ts"
import type { KeyValue } from "./wire.ts"

/** The records of one kind, for those who follow them. */
export interface Source<K extends Kind> {
  readonly kind: K
  /** Their keys: from `key` to before `end`. */
  readonly range: { readonly key: string; readonly end: string }
  /** All of them at one revision. */
  list(): Promise<{ at: Identity; records: Stored<K>[] }>
  /** The key of a record, without what all keys of the kind begin with. */
  keyOf(path: string): string
  /** Reads a record. Throws `StoreError`. */
  decode(kv: KeyValue): Stored<K>
}

/** How far the changes have been told. */
interface Place {
  /** All changes up to here; `undefined`: everything has to be told. */
  told: Identity | undefined
  /** Whether `told` is that of a list, and no watch has been confirmed since. */
  isListed: boolean
}

/** A watch that has told something, or lived for so long, was well: its end is the first of a new row of failures. */
const wellMs = 1_000

/**
 * First all records, then each change, from one member after the other: where a member fails, the next goes on at the same
 * revision. After a gap, or where the next has another history, all come again. Throws `StoreError` when as many members as there
 * are have failed in a row, and for a record that cannot be read.
 */
export async function* followRecords<K extends Kind>(
  gateway: Gateway,
  source: Source<K>,
  limits: PulseLimits,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent<K>> {
  const place: Place = { told: undefined, isListed: false }
  let failures = 0
  while (!signal.aborted) {
    if (place.told === undefined) {
      const { at, records } = await source.list()
      if (signal.aborted) return
      yield { type: "all", records }
      place.told = at
      place.isListed = true
    }
    const endpoint = gateway.preferred
    const before = place.told
    const beganMs = performance.now()
    try {
      yield* followMember(gateway, endpoint, source, place, before, limits, signal)
    } catch (error) {
      if (error instanceof StoreError) throw error
      const fault = asFault(error, limits.requestMs)
      gateway.avoid(endpoint)
      const hasTold = place.told !== undefined && place.told !== before
      const wasWell = hasTold || performance.now() - beganMs >= wellMs
      failures = wasWell ? 1 : failures + 1
      if (fault.kind === "denied" || failures >= gateway.endpoints.length) {
        const what = `Cannot watch the records "${source.kind}" of etcd`
        throw new StoreError(`${what}: ${endpoint}: ${fault.message}`, "refused", fault)
      }
    }
  }
}

/** The changes that one member tells. Ends when `signal` is aborted, and with `told` undefined where there is a gap. */
async function* followMember<K extends Kind>(
  gateway: Gateway,
  endpoint: string,
  source: Source<K>,
  place: Place,
  told: Identity,
  limits: PulseLimits,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent<K>> {
  const range = { ...source.range, fromRevision: told.revision + 1n }
  let isFirst = true
  for await (const message of watchMember(gateway, endpoint, range, limits, signal)) {
    const { at, changes, canceled } = message
    // A member that lags behind a list has the same history; one that is behind what a watch has told may be a restored one.
    const isOther = at.cluster !== told.cluster || (isFirst && !place.isListed && at.revision < told.revision)
    if (isOther && place.isListed) throw new MemberFault("no answer", "it is of another cluster")
    if (isOther || canceled !== undefined) place.told = undefined
    if (canceled !== undefined && !message.isCompacted) throw new MemberFault("no answer", canceled)
    if (place.told === undefined) return
    for (const { isRemoval, kv } of changes) {
      yield isRemoval ? { type: "removed", key: source.keyOf(kv.key) } : { type: "put", record: source.decode(kv) }
    }
    // A message without changes, later than the first, says that there were none up to its revision.
    const revision = changes.at(-1)?.kv.modRevision ?? (isFirst ? told.revision : at.revision)
    if (revision > place.told.revision) place.told = { ...told, revision }
    place.isListed = false
    isFirst = false
  }
}
