import { type Cidr, parseCidr, type Result } from "../../pkg/types/mod.ts"
import { type Family, families, type Mapping, printHostEnd } from "./mapping.ts"

/** The mappings to one address of the container. There is at most one address for each family. */
export interface Part {
  family: Family
  /** The container's address, with the length of its network's prefix. */
  address: Cidr
  /** At least one; no two for the same port. */
  mappings: readonly Mapping[]
}

/**
 * What is to be mapped to where: the container's first address of each family, as the earlier plugins of the chain have
 * answered it, with the mappings that are for this family.
 */
export function partsOf(result: Result, ifName: string, mappings: readonly Mapping[]): Part[] {
  const addresses = result.ips.flatMap(({ address, interface: index }): Cidr[] => {
    const at = index === undefined ? undefined : result.interfaces[index]
    const isContainers = at === undefined || (at.name === ifName && Boolean(at.sandbox))
    const cidr = isContainers ? parseCidr(address) : undefined
    return cidr ? [cidr] : []
  })
  return families.flatMap((family): Part[] => {
    const address = addresses.find(({ ip }) => ip.length === (family === "ip" ? 4 : 16))
    const ours = mappingsFor(family, mappings)
    return address && ours.length > 0 ? [{ family, address, mappings: ours }] : []
  })
}

/** The mappings for a family, each once. */
export function mappingsFor(family: Family, mappings: readonly Mapping[]): Mapping[] {
  const ours = mappings.filter((mapping) => mapping.family === undefined || mapping.family === family)
  return [...new Map(ours.map((mapping) => [printHostEnd(mapping), mapping])).values()]
}
