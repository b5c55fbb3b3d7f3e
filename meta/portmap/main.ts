import { addressesOf } from "../../pkg/ip/mod.ts"
import { type Answered, type Call, defineRestorable, requireForAdd, runPlugin } from "../../pkg/skel/mod.ts"
import { AF_INET, type Attachment, CniError, Code, ownerOf, ownersOf, type Result } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { type PortmapConfig, parsePortmapConfig, portmapFields } from "./config.ts"
import { Hostports } from "./hostports.ts"
import { chooseBackend } from "./kube-ipvs.ts"
import { families, mappedAddresses } from "./mapping.ts"
import { requireNft } from "./nftables/conditions.ts"
import { type PortRule, portRulesIn } from "./nftables/inventory.ts"
import { tableLayout } from "./nftables/table.ts"
import { prepare } from "./prepare.ts"
import { restorePortmap } from "./restore.ts"
import { checkLocalnet, isLocalnetOn, openLinksAmong, switchLocalnetOn } from "./route-localnet.ts"

export { portmapKeyDocs } from "./config.ts"

export { Hostports, type PortRule, portRulesIn }

/** The rules that keep 127.0.0.0/8 closed where `route_localnet` is on. */
export const localnetGuards = tableLayout(AF_INET).guards

/** Maps ports of the host to ports of a container that an earlier plugin of the chain has made. */
export const portmap = defineRestorable<PortmapConfig>({
  name: "portmap",
  fields: portmapFields,
  config: parsePortmapConfig,
  add: addPortmap,
  check: checkPortmap,
  del: deletePortmap,
  status: statusPortmap,
  gc: gcPortmap,
  restore: restorePortmap,
})

function addPortmap(call: Call, config: PortmapConfig): Answered {
  const result = requirePrevResult(call)
  const addresses = mappedAddresses(result, call.ifName, config.portMappings ?? [])
  const backend = addresses.length === 0 ? undefined : chooseBackend(config.backend)
  // Where IPv4 is mapped in nf_tables the table comes with its guard.
  if (backend === "iptables" || !addresses.some(({ family }) => family === AF_INET)) tryRestoreGuard(call)
  if (addresses.length === 0) return call.answer(result)
  using hostports = Hostports.open()
  const { spec, localnet } = prepare({ owner: ownerOf(call), netns: call.netns }, config, addresses)

  using undo = new Undo(call.log)
  const ahead = hostports.add(spec, backend, undo, call.log)
  if (localnet !== undefined && !isLocalnetOn(localnet)) switchLocalnetOn(localnet)
  const answer = call.answer(result, undo)
  try {
    hostports.flushOlderEntries(addresses, ahead)
  } catch (error) {
    // Everything else works, and such flows are rare.
    call.log(`Cannot flush old UDP conntrack entries: ${error}`)
  }
  return answer
}

/** Returns the interfaces of the host in the result on which `route_localnet` is on. */
function openLinksOf({ network: { prevResult } }: Call): readonly string[] {
  return openLinksAmong(prevResult?.interfaces.flatMap(({ name, sandbox }) => (sandbox ? [] : [name])))
}

/** Restores the guard of 127.0.0.0/8, which a flush takes while `route_localnet` stays. An ADD goes on where that fails. */
function tryRestoreGuard(call: Call): void {
  const open = openLinksOf(call)
  if (open.length === 0) return
  try {
    using hostports = Hostports.open()
    hostports.restoreGuard(open)
  } catch (error) {
    call.log(`Cannot guard 127.0.0.0/8, opened by route_localnet: ${error}`)
  }
}

function checkPortmap(call: Call, config: PortmapConfig): void {
  using hostports = Hostports.open()
  const open = openLinksOf(call)
  if (open.length > 0) hostports.restoreGuard(open)
  const addresses = mappedAddresses(requirePrevResult(call), call.ifName, config.portMappings ?? [])
  if (addresses.length === 0) return
  const { spec, localnet } = prepare({ owner: ownerOf(call), netns: call.netns }, config, addresses)
  hostports.check(spec, chooseBackend(config.backend))
  if (localnet !== undefined) checkLocalnet(localnet)
}

/**
 * The configured mappings are hints where to look first. The kernel's rules are the record, also without configured
 * mappings.
 */
function deletePortmap(call: Call, { portMappings = [] }: PortmapConfig): void {
  const { prevResult } = call.network
  using hostports = Hostports.open()
  const addresses = prevResult ? addressesOf(prevResult).map(({ ip }) => ip) : []
  hostports.remove(ownerOf(call), { mappings: portMappings, addresses })
}

/** Changes nothing, not even where the guard is missing: `cni doctor` asks for STATUS, and reports that. */
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
    details:
      "portmap must be called as chained plugin: it maps ports to a container that an earlier plugin has connected",
  })
}

if (import.meta.main) runPlugin(portmap)
