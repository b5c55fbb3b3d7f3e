import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { u16be } from "../../../pkg/netlink/mod.ts"
import {
  atomically,
  type FoundRule,
  listRules,
  remove,
  tableFamily,
  targetsOf,
  valuesOf,
} from "../../../pkg/nftables/mod.ts"
import {
  type Filter,
  type ForeignRules,
  missingRules,
  ofOwner,
  ofStale,
  type RuleBackend,
  restoreBy,
  type Sought,
} from "../../../pkg/rules/mod.ts"
import { AF_INET, type Family, ownerComment } from "../../../pkg/types/mod.ts"
import { families, type HostportHints, type Mapping, type PortmapSpec, protocolNumber } from "../mapping.ts"
import { addHostports, promoteNext, undoAddHostports } from "./add.ts"
import { checkHostports, planRestore } from "./check.ts"
import { type DeleteContext, type Deleted, deleteHostports } from "./delete.ts"
import { canMapPorts, HOSTPORTS_TABLE } from "./table.ts"

/**
 * A backend of mappings. `add` returns the addresses of the container's other attachments that have some of the ports.
 */
export type HostportBackend = RuleBackend<PortmapSpec, HostportHints | undefined, readonly Uint8Array[]>

/**
 * Returns the backend nftables, which keeps mappings as elements of maps, with the owner as comment. `remove` and `gc`
 * append the deleted mappings to `all`.
 */
export function nftablesHostports(filter: Filter, context: DeleteContext, all: Deleted): HostportBackend {
  const { socket } = context
  const removeAll = (sought: Sought, hints?: HostportHints) => {
    const { deleted, stillOn } = deleteHostports(context, sought, hints?.mappings)
    all.deleted.push(...deleted)
    if (deleted.length > 0) all.stillOn.push(...stillOn)
  }
  return {
    isUsable: (spec) => (spec?.addresses ?? [{ family: AF_INET }]).every(({ family }) => canMapPorts(socket, family)),
    mayHold: () => filter.hasTable(HOSTPORTS_TABLE),
    add(spec, undo, onMissingRules) {
      const made = addHostports(socket, spec, onMissingRules)
      undo.defer("map ports", () => undoAddHostports(context, spec, made))
      if (made.mustPromote) promoteNext(socket, spec)
      return made.ahead
    },
    check: (spec) => checkHostports(socket, spec),
    restore: (specs, isDry) => restoreBy(socket, isDry, () => planRestore(socket, specs)),
    remove: (owner, hints) => removeAll(ofOwner(owner), hints),
    gc: (network, valid) => removeAll(ofStale(network, valid)),
  }
}

const UPSTREAM_TABLE = "cni_hostport"
/**
 * The chains with the Go suite's port rules. v1.6 to v1.8 use the second chain for ports on one address of the host.
 */
const PORTS = ["hostports", "hostip_hostports"] as const
const MASQUERADE = "masquerading"
const LOCALHOST = Uint8Array.of(127, 0, 0, 1)

type Socket = Filter["socket"]

/**
 * Returns the backend for rules that the Go suite, v1.6 and later, added with `backend: nftables`: one rule per
 * mapping, and up to two for masquerading. These rules are checked and removed, so that a node can change suites while
 * containers run. They do not name a network, so GC cannot recognize stale rules.
 */
export function upstreamHostports(filter: Filter): ForeignRules<PortmapSpec, HostportHints | undefined> {
  return {
    mayHold: () => filter.hasTable(UPSTREAM_TABLE),
    check: (spec) => checkUpstream(filter.socket, spec),
    /**
     * Removes a container's rules. Because their comment is only the container's ID, removes only those for
     * `addresses`: the container may be in several networks. Without `addresses` removes all of them, like the Go
     * suite's DEL. Table and chains stay. Throws `NetlinkError`.
     */
    remove({ containerId }, { addresses = [] }: Partial<HostportHints> = {}) {
      const needles = [encodeUtf8(`${containerId}\0`)]
      const isFor = (rule: FoundRule) => addresses.length === 0 || addresses.some((ip) => mentions(rule, ip))
      atomically(filter.socket, () =>
        families
          .flatMap((family) => [...PORTS, MASQUERADE].flatMap((name) => rulesIn(filter.socket, family, name, needles)))
          .filter((rule) => rule.comment === containerId && isFor(rule))
          .map(remove.rule),
      )
    },
  }
}

/**
 * Checks the Go suite's rules of an attachment. Ignores conditions, because the Go suite applies those of its last ADD
 * to all containers. Throws `CniError` and `NetlinkError`.
 */
function checkUpstream(socket: Socket, { owner, addresses, snat, masqAll }: PortmapSpec): void {
  for (const { family, address, mappings } of addresses) {
    const { ip } = address
    const isOwn = ({ comment }: FoundRule) => comment === owner.containerId
    const valuesIn = (...names: readonly string[]) =>
      names.flatMap((name) => rulesIn(socket, family, name).filter(isOwn)).map((rule) => valuesOf(rule).join())
    const ports = valuesIn(...PORTS)
    const masquerades = valuesIn(MASQUERADE)
    const sources = family === AF_INET ? [ip, LOCALHOST] : [ip]
    const isMasqueraded = masqAll
      ? masquerades.some((values) => values.endsWith(`,${ip}`))
      : sources.every((source) => masquerades.includes(`${source},${ip}`))
    const isComplete =
      isReached(socket, family) &&
      mappings.every((mapping) => ports.includes(valuesFor(ip, mapping))) &&
      (!snat || isMasqueraded)
    if (!isComplete) throw missingRules(`the other suite's port mappings of ${ownerComment(owner)}`, "all", "some")
  }
}

function rulesIn(socket: Socket, family: Family, name: string, needles?: readonly Uint8Array[]): FoundRule[] {
  return listRules(socket, { table: { family: tableFamily[family], name: UPSTREAM_TABLE }, name }, needles)
}

/** Reports whether the chains of both hooks jump to the chain of port rules. */
function isReached(socket: Socket, family: Family): boolean {
  const leads = (from: string): boolean =>
    rulesIn(socket, family, from)
      .flatMap(targetsOf)
      .some((to) => to === PORTS[0] || leads(to))
  return leads("prerouting") && leads("output")
}

/** Reports whether a rule contains an address, as a value or as the last part of a longer value. */
function mentions(rule: FoundRule, ip: Uint8Array): boolean {
  return valuesOf(rule).some((value) => `,${value}`.endsWith(`,${ip}`))
}

/** Returns the values in the rule `[ip daddr HOSTIP] PROTOCOL dport HOSTPORT dnat to IP:PORT`. */
function valuesFor(ip: Uint8Array, { hostIp, protocol, hostPort, containerPort }: Mapping): string {
  const values = [[protocolNumber[protocol]], u16be.encode(hostPort), ip, u16be.encode(containerPort)]
  return [...(hostIp ? [hostIp] : []), ...values].join()
}
