import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../pkg/netlink/mod.ts"
import type { Element } from "../../pkg/nftables/mod.ts"
import type { Restorable } from "../../pkg/skel/mod.ts"
import { CniError, Code, hostCidr, isCniError, type Owner, ownerComment } from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
import type { Backend } from "./config.ts"
import { Firewalld, isCommandFailed } from "./firewalld.ts"
import { findAddresses, listAddresses } from "./nftables/firewall.ts"
import { readNote } from "./spec.ts"

/** An address, such as "10.1.0.2/32", that is a source of a firewalld zone. */
export interface Source {
  zone: string
  source: string
}

/** Returns the sources in the notes of elements, without duplicates. */
export function sourcesOf(elements: readonly Element[]): Source[] {
  const sources = elements.flatMap(({ key: [ip], note }): Source[] => {
    const { zone } = readNote(note)
    return ip && zone ? [{ zone, source: hostCidr(ip) }] : []
  })
  return [...new Map(sources.map((one) => [`${one.source} ${one.zone}`, one])).values()]
}

/** Returns the sources that are noted at these addresses. Throws `NetlinkError`. */
export function sourcesAt(socket: NetlinkSocket | undefined, addresses: readonly Uint8Array[]): Source[] {
  return socket ? sourcesOf(findAddresses(socket, addresses)) : []
}

/** Returns the sources that are noted for an attachment. Throws `NetlinkError`. */
export function sourcesOfOwner(socket: NetlinkSocket | undefined, owner: Owner): Source[] {
  const comment = ownerComment(owner)
  return socket ? sourcesOf(listAddresses(socket, [encodeUtf8(comment)]).filter((one) => one.comment === comment)) : []
}

/**
 * Returns firewalld if it runs and the backend allows it. If the bus refuses or does not answer, throws if the backend
 * is firewalld, or if `isNeeded` reports that firewalld's rules are in force, and otherwise logs one line.
 */
export function findFirewalld(
  backend: Backend | undefined,
  log: (line: string) => void,
  isNeeded: () => boolean = () => false,
  find: () => Firewalld | undefined = () => Firewalld.find(),
): Firewalld | undefined {
  if (backend === "nftables" || backend === "iptables") return undefined
  try {
    return find()
  } catch (error) {
    if (backend === "firewalld" || isNeeded()) throw error
    log(reasonOf(error))
    return undefined
  }
}

export interface AddingSources {
  firewalld: Firewalld
  zone: string
  socket: NetlinkSocket | undefined
  log(line: string): void
  /** Reports whether the kernel has rules of firewalld. */
  isFiltering(): boolean
}

/**
 * Adds addresses as sources of a zone, and the noted sources of other attachments that firewalld has lost by a reload
 * or restart. A failure for another attachment is logged. If the kernel has no rules of firewalld, every failure is
 * only logged, because nothing is dropped, and the next ADD tries again. Throws `CniError`.
 */
export function addSources(
  { firewalld, zone, socket, log, isFiltering }: AddingSources,
  addresses: readonly Uint8Array[],
  undo: Undo,
): void {
  const present = new Map<string, string[]>()
  const isThere = ({ zone, source }: Source) =>
    present.getOrInsertComputed(zone, () => firewalld.listSources(zone)).includes(source)
  const failures: unknown[] = []
  for (const source of addresses.map(hostCidr)) {
    if (isThere({ zone, source })) continue
    try {
      firewalld.addSource(zone, source)
      undo.defer("add a source of firewalld", () => firewalld.removeSource(zone, source))
    } catch (error) {
      if (!isCommandFailed(error) || isFiltering()) throw error
      failures.push(error)
    }
  }
  const own = new Set(addresses.map(hostCidr))
  for (const other of sourcesOf(socket ? listAddresses(socket) : [])) {
    try {
      if (!own.has(other.source) && !isThere(other)) firewalld.addSource(other.zone, other.source)
    } catch (error) {
      failures.push(error)
    }
  }
  tell(failures, "the next ADD tries again", log)
}

/** Restores sources that firewalld lost. Lists each zone once. Reports a failure as the attachment's outcome. */
export function restoreSources(
  firewalld: Firewalld,
  wanted: readonly { one: Pick<Restorable<unknown>, "tell" | "refuse">; sources: readonly Source[] }[],
  { isDry, log, isFiltering }: { isDry: boolean; log: (line: string) => void; isFiltering: () => boolean },
): void {
  const present = new Map<string, Set<string>>()
  const failures: unknown[] = []
  for (const { one, sources } of wanted) {
    for (const { zone, source } of sources) {
      try {
        const there = present.getOrInsertComputed(zone, () => new Set(firewalld.listSources(zone)))
        if (there.has(source)) continue
        if (!isDry) firewalld.addSource(zone, source)
        one.tell(`source ${source} of firewalld's zone "${zone}"`)
      } catch (error) {
        if (isCommandFailed(error) && !isFiltering()) failures.push(error)
        else one.refuse(error)
      }
    }
  }
  tell(failures, "firewalld has lost its rules; reload it", log)
}

/** Removes sources. Refusals are only logged, in one line, because firewalld's next reload drops the sources. */
export function removeSources(firewalld: Firewalld, sources: readonly Source[], log: (line: string) => void): void {
  const failures: unknown[] = []
  for (const { zone, source } of sources) {
    try {
      firewalld.removeSource(zone, source)
    } catch (error) {
      failures.push(error)
    }
  }
  tell(failures, "a reload or restart of firewalld removes it", log)
}

function reasonOf(error: unknown): string {
  return isCniError(error) && error.details ? `${error.message}: ${error.details}` : String(error)
}

/** Logs the first failure and the number of the others in one line. */
function tell([first, ...others]: readonly unknown[], remedy: string, log: (line: string) => void): void {
  if (first === undefined) return
  log(`${reasonOf(first)}${others.length > 0 ? `; and ${others.length} more` : ""}; ${remedy}`)
}

/** Checks that firewalld has these sources. Throws `CniError` that names the first missing one. */
export function checkSources(firewalld: Firewalld, sources: readonly Source[]): void {
  for (const { zone, source } of sources) {
    const present = firewalld.listSources(zone)
    if (present.includes(source)) continue
    const what = `Cannot find the address ${source} in zone "${zone}" of firewalld`
    const found = present.join(", ") || "none"
    throw new CniError(Code.Internal, `${what}: expected it among the zone's sources; found ${found}`, {
      details: "firewalld loses sources when it is reloaded; the next ADD of any container adds all of them again",
    })
  }
}
