import { addressesOf } from "../../pkg/ip/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import { type Answered, type Call, defineRestorable, requireForAdd, runPlugin } from "../../pkg/skel/mod.ts"
import { AF_INET, type Attachment, CniError, Code, ownerOf, ownersOf, type Result } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { type PortmapConfig, parsePortmapConfig, portmapFields, withPortMappings } from "./config.ts"
import { chooseBackend, Hostports, portmapSpec } from "./hostports.ts"
import { families, type MappedAddress, mappedAddresses } from "./mapping.ts"
import { requireNft } from "./nftables/conditions.ts"
import { type PortRule, portRulesIn } from "./nftables/elements.ts"
import { restoreGuard } from "./nftables/localnet-guard.ts"
import { tableLayout } from "./nftables/table.ts"
import { restorePortmap } from "./restore.ts"
import { hostLinksIn, isLocalnetOnLink } from "./route-localnet.ts"

export { portmapKeyDocs } from "./config.ts"

export { Hostports, type PortRule, portRulesIn }

/** The rules that guard 127.0.0.0/8 while `route_localnet` is enabled. */
export const localnetGuards = tableLayout(AF_INET).guards

/** Maps ports of the host to ports of a container. An earlier plugin of the chain must have connected the container. */
export const portmap = defineRestorable<PortmapConfig>({
  name: "portmap",
  fields: portmapFields,
  config: parsePortmapConfig,
  add: addPortmap,
  check: checkPortmap,
  del: deletePortmap,
  status: statusPortmap,
  gc: gcPortmap,
  withRuntimeConfig: withPortMappings,
  restore: restorePortmap,
})

function addPortmap(call: Call, config: PortmapConfig): Answered {
  const result = requirePrevResult(call)
  const addresses = mappedAddresses(result, call.ifName, config.portMappings ?? [])
  const backend = addresses.length === 0 ? undefined : chooseBackend(config.backend)
  // A table of nf_tables that maps IPv4 ports includes the guard.
  if (backend === "iptables" || !hasIpv4(addresses)) tryGuardOpenLinks(call)
  if (addresses.length === 0) return call.answer(result)
  using hostports = Hostports.open()
  const spec = portmapSpec({ owner: ownerOf(call), netns: call.netns }, config, addresses)

  using undo = new Undo(call.log)
  const ahead = hostports.add(spec, backend, undo, call.log)
  const answer = call.answer(result, undo)
  try {
    hostports.flushOlderEntries(addresses, ahead)
  } catch (error) {
    // The mapping itself works, and such old flows are rare.
    call.log(`Cannot flush old UDP conntrack entries: ${error}`)
  }
  return answer
}

function hasIpv4(addresses: readonly MappedAddress[]): boolean {
  return addresses.some(({ family }) => family === AF_INET)
}

/** Returns the host's interfaces in the previous result that have `route_localnet` enabled. */
function openLinksOf({ network: { prevResult } }: Call): string[] {
  return hostLinksIn(prevResult).filter(isLocalnetOnLink)
}

/** Restores the guard of 127.0.0.0/8, because a flush removes the guard while `route_localnet` stays enabled. */
function guardOpenLinks(call: Call): void {
  const open = openLinksOf(call)
  if (open.length === 0) return
  using filter = PacketFilter.find()
  if (filter) restoreGuard(filter.socket, open)
}

/** Restores the guard during ADD. A failure is only logged. */
function tryGuardOpenLinks(call: Call): void {
  try {
    guardOpenLinks(call)
  } catch (error) {
    call.log(`Cannot protect 127.0.0.0/8, exposed by route_localnet: ${error}`)
  }
}

/** Checks the mappings, and restores the guard of 127.0.0.0/8, which in nf_tables is one of the checked rules. */
function checkPortmap(call: Call, config: PortmapConfig): void {
  const addresses = mappedAddresses(requirePrevResult(call), call.ifName, config.portMappings ?? [])
  if (addresses.length === 0) {
    guardOpenLinks(call)
    return
  }
  using hostports = Hostports.open()
  const spec = portmapSpec({ owner: ownerOf(call), netns: call.netns }, config, addresses)
  const backend = chooseBackend(config.backend)
  try {
    if (hostports.check(spec, backend) === "nftables" && hasIpv4(addresses)) return
  } catch (error) {
    if (!hostports.restoreGuard(openLinksOf(call))) throw error
    hostports.check(spec, backend)
    return
  }
  hostports.restoreGuard(openLinksOf(call))
}

/**
 * Removes an attachment's mappings, which the rules in the kernel record. Configured mappings are hints where to look.
 */
function deletePortmap(call: Call, { portMappings = [] }: PortmapConfig): void {
  const { prevResult } = call.network
  using hostports = Hostports.open()
  const addresses = prevResult ? addressesOf(prevResult).map(({ ip }) => ip) : []
  hostports.remove(ownerOf(call), { mappings: portMappings, addresses, links: hostLinksIn(prevResult) })
}

/** Throws if ports cannot be mapped. Changes nothing, and ignores a missing guard, which `cni doctor` reports. */
function statusPortmap(_call: Call, { conditions, ...config }: PortmapConfig): void {
  const backend = requireForAdd(() => chooseBackend(config.backend))
  using hostports = Hostports.open()
  hostports.requireUsable(backend)
  if (backend === "nftables" && families.some((family) => conditions[family].length > 0)) requireForAdd(requireNft)
}

function gcPortmap({ network: { name } }: Call, _config: PortmapConfig, attachments: readonly Attachment[]): void {
  using hostports = Hostports.open()
  hostports.gc(name, ownersOf(name, attachments))
}

function requirePrevResult({ network: { prevResult }, verb }: Call): Result {
  if (prevResult) return prevResult
  throw new CniError(Code.InvalidNetworkConfig, `Cannot ${verb} port mappings: prevResult is missing`, {
    details: "portmap must be called as chained plugin: it maps ports to a container that an earlier plugin connected",
  })
}

if (import.meta.main) runPlugin(portmap)
