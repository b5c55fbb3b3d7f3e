import { Masquerade } from "../masquerade/mod.ts"
import { RouteSocket } from "../netlink/mod.ts"
import { PacketFilter } from "../nftables/mod.ts"
import type { Restoring } from "../skel/mod.ts"
import { readRecorded } from "./check.ts"
import type { AttachmentConfig, InterfacePlugin, RestorableInterface } from "./plugin.ts"

/** Makes again what the plugin itself restores, and then the masquerade, for all attachments. What lies in containers stays as it is. */
export function restoreAttachments<C extends AttachmentConfig>(
  plugin: InterfacePlugin<C>,
  masquerades: (config: C) => boolean,
  restoring: Restoring<C>,
): void {
  using host = RouteSocket.open()
  using filter = restoring.attachments.some(({ config }) => config.hasRules) ? PacketFilter.find() : undefined
  const attachments = restoring.attachments.flatMap((one): RestorableInterface<C>[] => {
    try {
      const { owner, result } = one
      return [{ ...one, recorded: readRecorded({ network: { prevResult: result }, ifName: owner.ifName }) }]
    } catch (error) {
      one.refuse(error)
      return []
    }
  })
  plugin.restore?.({ ...restoring, attachments, host, filter })
  const masqueraded = attachments.filter(({ config }) => masquerades(config))
  if (masqueraded.length === 0) return
  const wanted = masqueraded.map(({ owner, recorded, config, tell, refuse }) => ({
    spec: { owner, addresses: recorded.addresses },
    asked: config.ipMasqBackend,
    made: () => tell("masquerade"),
    refuse,
  }))
  new Masquerade(filter).restore(wanted, restoring)
}
