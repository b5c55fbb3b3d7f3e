import {
  type Attaching,
  type AttachmentConfig,
  addInterface,
  defineInterfacePlugin,
  describeInterface,
  type InterfacePlugin,
} from "../../../pkg/attachment/mod.ts"
import { configureLink, createVethPair } from "../../../pkg/ip/mod.ts"
import { deleteLink, getLink, setLink } from "../../../pkg/netlink/mod.ts"
import type { Plugin } from "../../../pkg/skel/mod.ts"
import { ownerComment } from "../../../pkg/types/mod.ts"

/** A configuration with an IPAM plugin and the kernel's defaults. */
export const plainConfig: AttachmentConfig = { mtu: undefined, ipam: "static", dns: undefined }

/**
 * Returns a minimal plugin for the scaffold, whose interface is a veth. The `hooks` can replace it by a macvlan on
 * "up0".
 */
export function tester(
  said: string[],
  hooks: Partial<InterfacePlugin<AttachmentConfig>> = {},
): Plugin<AttachmentConfig> {
  return defineInterfacePlugin<AttachmentConfig>({
    name: "tester",
    kind: "veth",
    config: () => plainConfig,
    attach(attaching, lease, { mtu }) {
      said.push("attach")
      const { call, sandbox, inside } = attaching
      const ends = hooks.kind === "macvlan" ? makeMacvlan(attaching) : makePair(attaching, mtu)
      configureLink({ sandbox, inside, link: getLink(inside, call.ifName) }, lease())
      return [{ ...describeInterface(getLink(inside, call.ifName)), sandbox: call.netns }, ...ends]
    },
    ...hooks,
  })
}

function makePair({ call, owner, host, sandbox, undo }: Attaching, mtu: number | undefined) {
  const name = createVethPair(host, { sandbox, ifName: call.ifName, mtu, alias: ownerComment(owner) })
  undo.defer("create the pair", () => deleteLink(host, getLink(host, name)))
  setLink(host, name, { up: true })
  return [describeInterface(getLink(host, name))]
}

function makeMacvlan(attaching: Attaching) {
  const parent = getLink(attaching.host, "up0")
  addInterface(attaching, { kind: "macvlan", parent, mtu: undefined, mac: undefined, data: {} })
  return []
}
