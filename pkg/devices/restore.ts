import { isErrno, unlessErrno } from "../libc/mod.ts"
import {
  addAltNames,
  deleteAltNames,
  deleteLinks,
  findLink,
  getLink,
  IFF_UP,
  LINK_OPTIONS,
  type Link,
  type LinkChange,
  listLinks,
  type NetlinkSocket,
  type RouteSocket,
  setLink,
} from "../netlink/mod.ts"
import { Netns } from "../netns/mod.ts"
import { tryWriteSysctl } from "../sysctl/mod.ts"
import { CniError, Code } from "../types/mod.ts"
import { Failures } from "../undo/mod.ts"
import { isVouchedFor } from "./identity.ts"
import { DeviceRecords, type Former, type KeptRecord, markOf } from "./record.ts"

/** The number of alternative names that one request removes, because a container can add thousands. */
const NAMES_AT_ONCE = 256

/**
 * Moves a device to the host, like `ip link set DEVICE netns HOST name NAME`. First sets it down, and gives it its
 * former name if that is free on the host, so that udev sees only one name. Removes all alternative names except the
 * former ones. A device with a record keeps the owner's mark, if it still has one, and gets its former index, if that
 * is free. If this call is killed, the next call finds the device by mark and index. If it throws `CniError`, the
 * container still has the device.
 */
export function moveHome(
  { host, inside, link }: { host: RouteSocket; inside: RouteSocket; link: Link },
  { name, alias, altNames }: Pick<Former, "name" | "alias" | "altNames">,
  kept?: KeptRecord,
): Link {
  const refusal = `Cannot return "${link.name}" as "${name}"`
  if (findLink(host, name)) {
    throw new CniError(Code.Internal, `${refusal}: the host has an interface of that name`, {
      details: "rename it, and repeat DEL",
    })
  }
  setLink(inside, link, { up: false })
  deleteLinks(inside, listStacked(inside, link))
  const isFree = link.name !== name && !findLink(inside, name)
  try {
    keepAltNames(inside, link, kept ? [...altNames, markOf(kept.owner)] : altNames)
    if (isFree) setLink(inside, link, { name })
    using home = Netns.own()
    const formerIndex = kept?.record.hostIndex
    const isIndexFree = formerIndex !== undefined && !findLink(host, formerIndex)
    setLink(inside, link, { netnsFd: home.fd, name, alias, ...(isIndexFree ? { newIndex: formerIndex } : {}) })
  } catch (cause) {
    if (findLink(inside, link.index)) {
      setLink(inside, link, { name: link.name, up: (link.flags & IFF_UP) !== 0 })
      throw new CniError(Code.Internal, refusal, { cause })
    }
    // The answer was lost, or the container deleted or moved the device.
    if (findLink(host, name)?.mac !== link.mac) throw new CniError(Code.Internal, refusal, { cause })
  }
  return getLink(host, name)
}

/**
 * Returns the links that a container created on top of a device, such as VLANs and macvlans. The kernel keeps them in
 * the container when the device moves to the host, so the container could use the device through them. Excludes the
 * peer of a pair.
 */
function listStacked(inside: NetlinkSocket, { index, attributes }: Link): Link[] {
  return listLinks(inside, (each) => {
    const { link, linkNetnsId } = each.attributes
    return link === index && linkNetnsId === undefined && each.index !== index && each.index !== attributes.link
  })
}

/** Removes all alternative names except `kept`, because the host may need a removed name for another link. */
function keepAltNames(route: NetlinkSocket, link: Link, kept: readonly string[]): void {
  const wrong = (link.attributes.altNames ?? []).filter((name) => !kept.includes(name))
  for (let at = 0; at < wrong.length; at += NAMES_AT_ONCE) deleteNames(route, link, wrong.slice(at, at + NAMES_AT_ONCE))
}

function deleteNames(route: NetlinkSocket, link: Link, names: string[]): void {
  try {
    deleteAltNames(route, link, names)
  } catch (error) {
    if (!isErrno(error, "EINVAL", "ENOENT")) throw error
    // The container removed one of them.
    if (names.length > 1) for (const name of names) deleteNames(route, link, [name])
  }
}

/** Restores the recorded state of a device on the host, and removes the record. Throws `CniError`. */
export function restoreDevice(host: RouteSocket, link: Link, { owner, record }: KeptRecord): void {
  const { former, device } = record
  const failures = new Failures()
  for (const change of changesTo(link, former)) {
    const [what = ""] = Object.keys(change)
    failures.attempt(`restore ${what} of "${former.name}"`, () => setLink(host, link, change))
    if (what === "name") failures.throwIfAny() // its record stays, and another DEL may find the name free
  }
  const isUp = former.up && isVouchedFor(device)
  if (!isVouchedFor(device)) refuseAdvertisements(former.name)
  failures.attempt(`restore the state of "${former.name}"`, () => setLink(host, link, { up: isUp }))
  // The alternative names are removed last, because the mark is one of them. After a temporary failure, or if this call
  // is killed, the next DEL finds the device by its mark, and the remaining steps in its record.
  if (!failures.mayPass)
    failures.attempt(`restore the names of "${former.name}"`, () => restoreAltNames(host, link, former.altNames))
  if (!failures.mayPass) failures.attempt("remove the record", () => new DeviceRecords().remove(owner))
  failures.throwIfAny()
}

function changesTo(link: Link, { name, alias, mac, mtu, options }: Former): LinkChange[] {
  return [
    ...(name === link.name ? [] : [{ name }]),
    ...(alias === (link.attributes.alias ?? "") ? [] : [{ alias }]),
    ...(mac === link.mac ? [] : [{ mac }]),
    ...(mtu === link.mtu ? [] : [{ mtu }]),
    ...(options === (link.flags & LINK_OPTIONS) ? [] : [{ options }]),
  ]
}

function restoreAltNames(host: RouteSocket, link: Link, former: readonly string[]): void {
  keepAltNames(host, link, former)
  for (const name of former) {
    if (link.attributes.altNames?.includes(name)) continue
    unlessErrno(() => addAltNames(host, link, [name]), "EEXIST") // another link has this name now
  }
}

/** Stops the host from adding addresses and routes of router advertisements on an interface: `accept_ra` 0. */
export function refuseAdvertisements(name: string): void {
  tryWriteSysctl(`net/ipv6/conf/${name}/accept_ra`, "0")
}
