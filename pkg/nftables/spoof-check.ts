import { encodeUtf8 } from "../engine/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { CniError, Code, isOwnerOf, type Owner, ownerComment } from "../types/mod.ts"
import { hasChain } from "./chains.ts"
import { ifnameValue } from "./data-types.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { printElement, printRule } from "./print.ts"
import { type FoundElements, findElements, listRules } from "./read.ts"
import { add, create, type Element, type NamedSet } from "./rule-set.ts"
import { allowedElement, type GuardedPort, guardedElement, spoofCheckLayout } from "./spoof-check-layout.ts"
import { isSame, planGuard, planNewGuard, planUnguard, type SpoofCheckElements } from "./spoof-check-plan.ts"
import { atomically, commit } from "./transaction.ts"

const { table, chain, guarded, allowed, rule } = spoofCheckLayout

/** What the kernel has to be built with; said where it refuses. */
const NEEDS = "the kernel needs nf_tables for bridges (CONFIG_NF_TABLES_BRIDGE)"

/**
 * Drops what comes in by a bridge's port from any MAC but one, in one transaction:
 * `nft add element bridge cni_spoofcheck guarded { "veth0" comment "network/containerID/ifname" }` and
 * `… allowed { "veth0" . 0a:00:00:00:00:01 comment … }`, with table, chain, sets and the one rule where they are missing.
 * To be called before the port forwards. Doing it again changes nothing. Throws `CniError`, and then nothing has changed.
 */
export function addSpoofCheck(socket: Netfilter, owner: Owner, port: GuardedPort): void {
  const comment = ownerComment(owner)
  try {
    if (addToComplete(socket, port, comment)) return
    const needles = [ifnameValue(port.port)]
    atomically(socket, () => planGuard({ isComplete: isComplete(socket), ...find(socket, needles) }, port, comment))
  } catch (error) {
    const what = `Cannot guard port "${port.port}" against other MACs than ${port.mac}`
    const reason = isErrno(error, "EOPNOTSUPP", "EINVAL", "EPROTONOSUPPORT") ? `: ${NEEDS}` : ""
    throw new CniError(Code.Internal, `${what}${reason}`, { cause: error })
  }
}

/** Adds the elements where everything else is in place. False when it is not, or the port has elements already. */
function addToComplete(socket: Netfilter, port: GuardedPort, comment: string): boolean {
  if (!isComplete(socket)) return false
  try {
    commit(socket, planNewGuard(port, comment))
    return true
  } catch (error) {
    if (isErrno(error, "EEXIST", "ENOENT")) return false
    throw error
  }
}

/** Ends the guard of this attachment's port, found by its name alone. Nothing there is success. Throws `CniError`. */
export function deleteSpoofCheck(socket: Netfilter, owner: Owner): void {
  const comment = ownerComment(owner)
  const needles = [encodeUtf8(comment)]
  removeWhere(socket, `Cannot end the spoof check of ${comment}`, (found) => found === comment, needles)
}

/** Ends the guard of all attachments to this network but the valid ones. Throws `CniError`. */
export function gcSpoofCheck(socket: Netfilter, network: string, validOwners: readonly Owner[]): void {
  const valid = new Set(validOwners.map(ownerComment))
  const isGone = (found: string) => isOwnerOf(found, network) && !valid.has(found)
  removeWhere(socket, `Cannot end the spoof check of what is gone from network "${network}"`, isGone)
}

function removeWhere(
  socket: Netfilter,
  what: string,
  isGone: (comment: string) => boolean,
  needles?: readonly Uint8Array[],
): void {
  try {
    if (hasChain(socket, chain)) atomically(socket, () => planUnguard(find(socket, needles), isGone))
  } catch (error) {
    throw new CniError(Code.Internal, what, { cause: error })
  }
}

/** Checks that a port is guarded as `addSpoofCheck` has left it. Throws `CniError` with what was expected and found. */
export function checkSpoofCheck(socket: Netfilter, owner: Owner, port: GuardedPort): void {
  const comment = ownerComment(owner)
  if (!isComplete(socket)) throw missing(comment, printRule(rule), "no such rule, or others too")
  const found = find(socket, [ifnameValue(port.port), encodeUtf8(comment)])
  expectElement(guarded, found.guarded, guardedElement(port, comment))
  expectElement(allowed, found.allowed, allowedElement(port, comment))
}

function expectElement(set: NamedSet, found: FoundElements | undefined, wanted: Element): void {
  const elements = found?.elements ?? []
  if (elements.some((element) => isSame(element, wanted))) return
  const expected = `${printElement(set, wanted)} in set bridge ${table.name} ${set.name}`
  const seen = elements.map((element) => printElement(set, element)).join(", ")
  throw missing(wanted.comment ?? "", expected, seen || "nothing of the kind")
}

function missing(owner: string, expected: string, found: string): CniError {
  return new CniError(Code.Internal, `Cannot find the spoof check of ${owner}: expected ${expected}; found ${found}`)
}

/**
 * Whether this kernel can guard ports. Where none is guarded yet it tries, like `nft --check`, in a transaction that ends
 * with what must be refused, so that nothing comes of it. Throws code 50 with the reason, for STATUS.
 */
export function requireSpoofCheck(socket: Netfilter | undefined): void {
  if (socket && canGuard(socket)) return
  throw new CniError(Code.PluginNotAvailable, "Cannot check the source MACs of containers", { details: NEEDS })
}

function canGuard(socket: Netfilter): boolean {
  try {
    if (isComplete(socket)) return true
    const all = [add.table(table), add.chain(chain), add.set(guarded), add.set(allowed), add.rule(rule)]
    commit(socket, [...all, create.table(table)])
  } catch (error) {
    if (isErrno(error, "EEXIST")) return true // all but the last was agreed to
    if (isErrno(error, "EPERM")) throw error
  }
  return false
}

/** Whether our rule, and no other, is in the chain: the kernel keeps chain and sets for as long as a rule needs them. */
function isComplete(socket: Pick<Netfilter, "dump">): boolean {
  const [only, ...more] = listRules(socket, chain)
  return only?.comment === rule.comment && more.length === 0
}

function find(socket: Pick<Netfilter, "dump">, needles?: readonly Uint8Array[]): SpoofCheckElements {
  return { guarded: findElements(socket, guarded, needles), allowed: findElements(socket, allowed, needles) }
}
