import { waitUntil } from "../ip/mod.ts"
import { findLink, listLinks, RouteGroup, RouteSocket } from "../netlink/mod.ts"
import type { NamespaceFile } from "../netns/mod.ts"
import { type Owner, ownerComment } from "../types/mod.ts"
import { Failures } from "../undo/mod.ts"
import { findAmong, findInside, findNamespace, findOnHost, mayBeHidden } from "./find.ts"
import { isHardware } from "./identity.ts"
import { DeviceRecords, type KeptRecord } from "./record.ts"
import { moveHome, restoreDevice } from "./restore.ts"
import { RETURN_DEADLINE_MS, returnUnrecorded, type Unrecorded } from "./unrecorded.ts"

/**
 * Moves an attachment's device from its namespace back to the host, with its former name and settings. If the kernel
 * has already moved it to the host, renames it there. A device that no longer exists is not an error. Throws
 * `CniError`.
 */
export function returnDevice(host: RouteSocket, { owner, ...place }: { owner: Owner } & Unrecorded): void {
  const kept = readAndReturn(host, owner, place.namespace)
  if (kept === "none") returnUnrecorded(host, owner, place)
  else if (kept) awaitReturn(host, kept)
}

/**
 * Returns the device to the host. Returns "none" if there is no record, and the record if its hardware was not found.
 */
function readAndReturn(host: RouteSocket, owner: Owner, named?: NamespaceFile): KeptRecord | "none" | undefined {
  const records = new DeviceRecords()
  using _lock = records.lock()
  const record = records.read(owner)
  if (!record) {
    records.remove(owner) // torn, of an earlier boot, or a draft
    return "none"
  }
  const kept = { owner, record }
  return returnRecorded(host, kept, named) || !isHardware(record.device) ? undefined : kept
}

/** Waits for the kernel to move hardware to the host: it deletes a namespace with a delay. */
function awaitReturn(host: RouteSocket, kept: KeptRecord): void {
  using namespace = findNamespace(kept.record)
  if (namespace) return // the container moved it again
  using events = RouteSocket.subscribe(RouteGroup.Link)
  if (waitUntil(events, RETURN_DEADLINE_MS, () => findOnHost(host, kept) !== undefined)) readAndReturn(host, kept.owner)
}

/**
 * Restores the device of a record, and returns true if the device was found. Keeps the record of missing hardware,
 * because the kernel moves hardware to the host, where GC or the next ADD finds it. Also keeps the record of a pair's
 * end that its container may have hidden. Removes other records, because the device was deleted with its namespace. The
 * caller holds the lock of the records. Throws `CniError`.
 */
export function returnRecorded(host: RouteSocket, kept: KeptRecord, named?: NamespaceFile): boolean {
  const { owner, record } = kept
  const onHost = findOnHost(host, kept)
  if (onHost) {
    restoreDevice(host, onHost, kept)
    return true
  }
  using namespace = findNamespace(record, named)
  const link = namespace && findInside(host, namespace, record)
  if (namespace && link) {
    using inside = namespace.run(() => RouteSocket.open())
    // A device that the kernel moved to the host has the name that its container gave it.
    if (findLink(host, record.former.name)) restoreReturned(host)
    restoreDevice(host, moveHome({ host, inside, link }, record.former, kept), kept)
    return true
  }
  if (!isHardware(record.device) && !mayBeHidden(host, record)) new DeviceRecords().remove(owner)
  return false
}

/**
 * Restores the recorded devices that are back on the host. A container can make the kernel move its hardware to the
 * host at any time, under any name. The caller holds the lock of the records. A device that cannot be restored stays
 * unchanged.
 */
export function restoreReturned(host: RouteSocket): void {
  const all = new DeviceRecords().list()
  const links = all.length > 0 ? listLinks(host) : []
  const failures = new Failures() // a later ADD of that device, or its DEL, reports them
  for (const kept of all) {
    const link = findAmong(links, kept)
    if (link) failures.attempt("restore a device", () => restoreDevice(host, link, kept))
  }
}

/** Like `restoreReturned`, but takes the lock. For callers that find a device by its name. Throws `CniError`. */
export function restoreAllReturned(host: RouteSocket): void {
  using _lock = new DeviceRecords().lock()
  restoreReturned(host)
}

/** Returns a network's devices to the host, except those of the attachments in `valid`. Throws `CniError`. */
export function returnOrphans(network: string, valid: readonly Owner[]): void {
  using host = RouteSocket.open()
  const records = new DeviceRecords()
  using _lock = records.lock()
  const kept = new Set(valid.map(ownerComment))
  const failures = new Failures()
  for (const owner of records.listOwners(network)) {
    if (kept.has(ownerComment(owner))) continue
    failures.attempt(`return the device of ${ownerComment(owner)}`, () => {
      const record = records.read(owner)
      if (record) returnRecorded(host, { owner, record })
      else records.remove(owner)
    })
  }
  failures.throwIfAny()
}
