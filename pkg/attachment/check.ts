import { addressesOf, mismatch } from "../ip/mod.ts"
import { findLink, IFF_UP, type Link, type NetlinkSocket } from "../netlink/mod.ts"
import { type Cidr, CniError, Code, type Interface, type Owner, ownerComment, type Result } from "../types/mod.ts"
import type { InterfaceKind } from "./kinds.ts"

/** The part of ADD's result that describes the container's interface. */
export interface Recorded {
  prevResult: Result
  interface: Interface
  /** The result's IP entries for this interface, and the addresses in them. */
  ips: Result["ips"]
  addresses: Cidr[]
}

/**
 * Returns the part of `prevResult` that describes the container's interface. Throws `CniError`, with code 7 if
 * `prevResult` is missing.
 */
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
 * Returns the container's interface. Throws `CniError` if it does not exist or is not of `kind`. If `kind` is
 * undefined, accepts any kind, because an earlier plugin of the chain may have created the interface.
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

/** Returns the error for a container's interface that is not a veth with its peer on the host. */
export function noHostEnd({ name, kind }: Link): CniError {
  return mismatch(`interface "${name}"`, "a veth with its peer on the host", `kind "${kind}"`)
}

/**
 * Checks that `found` is the number of the word `expected` in `words`. `what` names the setting in the error. Throws
 * `CniError`.
 */
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

/** Checks that a link has the MAC of a result's interface, if the result has one. Throws `CniError`. */
export function checkMac(link: Link, { mac }: Interface): void {
  if (mac && mac.toLowerCase() !== link.mac) throw mismatch(`MAC of "${link.name}"`, mac, link.mac)
}

/** Checks that a link has the MAC and the MTU of a result's interface, if the result has them. Throws `CniError`. */
export function checkInterface(link: Link, recorded: Interface): void {
  checkMac(link, recorded)
  const { mtu } = recorded
  if (mtu && mtu !== link.mtu) throw mismatch(`MTU of "${link.name}"`, String(mtu), String(link.mtu))
}

/** Returns the result's entry for a link of the host, or undefined if none exists. */
export function findRecordedOnHost({ interfaces }: Result, { name }: Link): Interface | undefined {
  return interfaces.find((each) => each.name === name && !each.sandbox)
}

/** Checks that a link is up; `what` names it in the error. Throws `CniError`. */
export function checkUp({ flags, name }: Link, what: string): void {
  if ((flags & IFF_UP) === 0) throw mismatch(`${what} "${name}"`, "up", "down")
}

/**
 * Checks that the host's end of a pair is up, and has the owner's alias or none. Also checks `mtu`, if given. Throws
 * `CniError`.
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

/** Returns the entry for a link in a result. */
export function describeInterface({ name, mac, mtu }: Link): Interface {
  return { name, mac, mtu }
}
