import { exists, unlessErrno } from "../../pkg/libc/mod.ts"
import { holdDeletions, sweepDeletions } from "../../pkg/records/mod.ts"
import type { Owner } from "../../pkg/types/mod.ts"
import { namesOfFiles } from "../node/mod.ts"
import { type Cached, type CachedChain, readCaches } from "./attachments.ts"
import { type Outcome, type PluginRuns, restoreChains } from "./plugins.ts"
import type { Loss } from "./record.ts"

export interface ReconcileOptions {
  readonly cacheDir: string
  /** The only network to restore. All networks if omitted. */
  readonly network?: string | undefined
  /** Whether to report missing objects without restoring them. */
  readonly isDry?: boolean
  readonly flows?: boolean
  readonly containers?: boolean
  /** Whether to move rules from nf_tables to iptables instead of restoring them. */
  readonly toIptables?: boolean
  readonly isWanted?: (type: string, owner: CachedChain) => boolean
}

export interface Reconciled {
  readonly cached: Cached
  readonly outcome: Outcome
}

/**
 * Runs the plugins to restore the lost host objects of running containers. No DEL begins during the call. Skips
 * attachments whose DEL is running. Throws `SyscallError`, and an error if another run blocks DELs for a minute.
 */
export function reconcileAll(options: ReconcileOptions, runs: PluginRuns): Reconciled {
  const { cacheDir, network, isDry = false, isWanted, ...rest } = options
  using held = isDry ? undefined : unlessErrno(holdDeletions, "ENOSPC", "EROFS") // a DEL cannot mark its attachment in it, either
  const cached = readCaches({ cacheDir, network, containers: rest.containers }, namesOfFiles(runs.path))
  const outcome = restoreChains(cached.chains, { ...rest, dryRun: isDry }, runs, isWanted)
  if (held) sweepDeletions(cached.owners)
  // A DEL deletes the interface a few milliseconds before the record.
  const skipped = cached.skipped.filter(({ record }) => record === undefined || exists(record))
  return { cached: { ...cached, skipped }, outcome }
}

export function failuresOf({ cached, outcome }: Reconciled): Loss[] {
  return [
    ...cached.skipped
      .filter(({ isFailure }) => isFailure)
      .map((one) => ({ what: nameOf(one) || "from a cache", reason: one.reason })),
    ...outcome.failed.map(({ plugin, error, ...owner }) => ({
      what: [`what ${plugin} has`, nameOf(owner)].filter(Boolean).join(" of "),
      reason: [error.msg, error.details].filter(Boolean).join("; "),
    })),
  ]
}

function nameOf({ network, containerId, ifName }: Partial<Owner>): string {
  const parts = [network, containerId, ifName].filter((part) => part !== undefined)
  return parts.length === 0 ? "" : `"${parts.join("/")}"`
}
