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

/** Time for the kernel to put a device on the host when the device's namespace no longer exists. */
export const RETURN_DEADLINE_MS = 1000

/** A device without a record, which the Go suite or an earlier version of this one has moved, as DEL sees it. */
export interface Unrecorded {
  /** The container's namespace and the device's name there, if the namespace exists. */
  namespace: NamespaceFile
  ifName: string
  log: (line: string) => void
  /** Its name on the host, where the configuration says it. */
  name: string | undefined
  /** Whether a device can be the configuration's. */
  mayBe: (link: Link) => boolean
  /** Looks whether the host has the device again. Undefined where there is nothing to wait for. */
  hasReturned?: (() => boolean) | undefined
}

/**
 * Gives back a device of which nothing is written down but what its container may have changed. So only hardware comes to the host, down,
 * without alias and other names, with `accept_ra` 0, and under a name that the configuration says, or that means nothing.
 * What the kernel does not let go is a line in the log: DEL could do no better the next time. Throws `CniError` for what may pass.
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
    const link = moveHome(host, inside, named, harmless)
    refuseAdvertisements(link.name)
  })
  if (failures.mayPass) failures.throwIfAny()
  try {
    failures.throwIfAny()
  } catch (error) {
    log(`"${ifName}" of ${markOf(owner)} stays in its namespace: ${error}`)
  }
}

/** Whether a link is a device that an attachment was given: the DEL of that attachment gives it back. */
function isRecorded(link: Link, { inode }: Netns): boolean {
  const { permanentMac, ...found } = identityOf(link)
  return new DeviceRecords().list().some(({ record: { netns, device } }) => {
    return netns === inode && device.permanentMac === permanentMac && isAlike(found, device)
  })
}

/** The wanted name if it can be had, or one like those that the kernel gives to devices whose namespace no longer exists. */
function freeName(host: NetlinkSocket, wanted: string | undefined): string {
  if (wanted !== undefined && interfaceName.check(wanted) !== undefined && !findLink(host, wanted)) return wanted
  let number = 0
  while (findLink(host, `dev${number}`)) number++
  return `dev${number}`
}

/**
 * The hardware of the host that the Go suite has moved and the kernel has put back: it has the wanted name as its alias, under the
 * name that the kernel or the runtime has given it. The alias is the container's to write: it only tells among devices which of them gets
 * the name that the configuration says. Throws `NetlinkError`.
 */
export function findReturnedByKernel(host: NetlinkSocket, name: string): Link | undefined {
  const found = listLinks(host, (link) => isHardware(identityOf(link)) && link.attributes.alias === name)
  return found.length === 1 && interfaceName.check(name) !== undefined ? found[0] : undefined
}

/**
 * Gives such a device its former name, sets it down, removes the alias, and sets `accept_ra` to 0. Throws
 * `NetlinkError`.
 */
export function renameReturnedByKernel(host: NetlinkSocket, { index }: Link, name: string): Link {
  setLink(host, getLink(host, index), { up: false })
  setLink(host, getLink(host, index), { name, alias: "" })
  refuseAdvertisements(name)
  return getLink(host, index)
}
