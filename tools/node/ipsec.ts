import { readTextFile } from "../../pkg/libc/mod.ts"
import { type Ipsec, type IpsecDirection, type IpsecPolicy, readIpsec } from "../../pkg/netlink/mod.ts"
import { AF_INET, type Cidr, contains, familyOf, formatCidr } from "../../pkg/types/mod.ts"

/** The host's IPsec policies, and whether a daemon creates missing states on demand. */
export interface HostIpsec extends Ipsec {
  readonly hasDaemon: boolean
}

export const noIpsec: HostIpsec = { policies: [], states: [], blockedByDefault: [], hasDaemon: false }

/** Reads the host's policies. Throws `NetlinkError`. */
export function readHostIpsec(): HostIpsec {
  const ipsec = readIpsec()
  return { ...ipsec, hasDaemon: ipsec.policies.some(({ templates }) => templates.length > 0) && hasListener() }
}

/** NETLINK_XFRM, and the multicast group of requests for missing states: XFRMNLGRP_ACQUIRE, <linux/xfrm.h>. */
const NETLINK_XFRM = 6
const ACQUIRE_GROUP = 1

/** Reports whether a program in this namespace, such as strongSwan, receives requests for missing states. */
function hasListener(): boolean {
  const rows = readTextFile("/proc/thread-self/net/netlink").trim().split("\n").slice(1)
  return rows.some((row) => {
    const [, protocol, , groups = "0"] = row.trim().split(/\s+/) // the columns are sk, Eth, Pid, Groups and others
    return Number(protocol) === NETLINK_XFRM && (Number.parseInt(groups, 16) & ACQUIRE_GROUP) !== 0
  })
}

/** Returns why a policy drops plain packets: it blocks, or requires a state that no daemon creates. */
export function whyBlocked({ isBlocking, templates, direction }: IpsecPolicy, ipsec: HostIpsec): string | undefined {
  if (isBlocking) return "blocks them"
  const asked = templates.filter(({ isOptional }) => !isOptional)
  if (asked.length === 0) return undefined
  if (direction !== "out") return "only decapsulates them"
  const isThere = (template: (typeof asked)[number]) =>
    ipsec.states.some(
      ({ protocol, reqid, isTunnel, dst }) =>
        protocol === template.protocol &&
        isTunnel === template.isTunnel &&
        (template.reqid === 0 || reqid === template.reqid) &&
        (!isTunnel || dst.every((byte, at) => byte === template.dst[at])),
    )
  return ipsec.hasDaemon || asked.every(isThere) ? undefined : "requires an IPsec state that does not exist"
}

/** A policy that may match a packet. The default policy of a direction matches all packets that no other matches. */
export interface FoundPolicy {
  readonly policy: IpsecPolicy
  readonly isDefault: boolean
}

/** Returns the policies of a family in the kernel's lookup order. Blocking defaults are at the end. */
export function policiesOf({ policies, blockedByDefault }: Ipsec, family: number): FoundPolicy[] {
  const all: Cidr = { ip: new Uint8Array(family === AF_INET ? 4 : 16), prefix: 0 }
  const defaults = blockedByDefault.map((direction: IpsecDirection): FoundPolicy => {
    const rest = { priority: 0, index: 0, templates: [], isNarrow: false }
    return {
      isDefault: true,
      policy: { ...rest, family: family as IpsecPolicy["family"], direction, src: all, dst: all, isBlocking: true },
    }
  })
  const own = policies.filter((policy) => policy.family === family).map((policy) => ({ policy, isDefault: false }))
  return [...own, ...defaults]
}

export function describePolicy({ policy: { src, dst, direction }, isDefault }: FoundPolicy): string {
  if (isDefault) return `the default IPsec policy of direction ${direction}`
  return `the IPsec policy "src ${formatCidr(src)} dst ${formatCidr(dst)} dir ${direction}"`
}

/** Returns the first policy that matches a packet. Skips policies for a single protocol, port or mark. */
export function findPolicy(
  ipsec: Ipsec,
  { direction, source, destination }: { direction: IpsecDirection; source: Uint8Array; destination: Uint8Array },
): FoundPolicy | undefined {
  return policiesOf(ipsec, familyOf(source)).find(
    ({ policy }) =>
      policy.direction === direction &&
      !policy.isNarrow &&
      contains(policy.src, source) &&
      contains(policy.dst, destination),
  )
}
