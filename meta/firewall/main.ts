import { addressesOf } from "../../pkg/ip/mod.ts"
import { type Answered, type Call, defineRestorable, type Restoring, runPlugin } from "../../pkg/skel/mod.ts"
import { type Attachment, CniError, Code, ownerOf, ownersOf, type Result } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { type FirewallConfig, firewallFields, parseFirewallConfig } from "./config.ts"
import { Firewall, type RestorableFirewall } from "./firewall.ts"
import { removeAcceptMarked } from "./iptables/accept-marked.ts"
import { listAccepted, removeLabels } from "./iptables/firewall.ts"
import { type DelHints, hostLinkOf, specOf } from "./spec.ts"

export { firewallKeyDocs } from "./config.ts"

export { listAccepted, removeAcceptMarked, removeLabels }

/**
 * Accepts a container's traffic in the host's firewall, and separates the container from containers on other bridges.
 */
export const firewall = defineRestorable<FirewallConfig>({
  name: "firewall",
  fields: firewallFields,
  config: parseFirewallConfig,
  add: addFirewall,
  check: checkFirewall,
  del: deleteFirewall,
  status: statusFirewall,
  gc: gcFirewall,
  restore: restoreFirewall,
})

function addFirewall(call: Call, config: FirewallConfig): Answered {
  const result = requirePrevResult(call)
  const spec = specOf(ownerOf(call), result, config)
  if (spec.addresses.length === 0) return call.answer(result)
  using filter = new Firewall(call.log)
  using undo = new Undo(call.log)
  filter.add(spec, config, undo, call.log)
  return call.answer(result, undo)
}

function checkFirewall(call: Call, config: FirewallConfig): void {
  const spec = specOf(ownerOf(call), requirePrevResult(call), config)
  if (spec.addresses.length === 0) return
  using filter = new Firewall(call.log)
  filter.check(spec, config)
}

function deleteFirewall(call: Call, config: FirewallConfig): void {
  using filter = new Firewall(call.log)
  filter.remove(ownerOf(call), config, delHints(call.network.prevResult))
}

function delHints(prevResult: Result | undefined): DelHints {
  try {
    if (!prevResult) return { addresses: [], bridge: undefined }
    return { addresses: addressesOf(prevResult).map(({ ip }) => ip), bridge: hostLinkOf(prevResult)?.bridge }
  } catch {
    return { addresses: [], bridge: undefined }
  }
}

function statusFirewall(call: Call, config: FirewallConfig): void {
  using filter = new Firewall(call.log)
  filter.requireUsable(config)
}

function gcFirewall(call: Call, config: FirewallConfig, attachments: readonly Attachment[]): void {
  const { name } = call.network
  using filter = new Firewall(call.log)
  filter.gc(name, ownersOf(name, attachments), config)
}

function restoreFirewall({ attachments, isDry, toIptables, log }: Restoring<FirewallConfig>): void {
  const wanted = attachments.flatMap((one): RestorableFirewall[] => {
    try {
      const spec = specOf(one.owner, one.result, one.config)
      return spec.addresses.length === 0 ? [] : [{ ...one, spec }]
    } catch (error) {
      one.refuse(error)
      return []
    }
  })
  if (wanted.length === 0) return
  using filter = new Firewall(log)
  filter.restore(wanted, { isDry, toIptables, log })
}

function requirePrevResult({ network: { prevResult }, verb }: Call): Result {
  if (prevResult) return prevResult
  throw new CniError(Code.InvalidNetworkConfig, `Cannot ${verb} firewall rules: prevResult is missing`, {
    details:
      "firewall must be called as chained plugin: it filters packets of a container that an earlier plugin connected",
  })
}

if (import.meta.main) runPlugin(firewall)
