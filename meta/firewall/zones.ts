import type { NetlinkSocket } from "../../pkg/netlink/mod.ts"
import type { Element } from "../../pkg/nftables/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
import type { Backend } from "./config.ts"
import { Firewalld } from "./firewalld.ts"
import { hostOf } from "./iptables/rules.ts"
import { listAddresses } from "./nftables/firewall.ts"
import { readNote } from "./spec.ts"

/** An address, "10.1.0.2/32", that is a source of a zone of firewalld. */
export interface Source {
  zone: string
  source: string
}

/** The sources that elements have a note of, each once. */
export function sourcesOf(elements: readonly Element[]): Source[] {
  const sources = elements.flatMap(({ key: [ip], note }): Source[] => {
    const { zone } = readNote(note)
    return ip && zone ? [{ zone, source: hostOf(ip) }] : []
  })
  return [...new Map(sources.map((one) => [`${one.source} ${one.zone}`, one])).values()]
}

/**
 * Returns firewalld if it runs and the backend does not rule it out. A bus that does not let us in is an error where firewalld is
 * asked for; else one line of the log.
 */
export function findFirewalld(
  backend: Backend | undefined,
  log: (line: string) => void,
  find: () => Firewalld | undefined = () => Firewalld.find(),
): Firewalld | undefined {
  if (backend === "nftables" || backend === "iptables") return undefined
  try {
    return find()
  } catch (error) {
    if (backend === "firewalld") throw error
    log(String(error))
    return undefined
  }
}

/**
 * Makes addresses sources of a zone, and all others again that the table has a note of: firewalld forgets them when it is reloaded
 * or started anew. Of these a failure is one line of the log. Throws `CniError`.
 */
export function addSources(
  firewalld: Firewalld,
  zone: string,
  addresses: readonly Uint8Array[],
  socket: NetlinkSocket | undefined,
  log: (line: string) => void,
  undo: Undo,
): void {
  const present = new Map<string, string[]>()
  const isThere = ({ zone, source }: Source) =>
    present.getOrInsertComputed(zone, () => firewalld.listSources(zone)).includes(source)
  for (const source of addresses.map(hostOf)) {
    if (isThere({ zone, source })) continue
    firewalld.addSource(zone, source)
    undo.defer("add a source of firewalld", () => firewalld.removeSource(zone, source))
  }
  const own = new Set(addresses.map(hostOf))
  for (const other of sourcesOf(socket ? listAddresses(socket) : [])) {
    try {
      if (!own.has(other.source) && !isThere(other)) firewalld.addSource(other.zone, other.source)
    } catch (error) {
      log(String(error))
    }
  }
}

/** Removes all of the sources, also when one cannot be removed. Throws `CniError` with the first that could not. */
export function removeSources(firewalld: Firewalld, sources: readonly Source[]): void {
  let failure: unknown
  for (const { zone, source } of sources) {
    try {
      firewalld.removeSource(zone, source)
    } catch (error) {
      failure ??= error
    }
  }
  if (failure !== undefined) throw failure
}

/** Checks that firewalld has these sources. Throws `CniError` that names the first that it has not. */
export function checkSources(firewalld: Firewalld, sources: readonly Source[]): void {
  for (const { zone, source } of sources) {
    const present = firewalld.listSources(zone)
    if (present.includes(source)) continue
    const what = `Cannot find the address ${source} in zone "${zone}" of firewalld`
    const found = present.join(", ") || "none"
    throw new CniError(Code.Internal, `${what}: expected it among its sources; found ${found}`, {
      details: "firewalld forgets sources when it is reloaded; the next ADD of any container adds all of them again",
    })
  }
}
