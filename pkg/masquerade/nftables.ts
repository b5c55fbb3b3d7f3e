import { encodeUtf8 } from "../engine/mod.ts"
import { isErrno } from "../libc/mod.ts"
import {
  atomically,
  describeDormant,
  dryRun,
  findElements,
  hasNftables,
  Lines,
  listComments,
  type Netfilter,
  printElement,
  printRule,
  tryCommit,
} from "../nftables/mod.ts"
import {
  AF_INET,
  AF_INET6,
  type Cidr,
  CniError,
  Code,
  type Family,
  formatCidr,
  type Owner,
  ownerComment,
  staleOf,
} from "../types/mod.ts"
import {
  groupByLayout,
  type MasqueradeLayout,
  masqueradeLayout,
  networksOf,
  type Place,
  placesFor,
} from "./nftables-layout.ts"
import {
  findAddresses,
  hasMasqueradeRules,
  hasMasqueradeRulesAsleep,
  listNetworkSets,
  type MasqueradeState,
  planAdd,
  planNew,
  planRemoval,
  skeleton,
} from "./nftables-plan.ts"

/**
 * Masquerades what the addresses send beyond their network, multicast excepted, all in one transaction:
 * `nft add element ip cni_masquerade containers { 10.1.0.2 comment "network/containerID/ifname" }` and so on, with table,
 * chain, sets and rules where they are missing. Doing it again changes nothing; an address that another owner in this
 * network has left behind becomes this one's; it is shared with another network, which may have the same addresses on a
 * bridge of its own. Throws `CniError`, and then nothing has changed.
 */
export function addMasquerade(socket: Netfilter, owner: Owner, addresses: readonly Cidr[]): void {
  const comment = ownerComment(owner)
  const groups = groupByLayout(addresses)
  if (groups.length === 0) return
  try {
    // Nearly always. Not so when an address is held, and for the first with its prefix length.
    const isComplete = groups.every(({ layout, addresses }) => hasMasqueradeRulesAsleep(socket, layout, addresses))
    const planAll = () => groups.flatMap(({ layout, addresses }) => planNew(layout, addresses, comment))
    if (isComplete && tryCommit(socket, planAll())) return
    atomically(socket, () =>
      groups.flatMap(({ layout, addresses }) =>
        planAdd(layout, readState(socket, layout, addresses), addresses, owner),
      ),
    )
  } catch (error) {
    const what = `Cannot masquerade ${addresses.map(formatCidr).join(" and ")}`
    if (!isErrno(error, "EINVAL", "EOPNOTSUPP")) throw new CniError(Code.Internal, what, { cause: error })
    throw new CniError(Code.Internal, `${what}: the kernel needs nf_tables with NAT`, { cause: error })
  }
}

function readState(socket: Netfilter, layout: MasqueradeLayout, addresses: readonly Cidr[]): MasqueradeState {
  const lines = new Lines(socket)
  const sets = listNetworkSets(lines, layout)
  const isComplete = hasMasqueradeRules(socket, layout, addresses)
  const ips = addresses.map(({ ip }) => ip)
  return { ...sets, isComplete, held: findAddresses(lines, layout, sets.prefixes, ips) }
}

/**
 * Ends the masquerade of this attachment, found by its name alone, in one transaction; of these families, if not all have a table.
 * Leaves no table behind when it was the last. Nothing there is success. Throws `CniError`.
 */
export function deleteMasquerade(socket: Netfilter, owner: Owner, families = bothFamilies): void {
  const comment = ownerComment(owner)
  const needles = [encodeUtf8(comment)]
  removeWhere(socket, families, `Cannot end the masquerade of ${comment}`, (found) => found === comment, needles)
}

/** Ends the masquerade of all attachments to this network but the valid ones. Throws `CniError`. */
export function gcMasquerade(socket: Netfilter, network: string, validOwners: readonly Owner[]): void {
  const what = `Cannot end the masquerade of what is gone from network "${network}"`
  removeWhere(socket, bothFamilies, what, staleOf(network, validOwners))
}

const bothFamilies: readonly Family[] = [AF_INET, AF_INET6]

/** Removes what of these families has a comment that `isStale`; all such comments have one of `needles` in them. */
function removeWhere(
  socket: Netfilter,
  families: readonly Family[],
  what: string,
  isStale: (comment: string) => boolean,
  needles?: readonly Uint8Array[],
): void {
  const layouts = families.map(masqueradeLayout)
  try {
    atomically(socket, () => layouts.flatMap((layout) => planRemoval(socket, layout, isStale, needles)))
  } catch (error) {
    if (isErrno(error, "EINVAL", "EOPNOTSUPP") && !hasNftables(socket)) return
    throw new CniError(Code.Internal, what, { cause: error })
  }
}

/**
 * Whether this kernel can do what `addMasquerade` needs for a family: nf_tables with NAT. Where no masquerade is in place
 * yet it tries. Throws `EPERM` without CAP_NET_ADMIN, and what is no answer of the kernel's.
 */
export function canMasquerade(socket: Netfilter, family: Family): boolean {
  const layout = masqueradeLayout(family)
  return dryRun(socket, layout.table, () => (hasMasqueradeRules(socket, layout, []) ? [] : skeleton(layout, [8])))
}

/**
 * Checks that the addresses of this attachment are masqueraded as `addMasquerade` has left it. Throws `CniError` that
 * tells what was expected and what was found, and `NetlinkError` when the rule set cannot be read.
 */
export function checkMasquerade(socket: Netfilter, owner: Owner, addresses: readonly Cidr[]): void {
  const comment = ownerComment(owner)
  for (const { layout, addresses: ours } of groupByLayout(addresses)) {
    if (!hasMasqueradeRules(socket, layout, ours)) {
      throw missing(comment, printRules(layout, ours), printFoundRules(socket, layout))
    }
    const lines = new Lines(socket)
    for (const { set, element } of placesFor(layout, ours, comment)) {
      const { members } = lines.find(set, element.key)
      if (members[0] && members.some((one) => one?.comment === comment)) continue
      const expected = printPlace({ set, element })
      const needles = [encodeUtf8(comment), ...element.key.slice(0, 1)]
      throw missing(comment, expected, findSimilar(socket, layout, needles).map(printPlace).join(", ") || "nothing")
    }
  }
}

/** What stands anywhere in the sets with the owner's name or the address. */
function findSimilar(socket: Netfilter, layout: MasqueradeLayout, needles: readonly Uint8Array[]): Place[] {
  const { prefixes } = listNetworkSets(new Lines(socket), layout)
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
  return new CniError(Code.Internal, `Cannot find the masquerade of ${owner}: expected ${expected}; found ${found}`)
}
