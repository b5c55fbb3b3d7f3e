import { bootMs, randomBytes } from "../../../pkg/libc/mod.ts"
import type { Result } from "../../../pkg/types/mod.ts"
import { Journal, type Place, readBootId } from "./journal.ts"
import { KernelLink } from "./link.ts"
import type { DaemonOptions } from "./options.ts"

/**
 * A container's link as a holder uses it. It is opened on first use, and keeps the namespace alive until it is closed.
 */
export type ContainerLink = { readonly [K in keyof KernelLink]: KernelLink[K] }

/** The source of links: the kernel, or a test. */
export interface Links {
  /**
   * Opens a link, given the path of its namespace and its name. Throws `CniError`, or `NoLinkError` if it does not
   * exist.
   */
  open(path: string, ifName: string): ContainerLink
  /** The link of a record, closed. */
  at(record: Place): ContainerLink
}

/** The links of the kernel. */
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

/**
 * The clock, random numbers, links and the journal that leases use. The daemon has one, and so does a plugin that works
 * without a daemon.
 */
export interface Environment {
  readonly options: DaemonOptions
  readonly journal: Journal
  readonly links: Links
  readonly bootId: string
  /** Whole milliseconds since this boot, suspended time included: a server counts it too. */
  now(): number
  /** A random number from 0 to less than 1. */
  random(): number
  log(line: string): void
}

/**
 * Returns the environment of this host, with the journal that the options name. Creates and opens nothing. Throws
 * `SyscallError`.
 */
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
