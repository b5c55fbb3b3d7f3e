import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { isTableInUse } from "../../../pkg/iptables/mod.ts"
import { u16be } from "../../../pkg/netlink/mod.ts"
import {
  atomically,
  type FoundRule,
  hasRules,
  listRules,
  type PacketFilter,
  remove,
  tableFamily,
  targetsOf,
  valuesOf,
} from "../../../pkg/nftables/mod.ts"
import {
  type ForeignRules,
  InTable,
  missingRules,
  NftablesBackend,
  ofOwner,
  type Restored,
  type RuleBackend,
  restoreBy,
  type Sought,
} from "../../../pkg/rules/mod.ts"
import { AF_INET, type Family, type Owner, ownerComment } from "../../../pkg/types/mod.ts"
import type { Undo } from "../../../pkg/undo/mod.ts"
import { hasIptablesHostports } from "../iptables/hostports.ts"
import {
  type DnatMapping,
  families,
  type HostportHints,
  type Mapping,
  type PortmapSpec,
  protocolNumber,
} from "../mapping.ts"
import { findOpenLinks, guardLocalnet, undoLocalnetEntry, unrecordedLocalnetEntry } from "../route-localnet.ts"
import { addHostports, promoteNext, undoAddHostports } from "./add.ts"
import { checkHostports } from "./check.ts"
import { type DeleteContext, deleteEmptyTables, deleteHostports } from "./delete.ts"
import { findByComment } from "./find.ts"
import { planRestore } from "./restore.ts"
import { canMapPorts, HOSTPORTS_TABLE, tableLayout } from "./table.ts"

/** Port mappings in nf_tables: elements of maps, with their owner as comment. */
export class NftablesHostports
  extends NftablesBackend<HostportHints, PacketFilter>
  implements RuleBackend<PortmapSpec, HostportHints, readonly Uint8Array[]>, DeleteContext
{
  protected readonly table = HOSTPORTS_TABLE
  /** What `remove` and `gc` have deleted. */
  readonly deleted: DnatMapping[] = []
  /** The interfaces whose `route_localnet` should be off by now and cannot be switched off. */
  readonly stillOn: string[] = []

  isLocalnetNeeded(): boolean {
    return isTableInUse(this.filter, "nat") && hasIptablesHostports(this.socket)
  }

  isUsable(spec?: PortmapSpec): boolean {
    return (spec?.addresses ?? [{ family: AF_INET }]).every(({ family }) => canMapPorts(this.socket, family))
  }

  /** Whether an attachment has any mapping here, also where rules are missing. */
  holds(owner: Owner): boolean {
    if (!this.mayHold()) return false
    return findByComment(this.socket, ofOwner(owner)).some(({ elements }) => elements.length > 0)
  }

  add(spec: PortmapSpec, undo: Undo, onNewTable = () => {}): readonly Uint8Array[] {
    const made = addHostports(this.socket, spec, () => {
      if (!this.mayHold()) onNewTable()
    })
    undo.defer("map ports", () => undoAddHostports(this, spec, made))
    if (made.mustPromote) promoteNext(this.socket, spec)
    return made.ahead
  }

  check(spec: PortmapSpec): void {
    checkHostports(this.socket, spec)
  }

  restore(specs: readonly PortmapSpec[], isDry: boolean): Restored[] {
    return restoreBy(this.socket, isDry, () => planRestore(this.socket, specs))
  }

  protected removeAll(sought: Sought, hints?: HostportHints): void {
    const { deleted, stillOn } = deleteHostports(this, sought, hints?.mappings)
    this.deleted.push(...deleted)
    if (deleted.length > 0) this.stillOn.push(...stillOn)
  }

  /** Whether the setting of a link is recorded, and packets from elsewhere kept out. */
  isGuarded(link: string): boolean {
    const layout = tableLayout(AF_INET)
    const isRecorded = unrecordedLocalnetEntry(this.socket, layout, link) === undefined
    return !this.isUsable() || (isRecorded && hasRules(this.socket, layout.table, layout.guards))
  }

  /**
   * Keeps packets from elsewhere out of 127.0.0.0/8 while `route_localnet` is on for a link: the rules of iptables, which are
   * upstream's, would let them in.
   */
  guard(link: string, undo: Undo): void {
    if (!this.isUsable()) return // a kernel with a part of nf_tables
    const made = guardLocalnet(this.socket, link)
    undo.defer("guard 127.0.0.0/8", () => {
      for (const entry of made) undoLocalnetEntry(this.socket, entry)
      deleteEmptyTables(this)
    })
  }

  /** Whether packets from elsewhere are kept out of 127.0.0.0/8, or nothing here can do that. */
  isClosed(): boolean {
    const { table, guards } = tableLayout(AF_INET)
    return hasRules(this.socket, table, guards) || !this.isUsable()
  }

  /** Restores the guard for these interfaces, whose `route_localnet` is on, after a flush; changes nothing if the guard is in place. */
  restoreGuard(open: readonly string[]): void {
    if (this.isClosed()) return
    for (const link of open) guardLocalnet(this.socket, link)
  }

  /** The setting `route_localnet` is not left on without the guard, as `nft flush ruleset` leaves it. */
  guardOpenLinks(addresses: readonly Uint8Array[]): void {
    for (const link of findOpenLinks(addresses)) if (this.isUsable()) guardLocalnet(this.socket, link)
  }
}

