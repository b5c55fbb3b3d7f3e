import { interfaceName } from "../config/mod.ts"
import { encodeUtf8 } from "../engine/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { addAltNames, deleteAltNames, IFF_UP, type Link, type NetlinkSocket } from "../netlink/mod.ts"
import { CniError, Code, type Owner, ownerComment } from "../types/mod.ts"

/** ALTIFNAMSIZ without the NUL, <linux/if.h>. */
const ALTNAME_BYTES = 127

/** What a device was on the host, and shall be again. What is undefined stays as it is. */
export interface Former {
  name: string
  alias: string
  up?: boolean
  mtu?: number
  mac?: string
}

/** What a device that a container has says of itself. */
export interface DeviceRecord {
  /** The attachment's, as `ownerComment` writes it. */
  owner: string | undefined
  /** Undefined when ADD was killed before it was written down: nothing was changed yet. */
  former: Former | undefined
}

/**
 * The record is in two alternative names of the device, which go with it wherever it goes: "network:container:interface" and
 * "name:up:MTU:MAC:namespace:alias". The alias is the former name, from which the Go suite's DEL gives the name back.
 */
export function writeRecord(host: NetlinkSocket, device: Link, owner: Owner, netns: bigint): void {
  const { name, up, mtu, mac, alias } = formerOf(device)
  const state = [name, up ? "up" : "down", mtu, mac?.replaceAll(":", "-"), netns, encodeURIComponent(alias)].join(":")
  if (encodeUtf8(state).length > ALTNAME_BYTES) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot take the device "${name}": its alias is too long to be kept`)
  }
  const written: string[] = []
  try {
    for (const text of [ownerComment(owner).replaceAll("/", ":"), state]) {
      addAltNames(host, device, [text])
      written.push(text)
    }
  } catch (cause) {
    deleteNames(host, device, written)
    throw new CniError(Code.TryAgainLater, `Cannot take the device "${name}": it cannot be marked`, { cause })
  }
}

/**
 * Reads a device's record; undefined when it has none, or one for another namespace than `inside`: the Go suite leaves it on a
 * device that it gives back, and that it may give to another container. Of two ADDs at once the first is the owner.
 */
export function readRecord(link: Link, inside?: bigint): DeviceRecord | undefined {
  const names = recordNames(link).map((name) => name.split(":"))
  const owner = names.find((parts) => parts.length === 3)?.join("/")
  const [name = "", up, mtu, mac = "", netns = "", alias = ""] = names.find((parts) => parts.length === 6) ?? []
  if (name === "") return owner === undefined ? undefined : { owner, former: undefined }
  const former = { name, up: up === "up", mtu: Number(mtu), mac: mac.replaceAll("-", ":"), alias: decodeAlias(alias) }
  return inside !== undefined && BigInt(netns) !== inside ? undefined : { owner, former }
}

/** What a device of the host is. */
export function formerOf({ name, flags, mtu, mac, attributes }: Link): Former {
  return { name, alias: attributes.alias ?? "", up: (flags & IFF_UP) !== 0, mtu, mac }
}

/** What the Go suite has written down: the name, in the alias. Undefined for an alias that is no name. */
export function aliasedFormer({ attributes: { alias = "" } }: Link): Former | undefined {
  const name = interfaceName.check(alias)
  return name === undefined ? undefined : { name, alias: "" }
}

/** Under which name a link was on the host. */
export function formerName(link: Link): string | undefined {
  return (readRecord(link)?.former ?? aliasedFormer(link))?.name
}

/** Takes the record off a device. */
export function deleteRecord(route: NetlinkSocket, link: Link): void {
  deleteNames(route, link, recordNames(link).reverse()) // the owner last, by whom a killed DEL is finished
}

/** What another ADD of the same device has taken off, or has moved with the device, is off. */
function deleteNames(route: NetlinkSocket, link: Link, names: readonly string[]): void {
  for (const name of names) {
    try {
      deleteAltNames(route, link, [name])
    } catch (error) {
      if (!isErrno(error, "EINVAL", "ENODEV", "ENOENT")) throw error
    }
  }
}

function recordNames({ attributes: { altNames = [] } }: Link): string[] {
  return altNames.filter((name) => /^[^:]+:[^:]+:[^:]+$|^[^:/\s]{1,15}:(up|down):\d+:[0-9a-f-]*:\d+:[^:]*$/.test(name))
}

/** What is no longer what was written counts as nothing: the container may change it. */
function decodeAlias(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ""
  }
}
