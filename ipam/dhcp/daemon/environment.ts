import { bootMs, randomBytes } from "../../../pkg/libc/mod.ts"
import type { Result } from "../../../pkg/types/mod.ts"
import { Journal, type Place, readBootId } from "./journal.ts"
import { KernelLink } from "./link.ts"
import type { DaemonOptions } from "./options.ts"

/** A container's link, as a holder uses it. The first use opens the link; an open link keeps its namespace alive. */
export type ContainerLink = { readonly [K in keyof KernelLink]: KernelLink[K] }

export interface Links {
  /** Opens the link of a name in the namespace at `path`. Throws `CniError`; `NoLinkError` if there is no such link. */
  open(path: string, ifName: string): ContainerLink
  /** Returns the link of a record, without opening it. */
  at(record: Place): ContainerLink
}

export function kernelLinks(now: () => number): Links {
  return {
    open: (path, ifName) => KernelLink.open(path, ifName, now),
    at: (record) => new KernelLink(record, now),
  }
}

/** A call that waits for a lease. */
export interface Waiter {
  answer(result: Result): void
  refuse(reason: string): void
}

/** The clock, random numbers, links and journal for leases. A plugin that finds no daemon has its own environment. */
export interface Environment {
  readonly options: DaemonOptions
  readonly journal: Journal
  readonly links: Links
  readonly bootId: string
  /** Returns whole milliseconds since this boot, including suspended time, which a server counts too. */
  now(): number
  /** Returns a random number from 0 to less than 1. */
  random(): number
  log(line: string): void
}

/** Returns the host's environment, with the journal in the options' directory. Opens nothing. Throws `SyscallError`. */
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