/** Where the Go suite has the rules of ports: the second chain is that of v1.6 to v1.8 for ports of one address. */
const UPSTREAM_PORTS = ["hostports", "hostip_hostports"] as const
const UPSTREAM_MASQUERADE = "masquerading"

/**
 * What the Go suite, from v1.6 on, has with `backend: nftables`: a rule for each mapping, and up to two for masquerading. They are
 * checked and removed so that a node can change suites with containers running. They name no network, so GC cannot know what is stale.
 */
export class UpstreamHostports extends InTable implements ForeignRules<PortmapSpec, HostportHints> {
  protected readonly table = "cni_hostport"

  /** Conditions are not compared: the Go suite has those of its last ADD for all containers. Throws `CniError` and `NetlinkError`. */
  check({ owner, addresses, snat, masqAll }: PortmapSpec): void {
    const { containerId } = owner
    for (const { family, address, mappings } of addresses) {
      const { ip } = address
      const isOwn = ({ comment }: FoundRule) => comment === containerId
      const valuesIn = (...names: readonly string[]) =>
        names.flatMap((name) => this.#rules(family, name).filter(isOwn)).map((rule) => valuesOf(rule).join())
      const ports = valuesIn(...UPSTREAM_PORTS)
      const masquerades = valuesIn(UPSTREAM_MASQUERADE)
      const sources = family === AF_INET ? [ip, LOCALHOST] : [ip]
      const isMasqueraded = masqAll
        ? masquerades.some((values) => values.endsWith(`,${ip}`))
        : sources.every((source) => masquerades.includes(`${source},${ip}`))
      const isComplete =
        this.#isReached(family) &&
        mappings.every((mapping) => ports.includes(upstreamValues(ip, mapping))) &&
        (!snat || isMasqueraded)
      if (!isComplete) throw missingRules(`the other suite's port mappings of ${ownerComment(owner)}`, "all", "some")
    }
  }

  /** Whether the chains of both hooks lead to the chain of ports. */
  #isReached(family: Family): boolean {
    const leads = (from: string): boolean =>
      this.#rules(family, from)
        .flatMap(targetsOf)
        .some((to) => to === UPSTREAM_PORTS[0] || leads(to))
    return leads("prerouting") && leads("output")
  }

  #rules(family: Family, name: string, needles?: readonly Uint8Array[]): FoundRule[] {
    const table = { family: tableFamily[family], name: this.table }
    return listRules(this.socket, { table, name }, needles)
  }

  /**
   * The rules have the container's id and nothing else as comment: of a container in several networks only those go that are for
   * `addresses`, and without any all of them, as the Go suite's DEL does. Table and chains stay. Throws `NetlinkError`.
   */
  remove({ containerId }: Owner, { addresses }: Pick<HostportHints, "addresses">): void {
    const needles = [encodeUtf8(`${containerId}\0`)]
    const isFor = (rule: FoundRule) => addresses.length === 0 || addresses.some((ip) => mentions(rule, ip))
    const chains = [...UPSTREAM_PORTS, UPSTREAM_MASQUERADE]
    atomically(this.socket, () =>
      families
        .flatMap((family) => chains.flatMap((name) => this.#rules(family, name, needles)))
        .filter((rule) => rule.comment === containerId && isFor(rule))
        .map(remove.rule),
    )
  }
}

const LOCALHOST = Uint8Array.of(127, 0, 0, 1)

/** Whether a rule sends packets to an address, or compares one with it, alone or as the last part of a longer value. */
function mentions(rule: FoundRule, ip: Uint8Array): boolean {
  return valuesOf(rule).some((value) => `,${value}`.endsWith(`,${ip}`))
}

/** The values of the rule `[ip daddr HOSTIP] PROTOCOL dport HOSTPORT dnat to IP:PORT`. */
function upstreamValues(ip: Uint8Array, { hostIp, protocol, hostPort, containerPort }: Mapping): string {
  const values = [[protocolNumber[protocol]], u16be.encode(hostPort), ip, u16be.encode(containerPort)]
  return [...(hostIp ? [hostIp] : []), ...values].join()
}
