import { type Element, KeyQueues, type Operation, PlannedQueues } from "../../../pkg/nftables/mod.ts"
import type { Restored } from "../../../pkg/rules/mod.ts"
import { CniError, Code, isOwnerOf, ownerComment, sameBytes } from "../../../pkg/types/mod.ts"
import type { Policy } from "../config.ts"
import type { FirewallSpec, ZonedSpec } from "../spec.ts"
import { addTable, isComplete, listAdminChains, placesOf } from "./plan.ts"
import {
  type Asked,
  askedBy,
  countPoliced,
  findPolicy,
  isPoliced,
  listAsked,
  planPolicies,
  type Reader,
} from "./policies.ts"

/**
 * Plans the missing addresses, policies and table of many attachments, and returns the outcome for each attachment.
 * Leaves an address unchanged if another container of the network has it now. If attachments of a network request
 * different policies on a bridge, uses the newest attachment's policy, as ADD does. Throws `NetlinkError`.
 */
export function planRestore(
  socket: Reader,
  specs: readonly ZonedSpec[],
  canKeepPortsApart: boolean,
): { operations: Operation[]; became: Restored[] } {
  const became: Restored[] = specs.map(() => "whole")
  const lacks = (at: number) => {
    if (became[at] === "whole") became[at] = "missing"
  }
  const planned = new PlannedQueues(socket, new KeyQueues(socket))
  for (const [at, spec] of specs.entries()) {
    const standing = ({ comment }: Element) =>
      comment === undefined ? "stale" : isOwnerOf(comment, spec.owner.network) ? "holds" : "shares"
    for (const { set, element } of placesOf(spec, spec.zone)) {
      const claim = planned.claim(set, element, standing)
      if (claim === "missing") lacks(at)
      else if (typeof claim !== "string") became[at] = taken(ownerComment(spec.owner), claim.holder)
    }
  }
  const { come, gone, bridges } = missingPolicies(socket, specs, lacks)
  const policies = planPolicies(socket, { gone, come }, { bridges, canKeepPortsApart })
  const { before, after } = countPoliced(socket, policies)
  const hasPolicies = after > 0
  const adminChains = new Set(specs.map(({ adminChain }) => adminChain))
  const isRight =
    [...adminChains].every((chain) => isComplete(socket, chain, { hasPolicies })) && (hasPolicies || before === 0)
  if (!isRight || (policies.length > 0 && come.length === 0)) for (const at of specs.keys()) lacks(at)
  return {
    operations: [
      ...(isRight ? [] : addTable([...listAdminChains(socket), ...adminChains], { hasPolicies })),
      ...planned.changes.operations,
      ...policies,
    ],
    became,
  }
}

/** Returns the policy requests to add, those to remove, and the bridges with a policy. */
function missingPolicies(
  socket: Reader,
  specs: readonly FirewallSpec[],
  lacks: (at: number) => void,
): { come: Asked[]; gone: Asked[]; bridges: Uint8Array[] } {
  const newest = new Map<string, Policy>()
  for (const { owner, policy, link } of specs) if (link) newest.set(`${owner.network} ${link.bridge}`, policy)
  const present = Map.groupBy(listAsked(socket), ({ comment }) => comment)
  const come: Asked[] = []
  const gone: Asked[] = []
  const bridges = new Map<string, Uint8Array>()
  const inForce = new Map<string, boolean>()
  for (const [at, { owner, link }] of specs.entries()) {
    const policy = link && newest.get(`${owner.network} ${link.bridge}`)
    const comment = ownerComment(owner)
    const [wanted] = policy ? askedBy(policy, link, owner.containerId, comment) : []
    if (!wanted || !link) continue
    bridges.set(link.bridge, wanted.bridge)
    const own = present.get(comment) ?? []
    const isThere = own.some((one) => one.policy === wanted.policy && sameBytes(one.bridge, wanted.bridge))
    if (isThere && inForce.getOrInsertComputed(`${policy} ${link.bridge}`, () => isInForce(socket, wanted))) continue
    lacks(at)
    if (isThere) continue
    come.push(wanted)
    gone.push(...own)
  }
  return { come, gone, bridges: [...bridges.values()] }
}

function isInForce(socket: Reader, { bridge, policy }: Asked): boolean {
  const found = findPolicy(socket, bridge)
  return (found === policy || found === "isolated") && isPoliced(socket, bridge)
}

function taken(owner: string, { comment }: Element): CniError {
  const reason = `its address now belongs to "${comment}"`
  return new CniError(Code.Internal, `Cannot restore the firewall rules of ${owner}: ${reason}`)
}
