import {
  type Change,
  type Content,
  changeTable,
  chooseVariant,
  findEverywhere,
  findPrograms,
  isTableInUse,
  type Programs,
  printRule,
  readTable,
  removeEverywhere,
  requirePrograms,
  restoreTable,
} from "../../../pkg/iptables/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { type Filter, restoreByIptables, type TablePart } from "../../../pkg/rules/mod.ts"
import { AF_INET, AF_INET6, CniError, isCniError } from "../../../pkg/types/mod.ts"
import type { Undo } from "../../../pkg/undo/mod.ts"
import { isHolderGone, type PortmapSpec } from "../mapping.ts"
import type { HostportBackend } from "../nftables/backend.ts"
import { type DeleteContext, deleteEmptyTables } from "../nftables/delete.ts"
import { guardLocalnet, isGuarded, undoLocalnetEntry } from "../nftables/localnet-guard.ts"
import { type AttachmentRules, findAhead, findMissing, planAdd, planDelete, planGc } from "./plan.ts"
import { anySearch, containerSearch, DNAT, iptablesRules, TABLE } from "./rules.ts"

/**
 * Returns the backend iptables, which keeps mappings as rules in upstream's chains, also those that the Go suite added.
 * `filter` and `context` are undefined if the kernel has no nf_tables; without nf_tables there is no guard of
 * 127.0.0.0/8.
 */
export function iptablesHostports(filter: Filter | undefined, context: DeleteContext | undefined): HostportBackend {
  const socket = filter?.socket
  return {
    isUsable: () => findPrograms(AF_INET, chooseVariant(socket)) !== undefined,
    mayHold: () => isTableInUse(filter, TABLE),
    /** Maps ports by one `iptables-restore` per address family. Throws `CniError` that names the holder of a port. */
    add(spec, undo) {
      if (context && spec.openedLink !== undefined) addGuard(context, spec.openedLink, undo)
      try {
        return addRules(socket, spec, undo)
      } catch (error) {
        throw namingKeys(spec, error)
      }
    },
    /** Checks the rules of an attachment. Throws `CniError` that names the first missing rule. */
    check(spec) {
      const variant = chooseVariant(socket)
      for (const mapped of spec.addresses) {
        const found = readTable(requirePrograms(mapped.family, variant), TABLE)
        const hasConditions = spec.conditions[mapped.family].length > 0
        const missing = findMissing(iptablesRules(spec, mapped), found, hasConditions)
        if (missing) throw missing
      }
    },
    /**
     * Restores the guard before the rules, because `route_localnet`, which the rules need, is safe only with the guard.
     */
    restore(specs, isDry) {
      const links = new Set(context ? specs.flatMap(({ openedLink }) => openedLink ?? []) : [])
      const open = new Set([...links].filter((link) => context && !isGuarded(context.socket, link)))
      if (context && !isDry) for (const link of open) guardLocalnet(context.socket, link)
      return restoreByIptables({ socket, table: TABLE, isDry }, specs, partsFinder()).map((each, at) =>
        each === "whole" && open.has(specs[at]?.openedLink ?? "") ? "missing" : each,
      )
    },
    /** Removes an attachment's rules. Only iptables-legacy needs a program. Shared chains stay. Throws `CniError`. */
    remove: (owner) =>
      removeEverywhere({ socket, table: TABLE }, containerSearch(owner), (found) => planDelete(found, owner)),
    gc: (network, valid) =>
      removeEverywhere({ socket, table: TABLE }, anySearch, (found) => planGc(found, network, valid)),
  }
}

/** Guards 127.0.0.0/8 on an interface before the rules, because `route_localnet` admits packets of other hosts. */
function addGuard(context: DeleteContext, link: string, undo: Undo): void {
  const made = guardLocalnet(context.socket, link)
  undo.defer("guard 127.0.0.0/8", () => {
    for (const entry of made) undoLocalnetEntry(context.socket, entry)
    deleteEmptyTables(context)
  })
}

function addRules(socket: NetlinkSocket | undefined, spec: PortmapSpec, undo: Undo): readonly Uint8Array[] {
  const variant = chooseVariant(socket)
  const families = spec.addresses.map((mapped) => {
    const programs = requirePrograms(mapped.family, variant)
    const rules = iptablesRules(spec, mapped)
    const plan = (found: Content) => planAdd(rules, found, isGone)
    const found = readTable(programs, TABLE)
    return { programs, plan, changes: plan(found), ahead: findAhead(rules, found) } // a port that another container holds is found before any change
  })
  const { owner } = spec
  undo.defer("map ports", () =>
    removeEverywhere({ socket, table: TABLE }, containerSearch(owner), (found) => planDelete(found, owner)),
  )
  for (const { programs, plan, changes } of families) change(programs, plan, changes)
  return families.flatMap(({ ahead }) => ahead)
}

/** Returns a function that returns an attachment's table parts. It prints a table's rules once for all attachments. */
function partsFinder(): (spec: PortmapSpec) => TablePart[] {
  let printed: { found: Content; texts: ReadonlySet<string> } | undefined
  const textsIn = (found: Content) => {
    if (printed?.found !== found) printed = { found, texts: new Set(found.rules.map(printRule)) }
    return printed.texts
  }
  return (spec) =>
    spec.addresses.map((mapped) => {
      const rules = iptablesRules(spec, mapped)
      return {
        family: mapped.family,
        isMissing: (found) => findMissing(rules, found, false, textsIn(found)) !== undefined,
        plan: (found) => planAdd(rules, found, isGone),
      }
    })
}

function isGone({ owner, netns }: AttachmentRules): boolean {
  return isHolderGone(owner, netns)
}

/** Commits the changes. If refused, plans and commits again, because another process may have changed the table. */
function change(programs: Programs, plan: (found: Content) => Change[], changes: readonly Change[]): void {
  try {
    restoreTable(programs, TABLE, changes)
  } catch {
    changeTable(programs, TABLE, plan)
  }
}

/** Reports whether iptables maps ports of any container. Throws `CniError` and `NetlinkError`. */
export function hasIptablesHostports(socket: NetlinkSocket | undefined): boolean {
  return findEverywhere(socket, TABLE, { chains: [DNAT], parents: [] }).some(({ rules }) => rules.length > 0)
}

/** Returns the error with the configuration's keys whose text is in the rules, because that may be the cause. */
function namingKeys({ conditions, externalSetMarkChain }: PortmapSpec, error: unknown): unknown {
  const keys = externalSetMarkChain === undefined ? [] : ["externalSetMarkChain"]
  if (conditions[AF_INET].length > 0) keys.push("conditionsV4")
  if (conditions[AF_INET6].length > 0) keys.push("conditionsV6")
  if (!isCniError(error) || keys.length === 0) return error
  const named = `the rules contain the text of ${keys.map((key) => `"${key}"`).join(" and ")}`
  return new CniError(error.code, error.message, { details: [error.details, named].filter(Boolean).join("; ") })
}
