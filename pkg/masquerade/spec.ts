import { decodeLatin1 } from "../engine/mod.ts"
import { type Cidr, FAMILIES, type Family, familyOf, type Owner } from "../types/mod.ts"

/** What is masqueraded for one attachment. */
export interface MasqueradeSpec {
  readonly owner: Owner
  /** The container's addresses, each with the length of its network's prefix. */
  readonly addresses: readonly Cidr[]
}

/** Returns the addresses of each family that has any, each once. */
export function byFamily(addresses: readonly Cidr[]): [Family, Cidr[]][] {
  const unique = [...new Map(addresses.map((address) => [decodeLatin1(address.ip), address])).values()]
  return FAMILIES.flatMap((family): [Family, Cidr[]][] => {
    const ours = unique.filter(({ ip }) => familyOf(ip) === family)
    return ours.length > 0 ? [[family, ours]] : []
  })
}
