import { readTextFile } from "../../pkg/libc/mod.ts"
import { type Answered, type Call, definePlugin, requireForAdd, runPlugin } from "../../pkg/skel/mod.ts"
import { type Attachment, CniError, Code, type Dns, type IpConfig } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import type { Granted, Request } from "./allocate.ts"
import { type HostLocalConfig, hostLocalFields, parseHostLocalConfig } from "./config.ts"
import { checkStatus } from "./inventory.ts"
import { describeOwner, type Owner, toolHint } from "./lease-file.ts"
import { Pool } from "./pool.ts"
import { formatAddress, type RangeSet } from "./ranges.ts"
import { checkReservation, release, releaseAddress, releaseOthers, reserve } from "./reservations.ts"
import { Store } from "./store.ts"

export { type Files, kernelFiles } from "./files.ts"
export { type Lease, listLeases, listNetworks, takenAddresses, usageOf } from "./inventory.ts"
export {
  fixedDigest,
  formatPoolFile,
  type PoolFile,
  type PoolPlace,
  type PoolSet,
  poolPath,
  readPoolFile,
} from "./pool-file.ts"
export { type Address, capacityOf, formatAddress, formatRangeSet, parseAddress, type Range } from "./ranges.ts"
export { type Reservation, reservationsIn } from "./reservations.ts"

export { type HostLocalConfig, parseHostLocalConfig, release, releaseAddress, Store }

/** Address management in files of this host: one address from each range set, for as long as the container lives. */
export const hostLocal = definePlugin<HostLocalConfig>({
  name: "host-local",
  fields: hostLocalFields,
  config: parseHostLocalConfig,
  add: addHostLocal,
  check: checkHostLocal,
  del: deleteHostLocal,
  status: requireAddresses,
  gc: collectGarbage,
})

function addHostLocal(call: Call, config: HostLocalConfig): Answered {
  const { resolvConf, rangeSets, requested, directory, pool: place, pod } = config
  const dns = resolvConf === undefined ? {} : readResolvConf(resolvConf)
  const store = new Store({ directory, log: call.log })
  const owner = ownerOf(call)
  const { identity } = call.namespace
  const netns = identity === undefined ? undefined : { path: call.netns, identity }
  using undo = new Undo(call.log)
  let { routes } = config
  const ranges: Request["ranges"] = (chooser, wanted) => {
    if (!place) return { sets: rangeSets }
    const pool = new Pool(place, directory)
    const fixed = pod ? pool.fixedFor(pod, call.ifName) : []
    if (routes.length === 0) routes = [...pool.routes]
    return { sets: pool.choose(chooser, wanted, fixed), fixed, full: (index) => pool.full(index) }
  }
  const granted = reserve(store, { owner, netns, ranges, requested })
  undo.defer("reserve addresses", () => release(store, owner))
  return call.answer({ interfaces: [], ips: granted.map(ipConfig), routes: [...routes], dns }, undo)
}

function checkHostLocal(call: Call, { directory, rangeSets, pool }: HostLocalConfig): void {
  const store = new Store({ directory, log: call.log })
  const sets = pool ? new Pool(pool, directory).whole : rangeSets
  checkReservation(store, ownerOf(call), sets, call.network.prevResult?.ips ?? [])
}

function deleteHostLocal(call: Call, { directory }: HostLocalConfig): void {
  const hasStore = release(new Store({ directory, log: call.log }), ownerOf(call))
  const given = call.network.prevResult?.ips.map(({ address }) => address) ?? []
  if (hasStore || given.length === 0) return
  // No error: files that are gone are nothing to clean up, and a container must not stay for ever because of them.
  call.log(
    `DEL has released nothing: there is no "${directory}". If a mount hides it, what it has for ` +
      `${describeOwner(ownerOf(call))} (${given.join(", ")}) stays reserved there: see "cni ipam ls" and "cni ipam release" ${toolHint}`,
  )
}

function requireAddresses(call: Call, config: HostLocalConfig): void {
  const { directory, resolvConf } = config
  if (resolvConf !== undefined) requireForAdd(() => readResolvConf(resolvConf))
  checkStatus(
    new Store({ directory, log: call.log }),
    requireForAdd(() => rangeSetsOf(config)),
  )
}

/** The ranges that a configuration hands out of: its own, or those of its pool on this node. Throws code 11 for a pool without a file, code 7 for one of another network. */
export function rangeSetsOf({ rangeSets, pool, directory }: HostLocalConfig): readonly RangeSet[] {
  return pool ? new Pool(pool, directory).rangeSets : rangeSets
}

function collectGarbage(call: Call, { directory }: HostLocalConfig, attachments: readonly Attachment[]): void {
  releaseOthers(new Store({ directory, log: call.log }), ({ containerId, ifName }) =>
    attachments.some((each) => each.containerID === containerId && (ifName === "" || each.ifname === ifName)),
  )
}

function ownerOf({ containerId, ifName }: Call): Owner {
  return { containerId, ifName }
}

function ipConfig({ address, range }: Granted): IpConfig {
  return { address: `${formatAddress(address)}/${range.prefix}`, gateway: formatAddress(range.gateway) }
}

function readResolvConf(path: string): Dns {
  try {
    return parseResolvConf(readTextFile(path))
  } catch (error) {
    throw new CniError(Code.Io, `Cannot read "ipam.resolvConf"`, { cause: error })
  }
}

/**
 * Reads what resolv.conf(5) says about name servers, domain, search list and options. Values are not checked; other
 * keywords are ignored.
 */
export function parseResolvConf(text: string): Dns {
  const dns: Required<Pick<Dns, "nameservers" | "search" | "options">> & Dns = {
    nameservers: [],
    search: [],
    options: [],
  }
  for (const line of text.split("\n")) {
    const [keyword = "", ...values] = line.trim().split(/\s+/)
    const [value] = values
    if (value === undefined || /^[#;]/.test(keyword)) continue
    if (keyword === "nameserver") dns.nameservers.push(value)
    else if (keyword === "domain") dns.domain = value
    else if (keyword === "search") dns.search.push(...values)
    else if (keyword === "options") dns.options.push(...values)
  }
  return dns
}

if (import.meta.main) runPlugin(hostLocal)
