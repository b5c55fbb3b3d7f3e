import {
  findLink,
  getLink,
  IFF_UP,
  type Link,
  type LinkChange,
  listLinks,
  RouteSocket,
  setLink,
} from "../netlink/mod.ts"
import { Netns } from "../netns/mod.ts"
import { CniError, Code, type Owner, ownerComment } from "../types/mod.ts"
import { Failures, type Undo } from "../undo/mod.ts"
import { aliasedFormer, deleteRecord, type Former, formerOf, readRecord, writeRecord } from "./record.ts"

/** Where a device is moved to, and whose it becomes: an attachment on the way to being made. */
interface Taking {
  call: { netns: string; ifName: string }
  owner: Owner
  host: RouteSocket
  sandbox: Netns
  inside: RouteSocket
  undo: Undo
}

/**
 * Gives a container a device of the host as its interface, like `ip link set DEVICE netns NS name IFNAME`. What the device was
 * is written on it before. Throws `CniError`.
 */
export function takeDevice({ call, host, sandbox, inside, owner, undo }: Taking, device: Link): Link {
  const comment = ownerComment(owner)
  const isOwn = (each: string) => each === comment
  writeRecord(host, device, owner, sandbox.inode)
  undo.defer(`take "${device.name}"`, () => restoreOnHost(host, isOwn) || giveBackFrom(host, sandbox, isOwn))
  try {
    setLink(host, device, { netnsFd: sandbox.fd, name: call.ifName, alias: device.name })
  } catch (cause) {
    const moved = findLink(inside, call.ifName) // if it is the answer that was lost
    if (moved && readRecord(moved)?.owner === comment) return moved
    throw new CniError(Code.Internal, `Cannot move "${device.name}" to "${call.netns}" as "${call.ifName}"`, { cause })
  }
  const link = getLink(inside, call.ifName)
  const holder = readRecord(link)?.owner
  if (holder === comment) return link
  giveBack(host, inside, link, formerOf(device))
  const other = holder ?? "another ADD"
  throw new CniError(Code.TryAgainLater, `Cannot take the device "${device.name}": ${other} takes it at the same time`)
}

/** Restores the devices of these owners that the host has. Returns whether there was one. Throws `CniError`. */
export function restoreOnHost(host: RouteSocket, isWanted: (owner: string) => boolean): boolean {
  return forEach(listLinks(host, isOf(isWanted)), (link) => restoreDevice(host, link))
}

/** Gives back the device of this owner that is in a namespace. Returns whether there was one. Throws `CniError`. */
export function giveBackFrom(host: RouteSocket, netns: Netns, isWanted: (owner: string) => boolean): boolean {
  using inside = netns.run(() => RouteSocket.open())
  const found = listLinks(inside, isOf(isWanted, netns.inode))
  const link = found.find(isHardware) ?? found[0]
  if (link) giveBack(host, inside, link)
  return link !== undefined
}

/** Whether a link's record says one of these owners, for this namespace if it is known. */
export function isOf(isWanted: (owner: string) => boolean, inode?: bigint): (link: Link) => boolean {
  return (link) => isWanted(readRecord(link, inode)?.owner ?? "")
}

/** Whether it is no link that was made by netlink, as any container can make them. */
export function isHardware({ kind, attributes }: Link): boolean {
  return kind === "" || attributes.parentName !== undefined
}

/** Does something with each device of a list, and throws the errors at the end. Returns whether there was one. */
export function forEach<T>(items: readonly T[], act: (item: T) => void): boolean {
  const failures = new Failures()
  for (const item of items) failures.attempt("give back a device", () => act(item))
  failures.throwIfAny()
  return items.length > 0
}

/** Moves a device to the host, and makes it what it was there. Throws `CniError`, and then the container has it as before. */
export function giveBack(host: RouteSocket, inside: RouteSocket, link: Link, written = readRecord(link)?.former): void {
  const former = written ?? aliasedFormer(link) ?? { name: link.name, alias: "" }
  const { name, alias } = former
  const refusal = `Cannot give back "${link.name}" as "${name}"`
  if (findLink(host, name)) {
    throw new CniError(Code.Internal, `${refusal}: the host has an interface of that name`, {
      details: "rename that one, and DEL again",
    })
  }
  setLink(inside, link, { up: false })
  // Renamed before it is on the host: udev would look at it under the container's name, too.
  if (link.name !== name && !findLink(inside, name)) setLink(inside, link, { name })
  try {
    using home = Netns.own()
    setLink(inside, link, { netnsFd: home.fd, name, alias })
  } catch (cause) {
    const isHere = findLink(inside, link.index) !== undefined
    if (isHere) setLink(inside, link, { name: link.name, up: (link.flags & IFF_UP) !== 0 })
    // It may be the answer that was lost, or another DEL that was first: then the host has it.
    if (isHere || !isSame(link, findLink(host, name))) throw new CniError(Code.Internal, refusal, { cause })
  }
  restoreDevice(host, getLink(host, name), former)
}

/** Whether a link of the host is the device that a container had. */
function isSame(link: Link, onHost: Link | undefined): boolean {
  return onHost !== undefined && onHost.mac === link.mac && readRecord(onHost)?.owner === readRecord(link)?.owner
}

/** Makes a device of the host what it was before a container had it, and takes the record off. Throws `CniError`. */
export function restoreDevice(host: RouteSocket, link: Link, former = readRecord(link)?.former): void {
  const failures = new Failures()
  for (const change of changesTo(link, former)) {
    const [what = ""] = Object.keys(change)
    failures.attempt(`restore ${what} of "${former?.name}"`, () => setLink(host, link, change))
    if (what === "name") failures.throwIfAny() // its record stays, and another DEL may find the name free
  }
  // What a next DEL may do better it knows by the record.
  if (!failures.mayPass) failures.attempt(`clear the names of "${link.name}"`, () => deleteRecord(host, link))
  failures.throwIfAny()
}

function changesTo(link: Link, former: Former | undefined): LinkChange[] {
  if (!former) return []
  const { name, alias, mac = link.mac, mtu = link.mtu, up } = former
  return [
    ...(name === link.name ? [] : [{ name }]),
    ...(alias === (link.attributes.alias ?? "") ? [] : [{ alias }]),
    ...(mac === link.mac ? [] : [{ mac }]),
    ...(mtu === link.mtu ? [] : [{ mtu }]),
    ...(up === undefined ? [] : [{ up }]),
  ]
}
