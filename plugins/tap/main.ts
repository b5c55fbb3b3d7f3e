import {
  type Attaching,
  type Checking,
  configureInterface,
  defineInterfacePlugin,
  type Lease,
} from "../../pkg/attachment/mod.ts"
import { mismatch } from "../../pkg/ip/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import { deleteLink, findLink, getLink, type Ifindex, type Link, linkData, setLink } from "../../pkg/netlink/mod.ts"
import { type Plugin, runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code, type Interface, ownerComment } from "../../pkg/types/mod.ts"
import { parseTapConfig, type TapConfig, tapFields } from "./config.ts"
import { createTap, IFF_TAP, openTun } from "./device.ts"
import { createTapIfAsked, createTapIn, withContext } from "./selinux.ts"

export { tapKeyDocs } from "./config.ts"

/** Gives a container a tap device for a program, such as a virtual machine monitor. */
export const tap = defineInterfacePlugin<TapConfig, Link | undefined>({
  name: "tap",
  kind: "tun", // the kernel's kind of a tap device
  fields: tapFields,
  config: parseTapConfig,
  prepare: findBridge,
  attach: attachTap,
  check: checkTap,
  requireUsable: requireTun,
})

/** Returns the configured bridge; undefined if none is configured. Throws code 7 if the bridge does not exist. */
function findBridge(attaching: Attaching, { bridge }: TapConfig): Link | undefined {
  return bridge === undefined ? undefined : requireBridge(attaching, bridge)
}

function attachTap(attaching: Attaching, lease: Lease, config: TapConfig, bridge: Link | undefined): Interface[] {
  return configureInterface(attaching, addTap(attaching, config, bridge), lease, config)
}

/** Returns the bridge in the container that the tap joins. Throws code 7 if the bridge does not exist. */
export function requireBridge({ call, inside }: Attaching, name: string): Link {
  const found = findLink(inside, name)
  if (found?.kind === "bridge") return found
  const details = found ? `"${name}" is not a bridge` : "it must exist before the tap becomes its port"
  throw new CniError(Code.InvalidNetworkConfig, `Cannot find the bridge "${name}" in "${call.netns}"`, { details })
}

/** Creates the tap, down, with its owner as alias. */
function addTap({ call, sandbox, inside, owner, undo }: Attaching, config: TapConfig, bridge: Link | undefined): Link {
  const name = call.ifName
  const { selinuxContext, multiQueue, vnetHdr, mac, mtu } = config
  const device = { name, multiQueue, vnetHdr, owner: config.owner, group: config.group }
  const configure = () => setLink(inside, name, { mac, mtu, alias: ownerComment(owner), master: bridge?.index })
  try {
    if (selinuxContext === undefined) sandbox.run(() => createTap(device, configure))
    else sandbox.run(() => createTapIn(selinuxContext, device))
    undo.defer(`create tap "${name}"`, () => deleteLink(inside, getLink(inside, name)))
    if (selinuxContext !== undefined) configure() // the process with that context can only create a device
  } catch (cause) {
    if (cause instanceof CniError && cause.code !== Code.Internal) throw cause
    // The name was free before, so another process has just used it.
    const code = isErrno(cause, "EBUSY") ? Code.TryAgainLater : Code.Internal
    throw new CniError(code, `Cannot create tap "${name}" in "${call.netns}"`, { cause })
  }
  return getLink(inside, name)
}

/** Checks the properties and users of the tap. Throws `CniError`. */
export function checkTap({ inside, link }: Checking, { owner, group, multiQueue, bridge }: TapConfig): void {
  const data = linkData(link, "tun") ?? {}
  const master = bridge && link.attributes.master && findLink(inside, link.attributes.master as Ifindex)?.name
  const compared = {
    type: ["tap", data.type === IFF_TAP ? "tap" : "tun"],
    owner: [owner, data.owner],
    group: [group, data.group],
    multiQueue: [multiQueue, data.multiQueue === 1],
    bridge: [bridge, master],
  } as const
  for (const [key, [expected, found]] of Object.entries(compared)) {
    if (found !== expected) throw mismatch(`${key} of "${link.name}"`, `${expected ?? "none"}`, `${found ?? "none"}`)
  }
}

function requireTun(_sides: unknown, { selinuxContext }: TapConfig): void {
  using _file = openTun()
  if (selinuxContext !== undefined) withContext(selinuxContext, () => undefined)
}

/** Runs the plugin, or only creates a device if `createTapIn` has started this process. */
export function runTap(delegates: readonly Plugin<unknown>[] = []): never {
  createTapIfAsked()
  return runPlugin(tap, delegates)
}

if (import.meta.main) runTap()
