import { expect } from "bun:test"
import type { Element, NamedSet, SharedSet } from "../../../pkg/nftables/mod.ts"
import type { KernelRule, RuleSet, RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { AF_INET, AF_INET6, formatIp, type Owner, parseCidr } from "../../../pkg/types/mod.ts"
import { type DnatMapping, type Mapping, type PortmapSpec, printHostPort } from "../mapping.ts"
import type { DeleteContext } from "../nftables/delete.ts"
import { tableSpecs } from "../nftables/elements.ts"
import { tableLayout } from "../nftables/table.ts"

export const owner: Owner = { network: "lab", containerId: "c1", ifName: "eth0" }
export const web: Mapping = {
  protocol: "tcp",
  hostPort: 8080,
  containerPort: 80,
  family: undefined,
  hostIp: undefined,
}
export const oneAddress: Mapping = { ...web, hostPort: 8443, containerPort: 443, hostIp: Uint8Array.of(192, 0, 2, 1) }

export interface Group {
  readonly set: NamedSet
  readonly elements: readonly Element[]
}

/** Returns the mappings of this owner for addresses such as "10.1.0.2/16". */
export function specOf(
  owner: Owner,
  addresses: readonly string[],
  mappings: readonly Mapping[],
  netns = "/run/netns/c1",
): PortmapSpec {
  return {
    owner,
    netns,
    addresses: addresses.map((text) => {
      const address = parseCidr(text) ?? expect.unreachable()
      return { family: address.ip.length === 4 ? AF_INET : AF_INET6, address, mappings }
    }),
    mappings,
    snat: true,
    masqAll: false,
    conditions: { [AF_INET]: [], [AF_INET6]: [] },
    markMasqBit: 13,
    externalSetMarkChain: undefined,
    localnetLink: undefined,
    openedLink: undefined,
  }
}

/** Returns the elements that ADD adds, by set. The arguments are the same as for `specOf`. */
export function made(...of: Parameters<typeof specOf>): Group[] {
  return tableSpecs(specOf(...of)).flatMap(({ groups }) => groups)
}

export function standingBy(groups: readonly Group[], place: number): Group[] {
  return groups.map(({ set, elements }) => ({
    set: (set as SharedSet).standby,
    elements: elements.map((element) => ({ ...element, key: [...element.key, Uint8Array.of(0, place)] })),
  }))
}

/** Returns all rules, identified by comments, with a hairpin rule of the first prefix for IPv4, the second for IPv6. */
export function rulesOf(...prefixes: readonly number[]): KernelRule[] {
  return [tableLayout(AF_INET), tableLayout(AF_INET6)].flatMap((layout, at) =>
    [...layout.rules, ...prefixes.slice(at, at + 1).map(layout.hairpinRule)].map(
      ({ chain, comment = "" }, handle): KernelRule => ({
        family: layout.family === AF_INET ? 2 : 10,
        table: layout.table.name,
        chain: chain.name,
        handle: BigInt(handle + 1),
        comment,
        expressions: [],
      }),
    ),
  )
}

/** Returns the elements that ADDs of many other containers add, one port each. */
export function others(count: number): Group[] {
  return Array.from({ length: count }, (_, n) => {
    const address = `10.1.${1 + (n >> 8)}.${n & 255}/16`
    return made({ ...owner, containerId: `x${n}` }, [address], [{ ...web, hostPort: 9000 + n }])
  }).flat()
}

/** Returns a rule set with these elements, in tables that have every set. */
export function ruleSet(...groups: readonly Group[]): RuleSet {
  const families = new Set(groups.map(({ set }) => set.table.family))
  const layouts = [tableLayout(AF_INET), tableLayout(AF_INET6)].filter(({ table }) => families.has(table.family))
  const sets: NamedSet[] = layouts.flatMap((layout) => [
    ...layout.ownedSets,
    ...(layout.localnetLinks ? [layout.localnetLinks] : []),
  ])
  const isSame = (a: NamedSet, b: NamedSet) => a.name === b.name && a.table.family === b.table.family
  for (const { set } of groups) if (!sets.some((one) => isSame(one, set))) sets.push(set)
  return {
    sets: sets.map((set) => ({
      set,
      elements: groups.filter((group) => isSame(group.set, set)).flatMap(({ elements }) => elements),
    })),
  }
}

/** Returns the inputs of a deletion, in which `isLocalnetNeeded` returns `isNeeded`. */
export function contextOf(kernel: RuleSetKernel, isNeeded = false): DeleteContext {
  return { socket: kernel.socket, isLocalnetNeeded: () => isNeeded }
}

/** Formats mappings: "8080/tcp to 10.1.0.2:80". */
export function printed(found: readonly DnatMapping[]): string[] {
  return found.map((one) => `${printHostPort(one)} to ${formatIp(one.containerIp)}:${one.containerPort}`)
}
