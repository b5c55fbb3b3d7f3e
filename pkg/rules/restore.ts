import { isCniError, messageOf } from "../types/mod.ts"
import { Undo } from "../undo/mod.ts"
import type { BackendName, Backends, RuleBackend } from "./backend.ts"

/** An attachment whose rules may be made again. */
export interface RestorableRules<Spec> {
  readonly spec: Spec
  /** The backend that its configuration asks for. */
  readonly asked?: BackendName | undefined
  /** Its rules need a transaction of their own. */
  readonly isAlone?: boolean
  /** Tells that its rules were made again, or in a dry run would be. */
  made(): void
  refuse(error: unknown): void
}

export interface RestoreOptions {
  readonly isDry: boolean
  readonly log: (line: string) => void
}

/** What one attachment's rules are added and checked by. */
interface Rules<Spec> {
  add(spec: Spec, asked: BackendName | undefined, undo: Undo): unknown
  check(spec: Spec, asked?: BackendName): void
}

/** `OwnedRules.restore`: together where the backend can, else each for itself. */
export function restoreRules<Spec, Hints, Made>(
  rules: Rules<Spec>,
  { nftables, iptables, otherSuite }: Backends<Spec, Hints, Made>,
  wanted: readonly RestorableRules<Spec>[],
  { isDry, log }: RestoreOptions,
): void {
  const isTogether = ({ asked, isAlone }: RestorableRules<Spec>) =>
    nftables?.restore !== undefined && asked !== "iptables" && !isAlone
  let alone = wanted
  try {
    const together = wanted.filter(isTogether)
    const isElsewhere = ({ spec }: RestorableRules<Spec>) => isForeign(iptables, spec) || isForeign(otherSuite, spec)
    const missing = missingOf(nftables, together, true).filter((one) => !isElsewhere(one))
    const restored = isDry ? missing : missingOf(nftables, missing, false)
    for (const { made } of restored) made()
    alone = wanted.filter((one) => !isTogether(one))
  } catch (error) {
    log(`Cannot restore all in one transaction, and goes on with each for itself: ${messageOf(error)}`)
  }
  for (const { spec, asked, made, refuse } of alone) {
    try {
      if (restoreAlone(rules, spec, asked, { isDry, log })) made()
    } catch (error) {
      refuse(error)
    }
  }
}

/** Restores rules together; returns those of which something was missing. */
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

/** Returns whether something was missing. */
function restoreAlone<Spec>(
  rules: Rules<Spec>,
  spec: Spec,
  asked: BackendName | undefined,
  { isDry, log }: RestoreOptions,
): boolean {
  try {
    rules.check(spec, asked)
    return false
  } catch {
    if (isDry) return true
  }
  using undo = new Undo(log)
  rules.add(spec, asked, undo)
  undo.keep()
  return true
}

/** Whether a place has the rules. */
export function isForeign<Spec>(
  place: Partial<Pick<RuleBackend<Spec>, "mayHold" | "check">> | undefined,
  spec: Spec,
): boolean {
  try {
    if (!place?.check || !place.mayHold?.()) return false
    place.check(spec)
    return true
  } catch {
    return false
  }
}
