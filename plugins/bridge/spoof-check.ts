import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { mac } from "../../pkg/netlink/mod.ts"
import {
  atomically,
  type Chain,
  commitQuickly,
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
  printElement,
  printRule,
  remove,
  valuesOf,
  verdictsOf,
} from "../../pkg/nftables/mod.ts"
import {
  type Feature,
  type Filter,
  type ForeignRules,
  InTable,
  missingRules,
  NftablesBackend,
  OwnedRules,
  type RuleBackend,
  type Sought,
} from "../../pkg/rules/mod.ts"
import { type CniError, type Owner, ownerComment } from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
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

export interface GuardSpec extends GuardedPort {
  readonly owner: Owner
}

const feature: Feature<GuardSpec> = {
  rules: "spoof check",
  does: (spec) =>
    spec ? `guard port "${spec.port}" against other MACs than ${spec.mac}` : "check the source MACs of containers",
  needs: "the kernel needs nf_tables for bridges (CONFIG_NF_TABLES_BRIDGE)",
}

/** Checks that a container's frames have its MAC as source (`macspoofchk`), by nf_tables in the thread's namespace. */
export class SpoofCheck extends OwnedRules<GuardSpec> {
  /** `filter` is undefined if the kernel has no nf_tables. */
  constructor(filter: Filter<Netfilter> | undefined) {
    super(feature, filter, {
      nftables: filter && new NftablesSpoofCheck(filter),
      otherSuite: filter && new UpstreamSpoofCheck(filter),
    })
  }
}

class NftablesSpoofCheck extends NftablesBackend implements RuleBackend<GuardSpec> {
  protected readonly table = table.name

  /**
   * Reports whether the kernel supports the rules. If they do not exist yet, tries to add them in a dry run. Throws
   * `EPERM` without CAP_NET_ADMIN.
   */
  isUsable(): boolean {
    const { socket } = this
    return dryRun(socket, table, () => (isComplete(socket) ? [] : skeleton()))
  }

  /**
   * Drops frames with any other source MAC than `mac` at a bridge port, in one transaction: `nft add element bridge
   * cni_spoofcheck guarded { "veth0" comment "network/containerID/ifname" }` and `… allowed { "veth0" .
   * 0a:00:00:00:00:01 comment … }`, with missing table, chain, sets and rule. Call this before the port forwards.
   * Throws `NetlinkError`.
   */
  add({ owner, ...port }: GuardSpec, undo: Undo, onMissingRules = () => {}): void {
    const { socket } = this
    const comment = ownerComment(owner)
    const isThere = isComplete(socket)
    if (!isThere) onMissingRules()
    const planMissing = () =>
      planGuard({ isComplete: isComplete(socket), ...find(socket, [ifnameValue(port.port)]) }, port, comment)
    // The kernel refuses these operations if the port already has elements.
    const quick = isThere ? planNewGuard(port, comment) : undefined
    const change = () => commitQuickly(socket, quick, planMissing)
    undo.defer("check source MACs", () => this.takeBack(owner), change)
  }

  check({ owner, ...port }: GuardSpec): void {
    const { socket } = this
    const comment = ownerComment(owner)
    if (!isComplete(socket)) {
      throw missing(comment, printRule(rule), describeDormant(socket, table) ?? "no such rule, or additional ones")
    }
    const found = find(socket, [ifnameValue(port.port), encodeUtf8(comment)])
    expectElement(guarded, found.guarded, guardedElement(port, comment))
    expectElement(allowed, found.allowed, allowedElement(port, comment))
  }

  protected removeAll({ isStale, needles }: Sought): void {
    const { socket } = this
    atomically(socket, () => planUnguard(find(socket, needles), isStale))
  }
}

/** Reports whether the chain has only our rule, and the table is active. The sets exist if the rule does. */
function isComplete(socket: Pick<Netfilter, "dump" | "get">): boolean {
  const [only, ...more] = listRules(socket, chain)
  return only?.comment === rule.comment && more.length === 0 && !isDormant(socket, table)
}

function find(socket: Pick<Netfilter, "dump">, needles?: readonly Uint8Array[]): SpoofCheckElements {
  return { guarded: findElements(socket, guarded, needles), allowed: findElements(socket, allowed, needles) }
}

function expectElement(set: NamedSet, found: FoundElements | undefined, element: Element): void {
  const elements = found?.elements ?? []
  if (elements.some((one) => isSame(one, element))) return
  const expected = `${printElement(set, element)} in set bridge ${table.name} ${set.name}`
  const seen = elements.map((one) => printElement(set, one)).join(", ")
  throw missing(element.comment ?? "", expected, seen || "none")
}

function missing(owner: string, expected: string, found: string): CniError {
  return missingRules(`the spoof check of ${owner}`, expected, found)
}

/** The chain in which the Go suite's bridge plugin adds a rule for each port, which jumps to the port's chain. */
const upstreamChain: Chain = { table: { family: "bridge", name: "nat" }, name: "PREROUTING" }

/**
 * The rules that the Go suite's bridge plugin added. They are checked and removed, so that a node can change suites
 * while containers run. Their comments name no network, so GC cannot recognize stale rules.
 */
class UpstreamSpoofCheck extends InTable implements ForeignRules<GuardSpec> {
  protected readonly table = upstreamChain.table.name

  /** Checks that frames of the port reach a chain that drops other source MACs. Throws `CniError`, `NetlinkError`. */
  check({ owner, port, mac: address }: GuardSpec): void {
    const [ofPort, ofMac] = upstreamChains(owner)
    const rulesOf = (chain: Chain) =>
      listRules(this.socket, chain).map((rule) => [...valuesOf(rule), ...verdictsOf(rule)].join(" "))
    const isThere =
      rulesOf(upstreamChain).includes(`${ifnameValue(port)} jump ${ofPort.name}`) &&
      rulesOf(ofPort).includes(`jump ${ofMac.name}`) &&
      rulesOf(ofMac).join("; ") === `${mac.encode(address)} return; drop`
    if (!isThere) throw missing(ownerComment(owner), "the other suite's rules", "no such rules, or different ones")
  }

  /** Removes an owner's rules. Table and base chain stay, as after DEL of the Go suite. Throws `NetlinkError`. */
  remove(owner: Owner): void {
    const { socket } = this
    const comment = `macspoofchk-${upstreamId(owner)}`
    atomically(socket, () => {
      const rules = listRules(socket, upstreamChain, [encodeUtf8(comment)]).filter((rule) => rule.comment === comment)
      const left = upstreamChains(owner).filter((chain) => hasChain(socket, chain))
      // The kernel deletes a chain only if it is empty and no rule jumps to it.
      return [...rules.map(remove.rule), ...left.map(flush.chain), ...left.map(remove.chain)]
    })
  }
}

function upstreamId({ containerId, ifName }: Owner): string {
  return `${containerId}-${ifName}`
}

/** Returns the chain for frames of the port, and the chain with the allowed MAC, to which it jumps. */
function upstreamChains(owner: Owner): readonly [ofPort: Chain, ofMac: Chain] {
  const { table } = upstreamChain
  const name = `cni-br-iface-${upstreamId(owner)}`
  return [
    { table, name },
    { table, name: `${name}-mac` },
  ]
}
