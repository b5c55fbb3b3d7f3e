import { prefixMask } from "../types/mod.ts"
import { type DataType, dataTypes } from "./data-types.ts"
import type { Expression } from "./expressions.ts"

/** A field of a packet, or of the kernel's metadata of a packet, that a rule can match. */
export interface Field {
  /** The name in `nft`'s syntax: "ip saddr". */
  readonly name: string
  readonly type: DataType
  /** Whether the field is in the packet. Only such a field can be loaded in part, to compare its first bytes. */
  readonly payload?: true
  /** The bits to compare; all bits if undefined. */
  readonly mask?: Uint8Array
  /** Returns the expression that loads the first `size` bytes of the field into a register. */
  load(register: number, size: number): Expression
}

/** The header from which a payload offset counts: `enum nft_payload_bases`, <linux/netfilter/nf_tables.h>. */
export const PayloadBase = { Link: 0, Network: 1, Transport: 2 } as const

function payload(name: string, type: DataType, base: number, offset: number): Field {
  return {
    name,
    type,
    payload: true,
    load: (dreg, length) => ({ name: "payload", data: { dreg, base, offset, length } }),
  }
}

/** `enum nft_meta_keys` */
function meta(name: string, type: DataType, key: number): Field {
  return { name, type, load: (dreg) => ({ name: "meta", data: { key, dreg } }) }
}

/** `enum nft_ct_keys` */
function ct(name: string, type: DataType, key: number): Field {
  return { name, type, load: (dreg) => ({ name: "ct", data: { key, dreg } }) }
}

/**
 * Returns the field of the first `length` bits of an address, as a part of a key: `ip saddr & 255.255.0.0`. The other
 * bits are 0. For a full length, returns the field itself.
 */
export function prefixOf(field: Field, length: number): Field {
  const { name, type, load } = field
  if (length === 8 * type.size) return field
  const mask = prefixMask(type.size, length)
  return { name: `${name} & ${type.print(mask)}`, type, mask, load }
}

/**
 * The fields by their names in `nft`'s syntax. Unlike `nft`, this package adds no checks of the protocol: in a table of
 * family inet or bridge, a rule for an IP header must compare the protocol first.
 */
export const fields = {
  ipSource: payload("ip saddr", dataTypes.ipv4, PayloadBase.Network, 12),
  ipDestination: payload("ip daddr", dataTypes.ipv4, PayloadBase.Network, 16),
  ip6Source: payload("ip6 saddr", dataTypes.ipv6, PayloadBase.Network, 8),
  ip6Destination: payload("ip6 daddr", dataTypes.ipv6, PayloadBase.Network, 24),
  etherSource: payload("ether saddr", dataTypes.ether, PayloadBase.Link, 6),
  etherDestination: payload("ether daddr", dataTypes.ether, PayloadBase.Link, 0),
  sourcePort: payload("th sport", dataTypes.port, PayloadBase.Transport, 0),
  destinationPort: payload("th dport", dataTypes.port, PayloadBase.Transport, 2),
  mark: meta("meta mark", dataTypes.mark, 3),
  inputInterface: meta("iifname", dataTypes.ifname, 6),
  outputInterface: meta("oifname", dataTypes.ifname, 7),
  family: meta("meta nfproto", dataTypes.family, 15),
  protocol: meta("meta l4proto", dataTypes.protocol, 16),
  ctState: ct("ct state", dataTypes.ctState, 0),
  ctDirection: ct("ct direction", dataTypes.ctDirection, 1),
  ctStatus: ct("ct status", dataTypes.ctStatus, 2),
  /** The type of the destination in the routing table: `NFT_FIB_RESULT_ADDRTYPE` of `NFTA_FIB_F_DADDR`. */
  destinationType: {
    name: "fib daddr type",
    type: dataTypes.addressType,
    load: (dreg: number): Expression => ({ name: "fib", data: { flags: 2, result: 3, dreg } }),
  },
} as const satisfies Record<string, Field>
