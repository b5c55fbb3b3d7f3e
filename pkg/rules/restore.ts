import { isCniError, messageOf, type Owner } from "../types/mod.ts"
import { Undo } from "../undo/mod.ts"
import type { BackendName, Backends, RuleBackend } from "./backend.ts"

/** An attachment whose rules can be restored. */
export interface RestorableRules<Spec> {
  readonly spec: Spec
  /** The backend that the attachment's configuration selects. */
  readonly asked?: BackendName | undefined
  /** Whether the rules need their own transaction. */
  readonly isAlone?: boolean
  /** Called after the rules were restored, or in a dry run if they would be. */
  made(): void
  refuse(error: unknown): void
}

export interface RestoreOptions {
  readonly isDry: boolean
  /** Whether to also flush flows that began without the rules, even if all rules exist now. */
  readonly flows?: boolean
  /** Whether to move the rules from nf_tables to iptables instead of restoring them. */
  readonly toIptables?: boolean
  readonly log: (line: string) => void
}

/** Implements `OwnedRules.restore`: restores the rules together if the backend can, otherwise one by one. */
export function restoreRules<Spec, Hints, Made>(
  rules: {
    add(spec: Spec, asked: BackendName | undefined, undo: Undo): unknown
    check(spec: Spec, asked?: BackendName): void
  },
  { nftables, iptables, otherSuite }: Backends<Spec, Hints, Made>,
  wanted: readonly RestorableRules<Spec>[],
  options: RestoreOptions,
): void {
  const isByIptables = ({ asked }: RestorableRules<Spec>) => iptables && (asked === "iptables" || (!asked && !nftables))
  const inNftables = wanted.filter((one) => !one.isAlone && !isByIptables(one))
  const inIptables = wanted.filter((one) => !one.isAlone && isByIptables(one))
  const alone = [
    ...restoreTogether(nftables, inNftables, [iptables, otherSuite], options),
    ...restoreTogether(iptables, inIptables, [nftables, otherSuite], options),
    ...wanted.filter(({ isAlone }) => isAlone),
  ]
  for (const { spec, asked, made, refuse } of alone) {
    if (isThere(() => rules.check(spec, asked))) continue
    try {
      using undo = new Undo(options.log)
      if (!options.isDry) rules.add(spec, asked, undo)
      undo.keep()
      made()
    } catch (error) {
      refuse(error)
    }
  }
}

function isThere(check: () => void): boolean {
  try {
    check()
    return true
  } catch {
    return false
  }
}

/**
 * Copies the rules of attachments from nf_tables to iptables, and then deletes them in nf_tables, so that at least one
 * of the two always has them. Rules that iptables refuses stay in nf_tables. Calls `onAdded` in between, because
 * iptables may have created a table of nf_tables.
 */
export function moveToIptables<Spec extends { readonly owner: Owner }, Hints, Made>(
  { nftables, iptables }: Backends<Spec, Hints, Made>,
  wanted: readonly RestorableRules<Spec>[],
  { isDry, log }: RestoreOptions,
  onAdded: () => void,
): void {
  if (!nftables || !iptables || !mayHold(nftables)) return
  for (const { spec, made, refuse } of wanted) {
    try {
      if (!isDry) {
        using undo = new Undo(log)
        iptables.add(spec, undo, () => {})
        onAdded()
        nftables.remove(spec.owner, undefined as Hints)
        undo.keep()
      }
      made()
    } catch (error) {
      refuse(error)
    }
  }
}

/** Restores rules of attachments that have none in `places`. Returns the attachments that it cannot restore. */
function restoreTogether<Spec, Hints, Made>(
  backend: RuleBackend<Spec, Hints, Made> | undefined,
  wanted: readonly RestorableRules<Spec>[],
  places: readonly Parameters<typeof isForeign<Spec>>[0][],
  { isDry, log }: RestoreOptions,
): readonly RestorableRules<Spec>[] {
  if (!backend?.restore || wanted.length === 0) return wanted
  try {
    const others = places.filter((place) => mayHold(place))
    const isHere = ({ spec }: RestorableRules<Spec>) => !others.some((place) => isForeign(place, spec))
    const here = others.length === 0 ? wanted : missingOf(backend, wanted, true).filter(isHere)
    for (const { made } of missingOf(backend, here, isDry)) made()
    return []
  } catch (error) {
    log(`Cannot restore all in one transaction; continuing with each one separately: ${messageOf(error)}`)
    return wanted
  }
}

/** Restores rules together. Returns the attachments whose rules were missing. */
function missingOf<Spec, Hints, Made>(
  backend: RuleBackend<Spec, Hints, Made> | undefined,
  wanted: readonly RestorableRules<Spec>[],
  isDry: boolean,
): RestorableRules<Spec>[] {
  const specs = wanted.map(({ spec }) => spec)
  const became = specs.length === 0 ? [] : (backend?.restore?.(specs, isDry) ?? [])
  return wanted.filter(({ refuse }, at) => {
    const restored = became[at]
    if (isCniError(restored)) refuse(restored)
    return restored === "missing"
  })
}

/** Reports whether a backend may have rules. Returns false if the backend cannot be read. */
export function mayHold<Spec>(place: Partial<Pick<RuleBackend<Spec>, "mayHold">> | undefined): boolean {
  try {
    return place?.mayHold?.() === true
  } catch {
    return false
  }
}

/** Reports whether a backend has the rules. */
export function isForeign<Spec>(
  place: Partial<Pick<RuleBackend<Spec>, "mayHold" | "check">> | undefined,
  spec: Spec,
): boolean {
  return place?.check !== undefined && mayHold(place) && isThere(() => place.check?.(spec))
}
