import { bootMs, randomBytes } from "../../../pkg/libc/mod.ts"
import { Journal, readBootId } from "./journal.ts"
import { kernelLinks, type Links } from "./link.ts"
import type { DaemonOptions } from "./options.ts"

/** All that leases need of the world: time, chance, links, the disk. The daemon has one, and a plugin that works without a daemon. */
export interface Environment {
  readonly options: DaemonOptions
  readonly journal: Journal
  readonly links: Links
  readonly bootId: string
  /** Milliseconds since this boot, whole, with those of a suspended machine: a server counts them, too. */
  now(): number
  /** A number from 0 up to, but without, 1. */
  random(): number
  log(line: string): void
}

/** The environment of this host, with the journal that the options name. Creates and opens nothing. Throws `SyscallError`. */
export function hostEnvironment(options: DaemonOptions, log: (line: string) => void): Environment {
  return {
    options,
    journal: new Journal(`${options.hostPrefix}${options.stateDirectory}`),
    links: kernelLinks(bootMs),
    bootId: readBootId(),
    now: bootMs,
    random: () => new DataView(randomBytes(4).buffer).getUint32(0) / 2 ** 32,
    log,
  }
}
