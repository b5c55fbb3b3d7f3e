import { addressesOf } from "../../pkg/ip/mod.ts"
import { RouteSocket } from "../../pkg/netlink/mod.ts"
import { type Call, definePlugin, runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code, ownerOf, ownersOf, type Result } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { type PortmapConfig, parsePortmapConfig } from "./config.ts"
import {
  checkLocalnet,
  findHostLink,
  type HostLink,
  isLocalnetOn,
  needsLocalnet,
  switchLocalnetOn,
} from "./host-link.ts"
import { Hostports } from "./hostports.ts"
import { type Part, partsOf } from "./parts.ts"
import type { Request } from "./request.ts"

/** Maps ports of the host to ports of a container that an earlier plugin of the chain has made. */
export const portmap = definePlugin<PortmapConfig>({
  name: "portmap",
  config: parsePortmapConfig,

  add(call, config) {
    const result = requirePrevResult(call)
    const parts = partsOf(result, call.ifName, config.mappings ?? [])
    if (parts.length === 0) return call.answer(result)
    using hostports = Hostports.open()
    const { request, localnet } = prepare(call, config, parts)

    using undo = new Undo(call.log)
    const mapped = undo.step(
      "map ports",
      () => hostports.add(request, config),
      (made) => hostports.takeBack(request, made),
    )
    if (localnet !== undefined && !isLocalnetOn(localnet)) switchLocalnetOn(localnet)
    const answer = call.answer(result, undo)
    try {
      hostports.forgetOlderFlows(parts, mapped)
    } catch (error) {
      // Everything else works, and such flows are rare.
      call.log(`Cannot forget UDP flows from before the mapping: ${error}`)
    }
    return answer
  },

  check(call, config) {
    const parts = partsOf(requirePrevResult(call), call.ifName, config.mappings ?? [])
    if (parts.length === 0) return
    using hostports = Hostports.open()
    const { request, localnet } = prepare(call, config, parts)
    hostports.check(request, config)
    if (localnet !== undefined) checkLocalnet(localnet)
  },

  /** What it is told of mappings says where to look first, and never that there are none: the kernel is the record. */
  del(call, { mappings }) {
    const { prevResult } = call.network
    using hostports = Hostports.open()
    const addresses = prevResult ? addressesOf(prevResult).map(({ ip }) => ip) : []
    hostports.remove(ownerOf(call), { mappings: mappings ?? [], addresses })
  },

  status(_call, config) {
    using hostports = Hostports.open()
    hostports.requireUsable(config)
  },

  gc({ network: { name } }, _config, attachments) {
    using hostports = Hostports.open()
    hostports.gc(name, ownersOf(name, attachments))
  },
})

function requirePrevResult({ network: { prevResult }, verb }: Call): Result {
  if (prevResult) return prevResult
  throw new CniError(Code.InvalidNetworkConfig, `Cannot ${verb} port mappings: prevResult is missing`, {
    details: "portmap must be called as chained plugin: it maps to the container that an earlier plugin has connected",
  })
}

/** The request, and the interface that has to let 127.0.0.1 through to the container, if there is one. */
function prepare(call: Call, config: PortmapConfig, parts: readonly Part[]): { request: Request; localnet?: string } {
  const { snat, masqAll, conditions, mappings = [] } = config
  const link = snat ? localnetLinkTo(parts) : undefined
  const localnetLink = link?.isShared ? link.name : undefined
  const request = { owner: ownerOf(call), netns: call.netns, parts, mappings, snat, masqAll, conditions, localnetLink }
  return link ? { request, localnet: link.name } : { request }
}

function localnetLinkTo(parts: readonly Part[]): HostLink | undefined {
  const ipv4 = parts.find(({ family }) => family === "ip")
  if (!ipv4 || !needsLocalnet(ipv4.mappings)) return undefined
  using host = RouteSocket.open()
  return findHostLink(host, ipv4.address.ip)
}

if (import.meta.main) runPlugin(portmap)
