import { decodeLatin1 } from "../engine/mod.ts"
import { type Cidr, FAMILIES, type Family, familyOf, type Owner } from "../types/mod.ts"

/** The masquerade that one attachment needs. */
export interface MasqueradeSpec {
  readonly owner: Owner
  /** The container's addresses, each with the prefix length of its network. */
  readonly addresses: readonly Cidr[]
}

/** Groups addresses by family. Each address is included once. */
export function byFamily(addresses: readonly Cidr[]): [Family, Cidr[]][] {
  const unique = [...new Map(addresses.map((address) => [decodeLatin1(address.ip), address])).values()]
  return FAMILIES.flatMap((family): [Family, Cidr[]][] => {
    const ours = unique.filter(({ ip }) => familyOf(ip) === family)
    return ours.length > 0 ? [[family, ours]] : []
  })
}
