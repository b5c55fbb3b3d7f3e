import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { isTableInUse } from "../../../pkg/iptables/mod.ts"
import {
  atomically,
  type FoundRule,
  hasRules,
  listRules,
  type PacketFilter,
  remove,
  tableFamily,
} from "../../../pkg/nftables/mod.ts"
import {
  type ForeignRules,
  InTable,
  NftablesBackend,
  ofOwner,
  type Restored,
  type RuleBackend,
  restoreBy,
  type Sought,
} from "../../../pkg/rules/mod.ts"
import { AF_INET, type Owner } from "../../../pkg/types/mod.ts"
import type { Undo } from "../../../pkg/undo/mod.ts"
import { hasIptablesHostports } from "../iptables/hostports.ts"
import { type DnatMapping, families, type HostportHints, type PortmapSpec } from "../mapping.ts"
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

const UPSTREAM_CHAINS = ["hostports", "hostip_hostports", "masquerading"] as const

/**
 * What the Go suite, from v1.6 on, has with `backend: nftables`: a rule for each mapping, and up to two for masquerading. They are
 * removed so that a node can change suites with containers running. They name no network, so GC cannot know what is stale.
 */
export class UpstreamHostports extends InTable implements ForeignRules<PortmapSpec, HostportHints> {
  protected readonly table = "cni_hostport"

  /**
   * The rules have the container's id and nothing else as comment: of a container in several networks only those go that are for
   * `addresses`, and without any all of them, as the Go suite's DEL does. Table and chains stay. Throws `NetlinkError`.
   */
  remove({ containerId }: Owner, { addresses }: Pick<HostportHints, "addresses">): void {
    const { socket } = this
    const needles = [encodeUtf8(`${containerId}\0`)]
    const isFor = (rule: FoundRule) => addresses.length === 0 || addresses.some((ip) => mentions(rule, ip))
    const chains = families.flatMap((family) =>
      UPSTREAM_CHAINS.map((name) => ({ table: { family: tableFamily[family], name: this.table }, name })),
    )
    atomically(socket, () =>
      chains
        .flatMap((chain) => listRules(socket, chain, needles))
        .filter((rule) => rule.comment === containerId && isFor(rule))
        .map(remove.rule),
    )
  }
}

/** Whether a rule sends packets to an address, or compares one with it. */
function mentions({ expressions }: FoundRule, ip: Uint8Array): boolean {
  return expressions.some(({ name, data }) => {
    if ((name !== "immediate" && name !== "cmp") || data instanceof Uint8Array) return false
    return String(data.data?.value) === String(ip)
  })
}
