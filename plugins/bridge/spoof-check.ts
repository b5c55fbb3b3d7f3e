import type { Attaching } from "../../pkg/attachment/mod.ts"
import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import {
  atomically,
  type Chain,
  describeDormant,
  dryRun,
  type Element,
  type FoundElements,
  findElements,
  flush,
  hasChain,
  ifnameValue,
  isDormant,
  listRules,
  type NamedSet,
  type Netfilter,
  type PacketFilter,
  printElement,
  printRule,
  remove,
  tryCommit,
} from "../../pkg/nftables/mod.ts"
import { CniError, Code, type Owner, ownerComment, staleOf } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import {
  allowed,
  allowedElement,
  chain,
  type GuardedPort,
  guarded,
  guardedElement,
  isSame,
  planGuard,
  planNewGuard,
  planUnguard,
  rule,
  type SpoofCheckElements,
  skeleton,
  table,
} from "./spoof-check-rules.ts"

/** The options that the kernel needs, for the error where it refuses. */
const NEEDS = "the kernel needs nf_tables for bridges (CONFIG_NF_TABLES_BRIDGE)"

/** Has a port drop frames from another MAC than the container's own. Throws `CniError`. */
export function guardPort({ owner, filter, undo }: Attaching, port: GuardedPort): void {
  const spoofCheck = new SpoofCheck(filter)
  undo.defer(
    "check source MACs",
    () => spoofCheck.remove(owner),
    () => spoofCheck.add(owner, port),
  )
}

/** What a spoof check needs of a `PacketFilter`. */
type Filter = { readonly socket: Netfilter } & Pick<PacketFilter, "forgetTables" | "hasTable">

/** The check that a container's frames come from its own MAC, in the namespace of the packet filter. */
export class SpoofCheck {
  /** Undefined where the kernel has no nf_tables. */
  readonly #filter: Filter | undefined

  constructor(filter: Filter | undefined) {
    this.#filter = filter
  }

  /**
   * Drops what comes in by a bridge's port from any MAC but one, in one transaction:
   * `nft add element bridge cni_spoofcheck guarded { "veth0" comment "network/containerID/ifname" }` and
   * `… allowed { "veth0" . 0a:00:00:00:00:01 comment … }`, with table, chain, sets and the one rule where they are missing.
   * To be called before the port forwards. Doing it again changes nothing. Throws `CniError`, and then nothing has changed.
   */
  add(owner: Owner, port: GuardedPort): void {
    this.#filter?.forgetTables()
    const socket = this.#requireSocket()
    const comment = ownerComment(owner)
    const needles = [ifnameValue(port.port)]
    try {
      // Nearly always. Not so when the port has elements already.
      if (isComplete(socket) && tryCommit(socket, planNewGuard(port, comment))) return
      atomically(socket, () => planGuard({ isComplete: isComplete(socket), ...find(socket, needles) }, port, comment))
    } catch (error) {
      const what = `Cannot guard port "${port.port}" against other MACs than ${port.mac}`
      const reason = isErrno(error, "EOPNOTSUPP", "EINVAL", "EPROTONOSUPPORT") ? `: ${NEEDS}` : ""
      throw new CniError(Code.Internal, `${what}${reason}`, { cause: error })
    }
  }

  /** Checks that a port is guarded as `add` has left it. Throws `CniError` with what was expected and found. */
  check(owner: Owner, port: GuardedPort): void {
    const socket = this.#requireSocket()
    const comment = ownerComment(owner)
    if (!isComplete(socket)) {
      throw missing(comment, printRule(rule), describeDormant(socket, table) ?? "no such rule, or others too")
    }
    const found = find(socket, [ifnameValue(port.port), encodeUtf8(comment)])
    expectElement(guarded, found.guarded, guardedElement(port, comment))
    expectElement(allowed, found.allowed, allowedElement(port, comment))
  }

  #requireSocket(): Netfilter {
    if (this.#filter) return this.#filter.socket
    throw new CniError(Code.Internal, "Cannot check the source MACs of containers: the kernel has no nf_tables")
  }

