import { AF_INET, type Cidr, type Family, familyOf, formatCidr } from "../types/mod.ts"
import { attrs, payloadOf } from "./attrs.ts"
import type { Request } from "./channel.ts"
import { bytes, text } from "./codec.ts"
import { dumpFamily } from "./family.ts"
import { struct, u8, u32 } from "./integers.ts"
import type { Ifindex, NamedLink } from "./links.ts"
import { type Message, NLM_F_CREATE, NLM_F_EXCL } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h> */
export const RTM_NEWADDR = 20
const RTM_DELADDR = 21
const RTM_GETADDR = 22

/** <linux/if_addr.h> */
export const IFA_F_TEMPORARY = 0x01
export const IFA_F_NODAD = 0x02
export const IFA_F_DADFAILED = 0x08
export const IFA_F_TENTATIVE = 0x40
export const IFA_F_PERMANENT = 0x80
/** The kernel derives temporary addresses from such addresses: those of router advertisements, and others so marked. */
export const IFA_F_MANAGETEMPADDR = 0x100
/** The flags that a request to add an address may contain, <linux/if_addr.h>. */
const GIVEN = IFA_F_NODAD | 0x10 | 0x100 | 0x200 | 0x400 // HOMEADDRESS, MANAGETEMPADDR, NOPREFIXROUTE, MCAUTOJOIN

/** struct ifaddrmsg, and the attributes after it. */
const addressHeader = struct({ family: u8, prefix: u8, flags: u8, scope: u8, index: u32 })
const addressAttributes = attrs({
  address: [1, bytes], // the peer's address on a point-to-point link, otherwise the same as `local`
  local: [2, bytes],
  label: [3, text],
  broadcast: [4, bytes],
  lifetimes: [6, struct({ preferred: u32, valid: u32, created: u32, updated: u32 })], // struct ifa_cacheinfo
  flags: [8, u32],
})
const addressPayload = payloadOf(addressHeader, addressAttributes)
/** The attributes that `readAddress` needs. Decoding only these saves time on a node with thousands of addresses. */
const { address, local, lifetimes, flags } = addressAttributes.fields
const listedPayload = payloadOf(addressHeader, attrs({ address, local, lifetimes, flags }, { keepsUnknown: false }))

/** An address to add; `noDad` skips duplicate address detection. */
type NewAddress = Cidr & { noDad?: boolean }

/** An address of a link: `ip` has 4 or 16 bytes, network order. */
export interface Address {
  ip: Uint8Array
  prefix: number
  index: Ifindex
  /** IFA_F_* bits. */
  flags: number
  /** The scope: 0 is global, 253 link, 254 host. */
  scope: number
  /** The remaining lifetimes in seconds; undefined for a permanent address. */
  lifetimes?: { preferred: number; valid: number } | undefined
}

/**
 * Adds an address to a link, like `ip addr add IP/PREFIX dev LINK`. An IPv4 address gets the broadcast address of its
 * prefix. `noDad` adds `nodad`. Throws `EEXIST` if the link already has the address.
 */
export function addAddress(route: NetlinkSocket, link: NamedLink, address: NewAddress): void {
  route.execute(toAddAddress(link, address))
}

/** Returns the request of `addAddress`, for `executeAll`. */
export function toAddAddress(link: NamedLink, address: NewAddress): Request {
  const payload = encodeAddress(link.index, address)
  const what = `add address ${formatCidr(address)} to "${link.name}"`
  return { type: RTM_NEWADDR, flags: NLM_F_CREATE | NLM_F_EXCL, what, payload }
}

/** Returns the request that restores an address on its link, with its flags and lifetimes; for `executeAll`. */
export function toRestoreAddress({ ip, prefix, index, flags, lifetimes }: Address): Request {
  const given = flags & GIVEN
  const payload = addressPayload.encode(
    { family: familyOf(ip), prefix, flags: given & 0xff, index },
    { local: ip, address: ip, flags: given, lifetimes: lifetimes && { ...lifetimes, created: 0, updated: 0 } },
  )
  const what = `add address ${formatCidr({ ip, prefix })} to link number ${index}`
  return { type: RTM_NEWADDR, flags: NLM_F_CREATE | NLM_F_EXCL, what, payload }
}

/** Deletes an address from a link, like `ip addr del`. Throws `EADDRNOTAVAIL` if the link does not have it. */
export function deleteAddress(route: NetlinkSocket, link: NamedLink, address: Cidr): void {
  const what = `delete address ${formatCidr(address)} from "${link.name}"`
  route.execute({ type: RTM_DELADDR, what, payload: encodeAddress(link.index, address) })
}

/** Returns the addresses of one link, or of all links in the namespace, like `ip addr show`. */
export function listAddresses(route: NetlinkSocket, link?: NamedLink, family?: Family): Address[] {
  const index = link?.index ?? 0
  const payload = addressHeader.encode({ family, index })
  const what = link ? `list addresses of "${link.name}"` : "list addresses"
  return dumpFamily(route, family, { type: RTM_GETADDR, what, payload }, (message) => {
    const address = readAddress(message)
    return index === 0 || address.index === index ? address : undefined // kernels before 4.20 do not filter by index
  })
}

/** Decodes a message of type `RTM_NEWADDR` or `RTM_DELADDR` from an answer or an event. */
export function readAddress(message: Message): Address {
  const { payload } = message
  const { offsets } = addressHeader
  const found = listedPayload.decodeAttributes(payload)
  const flags = found.flags ?? u8.get(payload, offsets.flags)
  const address: Address = {
    ip: found.local ?? found.address ?? new Uint8Array(payload[offsets.family] === AF_INET ? 4 : 16),
    prefix: u8.get(payload, offsets.prefix),
    index: u32.get(payload, offsets.index) as Ifindex,
    flags,
    scope: u8.get(payload, offsets.scope),
  }
  const { preferred = 0, valid = 0 } = found.lifetimes ?? {}
  if ((flags & IFA_F_PERMANENT) === 0 && found.lifetimes) address.lifetimes = { preferred, valid }
  return address
}

function encodeAddress(index: Ifindex, { ip, prefix, noDad }: NewAddress) {
  const family = familyOf(ip)
  const flags = noDad && family !== AF_INET ? IFA_F_NODAD : undefined
  const broadcast = family === AF_INET && prefix < 31 ? broadcastOf(ip, prefix) : undefined
  return addressPayload.encode({ family, prefix, flags, index }, { local: ip, address: ip, broadcast, flags })
}

/** Returns the address with all host bits set: 10.1.2.255 for 10.1.2.3/24. */
function broadcastOf(ip: Uint8Array, prefix: number): Uint8Array {
  return ip.map((byte, at) => byte | (0xff >> Math.min(8, Math.max(0, prefix - at * 8))))
}
