import { addressesOf, mismatch } from "../ip/mod.ts"
import { findLink, IFF_UP, type Link, type NetlinkSocket } from "../netlink/mod.ts"
import { type Cidr, CniError, Code, type Interface, type Owner, ownerComment, type Result } from "../types/mod.ts"
import type { InterfaceKind } from "./kinds.ts"

/** What ADD has answered for the container's interface. */
export interface Recorded {
  prevResult: Result
  interface: Interface
  /** Those of the result that belong to the interface, and their addresses alone. */
  ips: Result["ips"]
  addresses: Cidr[]
}

/** Reads from a CHECK's prevResult what it is about. Throws `CniError`: code 7 without a prevResult. */
export function readRecorded(call: { network: { prevResult?: Result | undefined }; ifName: string }): Recorded {
  const { prevResult } = call.network
  if (!prevResult) throw new CniError(Code.InvalidNetworkConfig, `Cannot check "${call.ifName}": prevResult is missing`)
  const index = prevResult.interfaces.findLastIndex(({ name, sandbox }) => name === call.ifName && sandbox)
  const recorded = prevResult.interfaces[index]
  if (!recorded) throw mismatch("prevResult", `the interface "${call.ifName}" in a sandbox`, "none")
  const ips = prevResult.ips.filter((ip) => ip.interface === index)
  return { prevResult, interface: recorded, ips, addresses: addressesOf({ ips }) }
}

/**
 * Returns the container's interface. It must be of this kind; `undefined` accepts any kind, for interfaces that an
 * earlier plugin of the chain may have made. Throws `CniError` when it does not exist.
 */
export function expectInterface(
  inside: NetlinkSocket,
  { ifName, netns }: { ifName: string; netns: string },
  kind: InterfaceKind | undefined,
): Link {
  const link = findLink(inside, ifName)
  if (link && (kind === undefined || link.kind === kind)) return link
  throw mismatch(
    `interface "${ifName}" in "${netns}"`,
    kind ? `a ${kind}` : "an interface of any kind",
    link ? `kind "${link.kind}"` : "none",
  )
}

/** The error for a container's interface that has no end on the host. */
export function noHostEnd({ name, kind }: Link): CniError {
  return mismatch(`interface "${name}"`, "a veth with its peer on the host", `kind "${kind}"`)
}

/** Looks whether a setting of a link has the number that the configuration's word for it stands for. Throws `CniError`. */
export function checkSetting<T extends Readonly<Record<string, number>>>(
  what: string,
  words: T,
  expected: keyof T & string,
  found: number | undefined,
): void {
  if (found === words[expected]) return
  const word = Object.keys(words).find((one) => words[one] === found)
  throw mismatch(what, `"${expected}"`, `"${word ?? found}"`)
}

/** Looks whether a link has the MAC that a result says, if it says one. Throws `CniError`. */
export function checkMac(link: Link, { mac }: Interface): void {
  if (mac && mac.toLowerCase() !== link.mac) throw mismatch(`MAC of "${link.name}"`, mac, link.mac)
}

/** Looks whether a link has the MAC and the MTU that a result says, as far as it says them. Throws `CniError`. */
export function checkInterface(link: Link, recorded: Interface): void {
  checkMac(link, recorded)
  const { mtu } = recorded
  if (mtu && mtu !== link.mtu) throw mismatch(`MTU of "${link.name}"`, String(mtu), String(link.mtu))
}

/** What a result says of an interface of the host; undefined when it does not have it. */
export function findRecordedOnHost({ interfaces }: Result, { name }: Link): Interface | undefined {
  return interfaces.find((each) => each.name === name && !each.sandbox)
}

/** Looks whether a link, which the error calls `what`, is up. Throws `CniError`. */
export function checkUp({ flags, name }: Link, what: string): void {
  if ((flags & IFF_UP) === 0) throw mismatch(`${what} "${name}"`, "up", "down")
}

/**
 * Checks that the host's end of a pair is up, has this owner's alias or no alias, and has the given MTU, if one is
 * given. Throws `CniError`.
 */
export function checkHostEnd(end: Link, owner: Owner, { mtu }: { mtu?: number | undefined }): void {
  checkUp(end, "host interface")
  const comment = ownerComment(owner)
  const { alias } = end.attributes
  // The Go suite writes no owner on its links, and containers outlive a change of suite.
  if (alias && alias !== comment) throw mismatch(`alias of host interface "${end.name}"`, comment, alias)
  if (mtu !== undefined && end.mtu !== mtu) {
    throw mismatch(`MTU of host interface "${end.name}"`, String(mtu), String(end.mtu))
  }
}

/** A link as results show it. */
export function describeInterface({ name, mac, mtu }: Link): Interface {
  return { name, mac, mtu }
}
