import { decodeLatin1 } from "../engine/mod.ts"
import { type Cidr, FAMILIES, type Family, familyOf, type Owner } from "../types/mod.ts"

/** The masquerade of one attachment. */
export interface MasqueradeSpec {
  readonly owner: Owner
  /** The container's addresses, each with the prefix length of its network. */
  readonly addresses: readonly Cidr[]
}

/** Groups the addresses by family, each once. */
export function byFamily(addresses: readonly Cidr[]): [Family, Cidr[]][] {
  const unique = [...new Map(addresses.map((address) => [decodeLatin1(address.ip), address])).values()]
  return FAMILIES.flatMap((family): [Family, Cidr[]][] => {
    const ours = unique.filter(({ ip }) => familyOf(ip) === family)
    return ours.length > 0 ? [[family, ours]] : []
  })
}
