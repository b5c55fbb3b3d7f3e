import { Masquerade } from "../masquerade/mod.ts"
import { type Link, listLinks, RouteSocket } from "../netlink/mod.ts"
import { PacketFilter } from "../nftables/mod.ts"
import type { Restoring } from "../skel/mod.ts"
import { type Cidr, CniError, Code, contains, ownerComment, parseCidr } from "../types/mod.ts"
import { readRecorded } from "./check.ts"
import type { AttachmentConfig, InterfacePlugin, RestorableInterface } from "./plugin.ts"

/** Restores the plugin's own objects on the host, then the masquerade. Changes nothing inside containers. */
export function restoreAttachments<C extends AttachmentConfig>(
  plugin: InterfacePlugin<C, unknown>,
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
  if (!restoring.toIptables) plugin.restore?.({ ...restoring, attachments, host, filter })
  const masqueraded = attachments.filter(({ config }) => masquerades(config))
  if (masqueraded.length === 0) return
  const wanted = masqueraded.map(({ owner, recorded, config, tell, refuse }) => ({
    spec: { owner, addresses: masqueradedOf(config, recorded.addresses) },
    asked: config.ipMasqBackend,
    made: () => tell("masquerade"),
    refuse,
  }))
  new Masquerade(filter).restore(wanted, restoring)
}

/** Returns the addresses, each with the prefix length of the network that it reaches without masquerade. */
export function masqueradedOf({ ipMasqBeyond = [] }: AttachmentConfig, addresses: readonly Cidr[]): Cidr[] {
  const networks = ipMasqBeyond.flatMap((text) => parseCidr(text) ?? [])
  return addresses.map((address) => {
    const wider = networks.find((network) => network.prefix < address.prefix && contains(network, address.ip))
    return wider ? { ...address, prefix: wider.prefix } : address
  })
}

/** The host's ends of veth pairs, listed once for many attachments. */
export class HostEnds {
  readonly #byAlias = new Map<string, Link>()
  readonly #byName = new Map<string, Link>()

  /** Lists the links. Throws `NetlinkError`. */
  constructor(host: RouteSocket) {
    for (const link of listLinks(host, undefined, { kind: "veth" })) {
      const { alias } = link.attributes
      if (alias) this.#byAlias.set(alias, link)
      else this.#byName.set(link.name, link)
    }
  }

  /** Returns the host's end by the owner's alias, or by name if the Go suite created it; `undefined` if deleted. */
  findEnd({ owner, result }: Pick<RestorableInterface<unknown>, "owner" | "result">): Link | undefined {
    const named = result.interfaces.flatMap(({ name, sandbox }) => (sandbox ? [] : (this.#byName.get(name) ?? [])))
    return this.#byAlias.get(ownerComment(owner)) ?? named[0]
  }

  /** Like `findEnd`; throws `CniError` if the end was deleted. */
  endOf(one: Pick<RestorableInterface<unknown>, "owner" | "result">): Link {
    const end = this.findEnd(one)
    if (end) return end
    const comment = ownerComment(one.owner)
    throw new CniError(Code.Internal, `Cannot restore "${comment}": the host's end of its pair was deleted`, {
      details: `the container no longer has an interface; "cni reattach ${comment}" creates it`,
    })
  }
}
