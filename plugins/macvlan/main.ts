import {
  type Attaching,
  addInterface,
  type Checking,
  checkParent,
  defineInterfacePlugin,
  describeInterface,
  requireMtuOfParent,
  requireParent,
} from "../../pkg/attachment/mod.ts"
import { checkRoutes, configureLink, mismatch } from "../../pkg/ip/mod.ts"
import { linkData, macvlanModes, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"
import { type Interface, ownerComment, type Result } from "../../pkg/types/mod.ts"
import { type MacvlanConfig, parseMacvlanConfig } from "./config.ts"

/** Gives a container an interface with a MAC of its own on one of the host's. */
export const macvlan = defineInterfacePlugin<MacvlanConfig>({
  name: "macvlan",
  kind: "macvlan",
  config: parseMacvlanConfig,
  attach: attachMacvlan,
  check: checkMacvlan,
  requireUsable: requireMaster,
})

function attachMacvlan(attaching: Attaching, result: Result, config: MacvlanConfig): Interface[] {
  const { call, host, sandbox, inside, owner } = attaching
  const { linkInContainer, mode, mtu, mac, broadcastQueueLength } = config
  const parent = requireParent(linkInContainer ? inside : host, config.master)
  requireMtuOfParent(mtu, parent)
  const data = { mode: macvlanModes[mode], broadcastQueueLength }
  const link = addInterface(attaching, { kind: "macvlan", parent, parentInside: linkInContainer, mtu, mac, data })
  configureLink({ sandbox, inside, link }, result, { alias: ownerComment(owner) })
  return [{ ...describeInterface(link), sandbox: call.netns }]
}

function checkMacvlan({ host, inside, link, recorded }: Checking, config: MacvlanConfig): void {
  const mode = linkData(link, "macvlan")?.mode
  if (mode !== macvlanModes[config.mode]) {
    const found = Object.entries(macvlanModes).find(([, number]) => number === mode)?.[0]
    throw mismatch(`mode of "${link.name}"`, `"${config.mode}"`, `"${found ?? mode}"`)
  }
  if (config.master !== undefined)
    checkParent(link, requireParent(config.linkInContainer ? inside : host, config.master))
  checkRoutes(inside, link, recorded.prevResult)
}

/** What is in the container cannot be looked at before there is one. */
function requireMaster({ host }: { host: RouteSocket }, { linkInContainer, master, mtu }: MacvlanConfig): void {
  if (!linkInContainer) requireMtuOfParent(mtu, requireParent(host, master))
}

if (import.meta.main) runPlugin(macvlan)
