import { interfaceName } from "../config/mod.ts"
import { waitUntil } from "../ip/mod.ts"
import {
  findLink,
  getLink,
  type Link,
  listLinks,
  type NetlinkSocket,
  RouteGroup,
  RouteSocket,
  setLink,
} from "../netlink/mod.ts"
import { type NamespaceFile, Netns } from "../netns/mod.ts"
import type { Owner } from "../types/mod.ts"
import { Failures } from "../undo/mod.ts"
import { identityOf, isAlike, isHardware } from "./identity.ts"
import { DeviceRecords, markOf } from "./record.ts"
import { moveHome, refuseAdvertisements } from "./restore.ts"

/** The timeout for the kernel to move a device to the host after its namespace was deleted. */
export const RETURN_DEADLINE_MS = 1000

/** A device without a record, for DEL. The Go suite or an earlier version of this suite moved it. */
export interface Unrecorded {
  /** The container's namespace and the device's name in it, if the namespace exists. */
  namespace: NamespaceFile
  ifName: string
  log: (line: string) => void
  /** The device's name on the host, if the configuration has it. */
  name: string | undefined
  mayBe: (link: Link) => boolean
  /** Reports whether the host has the device again. Undefined if there is nothing to wait for. */
  hasReturned?: (() => boolean) | undefined
}

/**
 * Moves a device without a record back to the host. Its container may have changed all of its settings, so this moves
 * only hardware: down, without alias and alternative names, with `accept_ra` 0, and with the configured name or one
 * like "dev0". Logs a permanent refusal of the kernel, because another DEL could not do better. Throws `CniError` for
 * temporary failures.
 */
export function returnUnrecorded(host: RouteSocket, owner: Owner, place: Unrecorded): void {
  using sandbox = Netns.find(place.namespace)
  if (sandbox) giveBackUnrecorded(host, sandbox, owner, place)
  else if (place.hasReturned) {
    using events = RouteSocket.subscribe(RouteGroup.Link)
    waitUntil(events, RETURN_DEADLINE_MS, place.hasReturned)
  }
}

function giveBackUnrecorded(host: RouteSocket, sandbox: Netns, owner: Owner, place: Unrecorded): void {
  const { ifName, mayBe, name, log } = place
  using inside = sandbox.run(() => RouteSocket.open())
  const named = findLink(inside, ifName)
  if (!named || !isHardware(identityOf(named)) || !mayBe(named) || isRecorded(named, sandbox)) return
  const failures = new Failures()
  failures.attempt(`give back "${ifName}"`, () => {
    const harmless = { name: freeName(host, name), alias: "", altNames: [] }
    const link = moveHome({ host, inside, link: named }, harmless)
    refuseAdvertisements(link.name)
  })
  if (failures.mayPass) failures.throwIfAny()
  try {
    failures.throwIfAny()
  } catch (error) {
    log(`"${ifName}" of ${markOf(owner)} stays in its namespace: ${error}`)
  }
}

/**
 * Reports whether a link is the recorded device of an attachment. If so, the DEL of that attachment returns the device.
 */
function isRecorded(link: Link, { inode }: Netns): boolean {
  const { permanentMac, ...found } = identityOf(link)
  return new DeviceRecords().list().some(({ record: { netns, device } }) => {
    return netns === inode && device.permanentMac === permanentMac && isAlike(found, device)
  })
}

/** Returns the wanted name if it is free, or a name like the kernel's for devices of deleted namespaces. */
function freeName(host: NetlinkSocket, wanted: string | undefined): string {
  if (wanted !== undefined && interfaceName.check(wanted) !== undefined && !findLink(host, wanted)) return wanted
  let number = 0
  while (findLink(host, `dev${number}`)) number++
  return `dev${number}`
}

/**
 * Returns the hardware on the host that the Go suite had moved to a container and the kernel has moved back. Its alias
 * is its former name; its present name is from the kernel or the runtime. The container can set the alias, so the alias
 * only selects the device that gets the configured name. Throws `NetlinkError`.
 */
export function findReturnedByKernel(host: NetlinkSocket, name: string): Link | undefined {
  const found = listLinks(host, (link) => isHardware(identityOf(link)) && link.attributes.alias === name)
  return found.length === 1 && interfaceName.check(name) !== undefined ? found[0] : undefined
}

/** Gives a device its former name, sets it down, removes the alias, sets `accept_ra` to 0. Throws `NetlinkError`. */
export function renameReturnedByKernel(host: NetlinkSocket, { index }: Link, name: string): Link {
  setLink(host, getLink(host, index), { up: false })
  setLink(host, getLink(host, index), { name, alias: "" })
  refuseAdvertisements(name)
  return getLink(host, index)
}
