import { bootMs, randomBytes } from "../../../pkg/libc/mod.ts"
import { Journal, readBootId } from "./journal.ts"
import type { DaemonOptions } from "./options.ts"

/** What leases need around them, in the daemon and in a plugin that does its work where there is none. */
export interface Surroundings {
  readonly options: DaemonOptions
  readonly journal: Journal
  readonly bootId: string
  /** Milliseconds since this boot, whole, those of a suspended machine included: a server counts them, too. */
  now(): number
  /** A number from 0 up to, but without, 1. */
  random(): number
  log(line: string): void
}

/** Those of this host, with the journal that the options name. Nothing is made or opened. Throws `SyscallError`. */
export function surroundingsOf(options: DaemonOptions, log: (line: string) => void): Surroundings {
  return {
    options,
    journal: new Journal(`${options.hostPrefix}${options.stateDirectory}`),
    bootId: readBootId(),
    now: bootMs,
    random: () => new DataView(randomBytes(4).buffer).getUint32(0) / 2 ** 32,
    log,
  }
}
