import { readTextFile } from "../../pkg/libc/mod.ts"
import { type Answered, type Call, definePlugin, requireForAdd, runPlugin } from "../../pkg/skel/mod.ts"
import { type Attachment, CniError, Code, type Dns, type IpConfig, isCniError } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import type { Granted } from "./allocate.ts"
import { type HostLocalConfig, hostLocalFields, parseHostLocalConfig } from "./config.ts"
import { checkStatus } from "./inventory.ts"
import { describeOwner, type LeaseOwner, toolHint } from "./lease-file.ts"
import { rangeSetsOf } from "./node-ranges.ts"
import { formatAddress, type RangeSet } from "./ranges.ts"
import { checkReservation, release, releaseAddress, releaseOthers, reserve } from "./reservations.ts"
import { Store } from "./store.ts"

export { hostLocalKeyDocs } from "./config.ts"

export { type Files, kernelFiles } from "./files.ts"
export { type Lease, listLeases, listNetworks, takenAddresses, usageOf } from "./inventory.ts"
export { lockStore, requireLockable } from "./lock.ts"
export { findNodeRanges, type NodeRanges, RANGES_DIRECTORY } from "./node-ranges.ts"
export { type Address, capacityOf, formatAddress, formatRangeSet, parseAddress, type Range } from "./ranges.ts"
export { type HostLocalConfig, parseHostLocalConfig, rangeSetsOf, release, releaseAddress, Store }

/** The host-local plugin. From ADD to DEL a container has one address of each range set, reserved by local files. */
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
  const { resolvConf, requested, directory, routes } = config
  const dns = resolvConf === undefined ? {} : readResolvConf(resolvConf)
  const store = new Store({ directory, log: call.log })
  const owner = leaseOwnerOf(call)
  const { identity } = call.namespace
  const netns = identity === undefined ? undefined : { path: call.netns, identity }
  using undo = new Undo(call.log)
  const granted = reserve(store, { owner, netns, ranges: config, requested })
  undo.defer("reserve addresses", () => release(store, owner))
  return call.answer({ interfaces: [], ips: granted.map(ipConfig), routes, dns }, undo)
}

function checkHostLocal(call: Call, { directory, rangeSets }: HostLocalConfig): void {
  // The file may no longer have the container's range, so CHECK looks only at the container's address.
  const store = new Store({ directory, log: call.log })
  checkReservation(store, leaseOwnerOf(call), rangeSets, call.network.prevResult?.ips ?? [])
}

function deleteHostLocal(call: Call, { directory }: HostLocalConfig): void {
  const hasStore = release(new Store({ directory, log: call.log }), leaseOwnerOf(call))
  const given = call.network.prevResult?.ips.map(({ address }) => address) ?? []
  if (hasStore || given.length === 0) return
  // This is not an error: without the file nothing needs a cleanup, and a container must remain deletable.
  call.log(
    `DEL released nothing: "${directory}" does not exist. If a mount hides it, the addresses of ` +
      `${describeOwner(leaseOwnerOf(call))} (${given.join(", ")}) stay reserved: see "cni ipam ls" and "cni ipam release" ${toolHint}`,
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

/** Returns the range sets of a configuration, for tools. Returns none if the file with the ranges is unusable. */
export function knownRangeSets(config: HostLocalConfig): readonly RangeSet[] {
  try {
    return rangeSetsOf(config)
  } catch (error) {
    if (isCniError(error)) return []
    throw error
  }
}

function collectGarbage(call: Call, { directory }: HostLocalConfig, attachments: readonly Attachment[]): void {
  releaseOthers(new Store({ directory, log: call.log }), ({ containerId, ifName }) =>
    attachments.some((each) => each.containerID === containerId && (ifName === "" || each.ifname === ifName)),
  )
}

function leaseOwnerOf({ containerId, ifName }: Call): LeaseOwner {
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

/** Parses the name servers, domain, search list and options of resolv.conf(5), without checking them. */
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
