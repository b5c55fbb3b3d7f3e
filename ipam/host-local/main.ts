import { readTextFile } from "../../pkg/libc/mod.ts"
import { type Call, definePlugin, requireForAdd, runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code, type Dns, type IpConfig } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { type Address, formatAddress } from "./address.ts"
import { checkReservation } from "./check.ts"
import { type HostLocalConfig, parseHostLocalConfig } from "./config.ts"
import { describeOwner, type Owner, toolHint } from "./owner.ts"
import { type RangeSet, rangeOf } from "./ranges.ts"
import { release, releaseAddress, releaseOthers, reserve } from "./reservations.ts"
import { parseResolvConf } from "./resolv-conf.ts"
import { checkStatus } from "./status.ts"
import { Store } from "./store.ts"

export { parseAddress } from "./address.ts"
export { type Lease, listLeases, listNetworks } from "./inventory.ts"
export { formatRangeSet } from "./ranges.ts"
export { usageOf } from "./status.ts"
export { type HostLocalConfig, parseHostLocalConfig, release, releaseAddress, Store }

/** Address management in files of this host: one address from each range set, for as long as the container lives. */
export const hostLocal = definePlugin<HostLocalConfig>({
  name: "host-local",
  config: parseHostLocalConfig,

  add(call, { resolvConf, rangeSets, requested, routes, directory }) {
    const dns = resolvConf === undefined ? {} : readResolvConf(resolvConf)
    const store = new Store({ directory, log: call.log })
    const owner = ownerOf(call)
    const { identity } = call.namespace
    const netns = identity === undefined ? undefined : { path: call.netns, identity }
    using undo = new Undo(call.log)
    const addresses = undo.step(
      "reserve addresses",
      () => reserve(store, { owner, netns, rangeSets, requested }),
      () => release(store, owner),
    )
    const ips: IpConfig[] = []
    for (const address of addresses) ips.push(ipConfig(address, rangeSets[ips.length] ?? []))
    return call.answer({ interfaces: [], ips, routes: [...routes], dns }, undo)
  },

  check(call, { directory, rangeSets }) {
    const store = new Store({ directory, log: call.log })
    checkReservation(store, ownerOf(call), rangeSets, call.network.prevResult?.ips ?? [])
  },

  del(call, { directory }) {
    const hasStore = release(new Store({ directory, log: call.log }), ownerOf(call))
    const given = call.network.prevResult?.ips.map(({ address }) => address) ?? []
    if (hasStore || given.length === 0) return
    // No error: files that are gone are nothing to clean up, and a container must not stay for ever because of them.
    call.log(
      `DEL has released nothing: there is no "${directory}". If a mount hides it, what it has for ` +
        `${describeOwner(ownerOf(call))} (${given.join(", ")}) stays reserved there: see "cni ipam ls" and "cni ipam release" ${toolHint}`,
    )
  },

  status(call, { directory, rangeSets, resolvConf }) {
    if (resolvConf !== undefined) requireForAdd(() => readResolvConf(resolvConf))
    checkStatus(new Store({ directory, log: call.log }), rangeSets)
  },

  gc(call, { directory }, attachments) {
    releaseOthers(new Store({ directory, log: call.log }), ({ containerId, ifName }) =>
      attachments.some((each) => each.containerID === containerId && (ifName === "" || each.ifname === ifName)),
    )
  },
})

function ownerOf({ containerId, ifName }: Call): Owner {
  return { containerId, ifName }
}

function ipConfig(address: Address, set: RangeSet): IpConfig {
  const range = rangeOf(set, address)
  if (!range) throw new RangeError(`${formatAddress(address)} is outside of its range set`)
  return { address: `${formatAddress(address)}/${range.prefix}`, gateway: formatAddress(range.gateway) }
}

function readResolvConf(path: string): Dns {
  try {
    return parseResolvConf(readTextFile(path))
  } catch (error) {
    throw new CniError(Code.Io, `Cannot read "ipam.resolvConf"`, { cause: error })
  }
}

if (import.meta.main) runPlugin(hostLocal)
