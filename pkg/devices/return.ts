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
 * Moves an attachment's device back to the host with its former name and settings, from the namespace it was moved to.
 * When the kernel has already moved it to the host, it is renamed there. A device that no longer exists is success.
 * Throws `CniError`.
 */
export function returnDevice(host: RouteSocket, { owner, ...place }: { owner: Owner } & Unrecorded): void {
  const kept = readAndReturn(host, owner, place.namespace)
  if (kept === "none") returnUnrecorded(host, owner, place)
  else if (kept) awaitReturn(host, kept)
}

/** Returns the record when the device is hardware that is nowhere yet. */
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

/** The kernel deletes a namespace in its own time; then hardware is on the host. */
function awaitReturn(host: RouteSocket, kept: KeptRecord): void {
  using namespace = findNamespace(kept.record)
  if (namespace) return // the container has moved it on
  using events = RouteSocket.subscribe(RouteGroup.Link)
  if (waitUntil(events, RETURN_DEADLINE_MS, () => findOnHost(host, kept) !== undefined)) readAndReturn(host, kept.owner)
}

/**
 * Makes the device of a record what it was. Returns whether it is there. The record of hardware that is nowhere stays, since
 * the kernel will put it on the host, where GC or the next ADD finds it, and so does that of a pair's end which its container has
 * hidden; any other device was deleted with its namespace. The caller holds the lock of the records. Throws `CniError`.
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
    // A device that the kernel has put on the host has the name that its container gave it.
    if (findLink(host, record.former.name)) restoreReturned(host)
    restoreDevice(host, moveHome(host, inside, link, record.former, kept), kept)
    return true
  }
  if (!isHardware(record.device) && !mayBeHidden(host, record)) new DeviceRecords().remove(owner)
  return false
}

/**
 * Restores all recorded devices that the host has again, of every attachment: a container can have the kernel put its hardware there
 * at any time, under a name of its choice. The caller holds the lock of the records. What cannot be restored stays as it is.
 */
export function restoreReturned(host: RouteSocket): void {
  const all = new DeviceRecords().list()
  const links = all.length > 0 ? listLinks(host) : []
  const failures = new Failures() // a later ADD of that device, or its DEL, tells them
  for (const kept of all) {
    const link = findAmong(links, kept)
    if (link) failures.attempt("restore a device", () => restoreDevice(host, link, kept))
  }
}

/** Likewise for who does not hold the lock: a name that the host needs may be on one of them. Throws `CniError`. */
export function restoreAllReturned(host: RouteSocket): void {
  using _lock = new DeviceRecords().lock()
  restoreReturned(host)
}

/** Moves the devices of this network that belong to no valid attachment back to the host. Throws `CniError`. */
export function returnOrphans(network: string, valid: readonly Owner[]): void {
  using host = RouteSocket.open()
  const records = new DeviceRecords()
  using _lock = records.lock()
  const kept = new Set(valid.map(ownerComment))
  const failures = new Failures()
  for (const owner of records.listOwners(network)) {
    if (kept.has(ownerComment(owner))) continue
    failures.attempt(`give back the device of ${ownerComment(owner)}`, () => {
      const record = records.read(owner)
      if (record) returnRecorded(host, { owner, record })
      else records.remove(owner)
    })
  }
  failures.throwIfAny()
}
