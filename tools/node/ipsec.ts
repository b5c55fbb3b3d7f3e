import { readTextFile } from "../../pkg/libc/mod.ts"
import { type Ipsec, type IpsecDirection, type IpsecPolicy, readIpsec } from "../../pkg/netlink/mod.ts"
import { AF_INET, type Cidr, contains, familyOf, formatCidr } from "../../pkg/types/mod.ts"

/** The IPsec of the host, and whether a daemon makes states when a packet needs one. */
export interface HostIpsec extends Ipsec {
  readonly hasDaemon: boolean
}

export const noIpsec: HostIpsec = { policies: [], states: [], blockedByDefault: [], hasDaemon: false }

/** Reads the host's policies. Throws `NetlinkError`. */
export function readHostIpsec(): HostIpsec {
  const ipsec = readIpsec()
  return { ...ipsec, hasDaemon: ipsec.policies.some(({ templates }) => templates.length > 0) && hasListener() }
}

/** NETLINK_XFRM, and its group of those who are told that a state is needed: XFRMNLGRP_ACQUIRE, <linux/xfrm.h>. */
const NETLINK_XFRM = 6
const ACQUIRE_GROUP = 1

/** Whether a socket of this namespace is told when a packet needs a state that is not there, as strongSwan's is. */
function hasListener(): boolean {
  const rows = readTextFile("/proc/thread-self/net/netlink").trim().split("\n").slice(1)
  return rows.some((row) => {
    const [, protocol, , groups = "0"] = row.trim().split(/\s+/) // sk Eth Pid Groups …
    return Number(protocol) === NETLINK_XFRM && (Number.parseInt(groups, 16) & ACQUIRE_GROUP) !== 0
  })
}

/** Why a policy drops packets that come to it as they are: it blocks, or asks for a state that is not there and that nothing makes. */
export function whyBlocked({ isBlocking, templates, direction }: IpsecPolicy, ipsec: HostIpsec): string | undefined {
  if (isBlocking) return "blocks them"
  const asked = templates.filter(({ isOptional }) => !isOptional)
  if (asked.length === 0) return undefined
  if (direction !== "out") return "takes them only out of IPsec"
  const isThere = (template: (typeof asked)[number]) =>
    ipsec.states.some(
      ({ protocol, reqid, isTunnel, dst }) =>
        protocol === template.protocol &&
        isTunnel === template.isTunnel &&
        (template.reqid === 0 || reqid === template.reqid) &&
        (!isTunnel || dst.every((byte, at) => byte === template.dst[at])),
    )
  return ipsec.hasDaemon || asked.every(isThere) ? undefined : "sends them by an IPsec state that is not there"
}

/** A policy; the default of a direction is one for all that is left. */
export interface FoundPolicy {
  readonly policy: IpsecPolicy
  readonly isDefault: boolean
}

/** The policies of a family in the order in which the kernel looks at them, the defaults that block at the end. */
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

/** A policy in words. */
export function describePolicy({ policy: { src, dst, direction }, isDefault }: FoundPolicy): string {
  if (isDefault) return `the default policy of direction ${direction}`
  return `the policy "src ${formatCidr(src)} dst ${formatCidr(dst)} dir ${direction}"`
}

/** The first policy for a packet; one that is about a protocol, a port or a mark alone is passed over. */
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
