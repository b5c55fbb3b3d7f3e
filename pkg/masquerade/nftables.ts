import { encodeUtf8 } from "../engine/mod.ts"
import {
  atomically,
  commitQuickly,
  describeDormant,
  dryRun,
  findElements,
  KeyQueues,
  listComments,
  type Netfilter,
  printElement,
  printRule,
  tableFamily,
} from "../nftables/mod.ts"
import { missingRules, NftablesBackend, type Restored, type RuleBackend, restoreBy, type Sought } from "../rules/mod.ts"
import { AF_INET, type Cidr, type CniError, FAMILIES, type Family, familyOf, ownerComment } from "../types/mod.ts"
import type { Undo } from "../undo/mod.ts"
import {
  groupByLayout,
  MASQUERADE_TABLE,
  type MasqueradeLayout,
  masqueradeLayout,
  networksOf,
  type Place,
  placesFor,
} from "./nftables-layout.ts"
import {
  findAddresses,
  hasMasqueradeRules,
  hasMasqueradeRulesEvenIfDormant,
  listPrefixes,
  type MasqueradeState,
  planAdd,
  planNew,
  planRemoval,
  skeleton,
} from "./nftables-plan.ts"
import { planRestore } from "./nftables-restore.ts"
import type { MasqueradeSpec } from "./spec.ts"

/** The masquerade in nf_tables. Addresses are elements of sets, and the comment of an element names its owner. */
export class NftablesMasquerade extends NftablesBackend implements RuleBackend<MasqueradeSpec> {
  protected readonly table = MASQUERADE_TABLE

  /** Reports whether the kernel has nf_tables with NAT for these families; without rules, by an empty transaction. */
  isUsable({ addresses = [] }: Partial<MasqueradeSpec> = {}): boolean {
    const { socket } = this
    const families: Family[] = addresses.length > 0 ? addresses.map(({ ip }) => familyOf(ip)) : [AF_INET]
    return [...new Set(families)].every((family) => {
      const layout = masqueradeLayout(family)
      return dryRun(socket, layout.table, () => (hasMasqueradeRules(socket, layout, []) ? [] : skeleton(layout, [8])))
    })
  }

  /**
   * Masquerades packets from the addresses to destinations outside their network, except multicast. Sends one
   * transaction: `nft add element ip cni_masquerade containers { 10.1.0.2 comment "network/containerID/ifname" }`, the
   * same for networks, and the missing table, chain, sets and rules. If another owner in this network has an address,
   * the address gets this owner. An owner in another network keeps the address as well, because the networks may have
   * separate bridges. Throws `NetlinkError`.
   */
  add({ owner, addresses }: MasqueradeSpec, undo: Undo, onMissingRules = () => {}): void {
    const { socket } = this
    const groups = groupByLayout(addresses)
    if (groups.length === 0) return
    const planMissing = () =>
      groups.flatMap(({ layout, addresses }) => planAdd(layout, readState(socket, layout, addresses), addresses, owner))
    // A new prefix length needs another rule. If an address has an owner, the kernel refuses the quick operations.
    const isComplete = groups.every(({ layout, addresses }) =>
      hasMasqueradeRulesEvenIfDormant(socket, layout, addresses),
    )
    if (!isComplete) onMissingRules()
    const planAll = () => groups.flatMap(({ layout, addresses }) => planNew(layout, addresses, ownerComment(owner)))
    const change = () => commitQuickly(socket, isComplete ? planAll() : undefined, planMissing)
    undo.defer("masquerade", () => this.takeBack(owner), change)
  }

  check({ owner, addresses }: MasqueradeSpec): void {
    const { socket } = this
    const comment = ownerComment(owner)
    for (const { layout, addresses: ours } of groupByLayout(addresses)) {
      if (!hasMasqueradeRules(socket, layout, ours)) {
        throw missing(comment, printRules(layout, ours), printFoundRules(socket, layout))
      }
      const queues = new KeyQueues(socket)
      for (const { set, element } of placesFor(layout, ours, comment)) {
        const { members } = queues.find(set, element.key)
        if (members[0] && members.some((one) => one?.comment === comment)) continue
        const needles = [encodeUtf8(comment), ...element.key.slice(0, 1)]
        const found = findSimilar(socket, layout, needles).map(printPlace).join(", ")
        throw missing(comment, printPlace({ set, element }), found || "nothing")
      }
    }
  }

  restore(specs: readonly MasqueradeSpec[], isDry: boolean): Restored[] {
    return restoreBy(this.socket, isDry, () => planRestore(this.socket, specs))
  }

  protected removeAll(sought: Sought): void {
    const { socket, filter, table } = this
    const families = FAMILIES.filter((family) => filter.hasTable(table, tableFamily[family]))
    const layouts = families.map(masqueradeLayout)
    atomically(socket, () => layouts.flatMap((layout) => planRemoval(socket, layout, sought)))
  }
}

function readState(socket: Netfilter, layout: MasqueradeLayout, addresses: readonly Cidr[]): MasqueradeState {
  const queues = new KeyQueues(socket)
  const prefixes = listPrefixes(queues, layout)
  const isComplete = hasMasqueradeRules(socket, layout, addresses)
  const ips = addresses.map(({ ip }) => ip)
  return { prefixes, isComplete, held: findAddresses(queues, layout, prefixes, ips) }
}

/** Returns the elements in all sets that contain the owner's name or the address. */
function findSimilar(socket: Netfilter, layout: MasqueradeLayout, needles: readonly Uint8Array[]): Place[] {
  const prefixes = listPrefixes(new KeyQueues(socket), layout)
  const sets = [layout.containers, ...prefixes.map((prefix) => networksOf(layout, prefix).set)]
  return sets.flatMap((set) =>
    (findElements(socket, set, needles)?.elements ?? []).map((element) => ({ set, element })),
  )
}

function printPlace({ set, element }: Place): string {
  return `${printElement(set, element)} in set ${set.table.family} ${set.table.name} ${set.name}`
}

function printRules(layout: MasqueradeLayout, addresses: readonly Cidr[]): string {
  const prefixes = new Set(addresses.map(({ prefix }) => prefix))
  const rules = [...[...prefixes].map((prefix) => networksOf(layout, prefix).rule), layout.rule]
  return rules.map(printRule).join(" and ")
}

function printFoundRules(socket: Netfilter, { chain: { table, name } }: MasqueradeLayout): string {
  const dormant = describeDormant(socket, table)
  if (dormant) return dormant
  const found = listComments(socket, table, name).map(({ comment }) =>
    comment === undefined ? "one without" : `"${comment}"`,
  )
  return found.length === 0 ? "no rule" : `rules with the comments ${found.join(", ")}`
}

function missing(owner: string, expected: string, found: string): CniError {
  return missingRules(`the masquerade of ${owner}`, expected, found)
}
