import { checkHostArp } from "./arp.ts"
import { checkComplete, checkDuplicates } from "./attachments.ts"
import { checkFixedEntries, checkOwnMac, checkPorts, checkSpanningTree } from "./bridge-ports.ts"
import { checkBridges, checkGateways } from "./bridges.ts"
import { checkContainerFilters } from "./container-filters.ts"
import { checkLocalRoutes, checkLoopbacks } from "./container-own.ts"
import { checkContainerRoutes } from "./container-routes.ts"
import { checkContainerLinks, checkInsides } from "./containers.ts"
import type { Check } from "./finding.ts"
import { checkFirewall } from "./firewall.ts"
import { checkBroken, checkClock, checkDisk, checkRecords, checkUnread } from "./host.ts"
import { checkHostNeighbours, checkHostRoutes } from "./host-routes.ts"
import { checkIpsec } from "./ipsec.ts"
import {
  checkAdvertisedRoutes,
  checkBridgeFiltering,
  checkConntrack,
  checkForwarding,
  checkIpv6,
  checkNeighbourTables,
  checkReversePath,
} from "./kernel.ts"
import { checkLinks, checkMtu } from "./links.ts"
import { checkListeners, checkPortAddresses } from "./listeners.ts"
import { checkLostRules } from "./lost-rules.ts"
import { checkExposedFiles, checkFiles, checkPools, checkRoutes, checkSubnets } from "./networks.ts"
import { checkNodeRanges } from "./node-ranges.ts"
import { checkLostPaths, checkOrphans } from "./orphans.ts"
import { checkHostGateways, checkOutsideRoutes, checkUplinkAddress } from "./outside.ts"
import { checkOwnTables } from "./own-tables.ts"
import { checkPlaced } from "./placed.ts"
import { checkPlugins } from "./plugins.ts"
import { checkReconcileListener } from "./reconcile-listener.ts"
import { checkContainerRules, checkHostRules, checkMainTables } from "./rules.ts"
import { checkFailedAddresses, checkSegments } from "./segments.ts"
import { checkSettings } from "./settings.ts"
import { checkLocks, checkStores } from "./stores.ts"
import { checkQueues, checkTrafficFilters } from "./traffic-control.ts"
import { checkTwins } from "./twins.ts"
import { checkDefaultRoute, checkDns, checkLocalnet, checkUplinkFilters, checkUplinkState } from "./uplinks.ts"
import { checkXdp } from "./xdp.ts"

/** All checks, in the order in which the report lists their findings. */
export const checks: readonly Check[] = [
  checkUnread,
  checkDisk,
  checkClock,
  checkRecords,
  checkBroken,
  checkStores,
  checkLocks,
  checkFiles,
  checkExposedFiles,
  checkPlugins,
  checkPlaced,
  checkSubnets,
  checkRoutes,
  checkPools,
  checkNodeRanges,
  checkForwarding,
  checkReversePath,
  checkAdvertisedRoutes,
  checkIpv6,
  checkConntrack,
  checkNeighbourTables,
  checkFirewall,
  checkOwnTables,
  checkBridgeFiltering,
  checkLinks,
  checkBridges,
  checkGateways,
  checkMtu,
  checkTwins,
  checkLostPaths,
  checkInsides,
  checkContainerLinks,
  checkLoopbacks,
  checkContainerRoutes,
  checkLocalRoutes,
  checkContainerFilters,
  checkContainerRules,
  checkSettings,
  checkSegments,
  checkFailedAddresses,
  checkPorts,
  checkSpanningTree,
  checkOwnMac,
  checkFixedEntries,
  checkHostRoutes,
  checkHostRules,
  checkMainTables,
  checkHostNeighbours,
  checkHostArp,
  checkIpsec,
  checkXdp,
  checkTrafficFilters,
  checkQueues,
  checkDefaultRoute,
  checkUplinkAddress,
  checkUplinkState,
  checkHostGateways,
  checkOutsideRoutes,
  checkUplinkFilters,
  checkLocalnet,
  checkDns,
  checkComplete,
  checkLostRules,
  checkDuplicates,
  checkListeners,
  checkPortAddresses,
  checkReconcileListener,
  checkOrphans,
]
