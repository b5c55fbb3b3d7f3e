/**
 * Reads a node as one typed value: its networks, the runtime's cache, host-local's store, links, addresses, routes, and
 * packet filter rules with their owners. Joins the records of each attachment. Changes nothing.
 *
 * @example
 * const node = readNode({ confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"], cacheDir: "/var/lib/cni", dataDir })
 * for (const { network, containerId, faults } of attachmentsOf(node)) …
 */

export { attachmentsOf, isNamespace, type NodeAttachment, type Source } from "./attachments.ts"
export { describeLostBridge, type LostBridge, lostBridge } from "./bridges.ts"
export { containerChains, type FilterRules, type OwnedRule, readOwnedRules } from "./filter-rules.ts"
export { foreign } from "./foreign.ts"
export { countedOf, type HostTables, readHostTables } from "./host-tables.ts"
export { familiesWithoutMain, type Inside, isUsual, type NotInside, readInsides, takesFrames } from "./inside.ts"
export {
  describePolicy,
  type FoundPolicy,
  findPolicy,
  type HostIpsec,
  noIpsec,
  policiesOf,
  readHostIpsec,
  whyBlocked,
} from "./ipsec.ts"
export { type BrokenName, type LeaseStore, readStores } from "./leases.ts"
export {
  CLOSED,
  type Counters,
  type NodeLink,
  type NodeRoute,
  type PortSetting,
  readLinks,
  readRoutes,
} from "./links.ts"
export { ipamOf, type NetworkFile, readNetworks } from "./networks.ts"
export { type FilterView, readPacketFilter, verdictOf } from "./packet-filter.ts"
export { type NameOf, namesOfFiles } from "./plugin-names.ts"
export { type AskedMapping, askedMappings, portAsJson } from "./ports.ts"
export {
  brokenRecords,
  type CacheEntry,
  cacheDirs,
  DEFAULT_DATA_DIR,
  type Node,
  type NodePlaces,
  readNode,
  type Unread,
} from "./read.ts"
export { recordedNetwork, recordedPlugins } from "./recorded.ts"
export { deleteRulesOf, deleteStaleRules } from "./rule-removal.ts"
export { readTrafficFilters, type TrafficFilter } from "./traffic-control.ts"