  /**
   * Ends the check of an attachment, ours and the Go suite's, found by its names alone. Nothing there is success. Throws
   * `CniError`.
   */
  remove(owner: Owner): void {
    const filter = this.#filter
    if (!filter) return
    const comment = ownerComment(owner)
    const failures = new Failures()
    failures.attempt("end the spoof check", () => {
      const what = `Cannot end the spoof check of ${comment}`
      if (filter.hasTable(table.name))
        removeWhere(filter.socket, what, (found) => found === comment, [encodeUtf8(comment)])
    })
    failures.attempt("end the other suite's spoof check", () => {
      if (filter.hasTable(upstreamChain.table.name)) removeUpstream(filter.socket, owner)
    })
    failures.throwIfAny()
  }

  /** Ends the check of all attachments to this network but the valid ones. Throws `CniError`. */
  gc(network: string, valid: readonly Owner[]): void {
    if (!this.#filter) return
    const what = `Cannot end the spoof check of what is gone from network "${network}"`
    removeWhere(this.#filter.socket, what, staleOf(network, valid))
  }

  /** Throws code 50 with the reason when this host cannot check MACs, for STATUS. Where no port is guarded yet it tries. */
  requireUsable(): void {
    const socket = this.#filter?.socket
    if (socket && dryRun(socket, table, () => (isComplete(socket) ? [] : skeleton()))) return
    throw new CniError(Code.PluginNotAvailable, "Cannot check the source MACs of containers", { details: NEEDS })
  }
}

/** Whether our rule, and no other, is in the chain, and in force: the kernel keeps chain and sets for as long as a rule needs them. */
function isComplete(socket: Pick<Netfilter, "dump" | "get">): boolean {
  const [only, ...more] = listRules(socket, chain)
  return only?.comment === rule.comment && more.length === 0 && !isDormant(socket, table)
}

function find(socket: Pick<Netfilter, "dump">, needles?: readonly Uint8Array[]): SpoofCheckElements {
  return { guarded: findElements(socket, guarded, needles), allowed: findElements(socket, allowed, needles) }
}

function removeWhere(
  socket: Netfilter,
  what: string,
  isStale: (comment: string) => boolean,
  needles?: readonly Uint8Array[],
): void {
  try {
    if (hasChain(socket, chain)) atomically(socket, () => planUnguard(find(socket, needles), isStale))
  } catch (error) {
    throw new CniError(Code.Internal, what, { cause: error })
  }
}

function expectElement(set: NamedSet, found: FoundElements | undefined, element: Element): void {
  const elements = found?.elements ?? []
  if (elements.some((one) => isSame(one, element))) return
  const expected = `${printElement(set, element)} in set bridge ${table.name} ${set.name}`
  const seen = elements.map((one) => printElement(set, one)).join(", ")
  throw missing(element.comment ?? "", expected, seen || "nothing of the kind")
}

function missing(owner: string, expected: string, found: string): CniError {
  return new CniError(Code.Internal, `Cannot find the spoof check of ${owner}: expected ${expected}; found ${found}`)
}

/** Where the Go suite's bridge plugin keeps its spoof check: a rule for each port, and two chains that it leads to. */
const upstreamChain: Chain = { table: { family: "bridge", name: "nat" }, name: "PREROUTING" }

/**
 * Removes the spoof check that the Go suite's ADD has left for this attachment, so that a node can change suites with
 * containers running. Its table and base chain stay, as its own DEL leaves them. Nothing there is success. Its comments
 * do not say which network they are for: GC cannot know what is gone. Throws `CniError`.
 */
function removeUpstream(socket: Netfilter, { containerId, ifName }: Owner): void {
  const id = `${containerId}-${ifName}`
  const comment = `macspoofchk-${id}`
  const needles = [encodeUtf8(comment)]
  const { table } = upstreamChain
  const chains = [`cni-br-iface-${id}`, `cni-br-iface-${id}-mac`].map((name): Chain => ({ table, name }))
  try {
    if (!hasChain(socket, upstreamChain)) return
    atomically(socket, () => {
      const rules = listRules(socket, upstreamChain, needles).filter((rule) => rule.comment === comment)
      const left = chains.filter((chain) => hasChain(socket, chain))
      // A chain can go when nothing is in it and nothing leads to it.
      return [...rules.map(remove.rule), ...left.map(flush.chain), ...left.map(remove.chain)]
    })
  } catch (error) {
    const whose = `"${ifName}" of container ${containerId}`
    throw new CniError(Code.Internal, `Cannot remove the other suite's spoof check of ${whose}`, { cause: error })
  }
}
