import { findSandbox, openSandbox } from "../../pkg/attachment/mod.ts"
import { addressesOf, listRoutesOf, mismatch, type ResultAddress, RTPROT_SBR } from "../../pkg/ip/mod.ts"
import {
  findLink,
  type Ifindex,
  type Link,
  listAddresses,
  type NetlinkSocket,
  type Rule,
} from "../../pkg/netlink/mod.ts"
import { type Answered, defineRestorable, type InsideCall, runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code, formatIp, isWhole, keyOf, type Result } from "../../pkg/types/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import { parseSbrConfig, type SbrConfig, sbrFields } from "./config.ts"
import { findSourceRules, restoreRoutes, sourceOf } from "./removal.ts"
import { addSourceRule, deleteRules, gatewayFor, routeBySource } from "./tables.ts"

export { sbrKeyDocs } from "./config.ts"

/** Makes packets from an interface's addresses leave through that interface, by a routing table for each address. */
export const sbr = defineRestorable<SbrConfig>({
  name: "sbr",
  fields: sbrFields,
  config: parseSbrConfig,
  add: addSourceRouting,
  check: checkSourceRouting,
  del: deleteSourceRouting,
  status() {},
  gc() {}, // rules and routes are deleted with the container's namespace
  restoreInside: restoreSourceRouting,
})

function addSourceRouting(call: InsideCall, config: SbrConfig): Answered {
  const prevResult = requirePrevResult(call)
  const addresses = requireAddresses(prevResult, call)
  using sandbox = openSandbox(call)
  using inside = sandbox.openRoute()
  const link = requireLink(inside, call)
  using undo = new Undo(call.log)
  const { table } = config
  if (table === undefined) routeBySource({ inside, link, addresses }, config, undo)
  else for (const { ip } of addresses) addSourceRule(inside, ip, table, undo)
  return call.answer(prevResult, undo)
}

function requirePrevResult({ network: { prevResult }, ifName }: InsideCall): Result {
  if (prevResult) return prevResult
  throw new CniError(Code.InvalidNetworkConfig, "This plugin must be called as chained plugin", {
    details: `"${ifName}" does not exist: put sbr after the plugin that creates it`,
  })
}

/** Returns the addresses of a result that name the container's interface, or no interface. */
function ownAddresses({ interfaces, ips }: Result, { ifName }: InsideCall): ResultAddress[] {
  const isOwn = (index: number | undefined) => {
    const found = index === undefined ? undefined : interfaces[index]
    return found === undefined || (found.name === ifName && Boolean(found.sandbox))
  }
  return addressesOf({ ips: ips.filter((ip) => isOwn(ip.interface)) })
}

function requireAddresses(prevResult: Result, call: InsideCall): ResultAddress[] {
  const addresses = ownAddresses(prevResult, call)
  if (addresses.length > 0) return addresses
  throw new CniError(Code.InvalidNetworkConfig, `No IP addresses supplied on interface: ${call.ifName}`)
}

function requireLink(inside: NetlinkSocket, { ifName, netns }: InsideCall): Link {
  const link = findLink(inside, ifName)
  const what = `Cannot route by source on "${ifName}" in "${netns}"`
  if (!link) throw new CniError(Code.Internal, `${what}: the interface does not exist`)
  const { master } = link.attributes
  const vrf = master ? findLink(inside, master as Ifindex) : undefined
  if (vrf?.kind !== "vrf") return link
  throw new CniError(Code.InvalidNetworkConfig, `${what}: it belongs to VRF "${vrf.name}"`, {
    details: "the table of the VRF has the routes of the interface already",
  })
}

/** Checks that each address has a rule, and that the rule's table has a default route if the address has a gateway. */
function checkSourceRouting(call: InsideCall, { table, gateways }: SbrConfig): void {
  const addresses = requireAddresses(requirePrevResult(call), call)
  using sandbox = openSandbox(call)
  using inside = sandbox.openRoute()
  const link = requireLink(inside, call)
  const ips = addresses.map(({ ip }) => ip)
  const found = findSourceRules(inside, { link, ips, allIps: ips, table })
  const rules = new Map(found.toReversed().map((rule) => [sourceOf(rule), rule])) // of several rules the kernel uses the first
  const prefixes = new Set([0])
  const tables = new Set(addresses.flatMap(({ ip }) => rules.get(keyOf(ip))?.table ?? []))
  const defaults = [...tables].flatMap((table) => listRoutesOf(inside, link, { table, prefixes }))
  for (const address of addresses) {
    const { ip } = address
    const rule = rules.get(keyOf(ip))
    const wanted = `from ${formatIp(ip)} lookup ${table ?? "a table of its own"}`
    if (!rule || (table !== undefined && rule.table !== table)) {
      throw mismatch("rules", wanted, rule ? `lookup ${rule.table}` : "none")
    }
    if (table !== undefined || !gatewayFor(address, addresses, gateways)) continue
    const hasDefault = defaults.some((route) => route.table === rule.table && route.dst.length === ip.length)
    if (!hasDefault) throw mismatch(`table ${rule.table}`, `a default route dev ${link.name}`, "none")
  }
}

/** Adds rules and routes again, from current routes, if a rule or default route is missing. Throws `CniError`. */
function restoreSourceRouting(call: InsideCall, config: SbrConfig, isDry: boolean): string | undefined {
  if (isWhole(() => checkSourceRouting(call, config))) return undefined
  if (!isDry) {
    deleteSourceRouting(call, config)
    addSourceRouting(call, config)
  }
  return `source routing of "${call.ifName}" in the container`
}

/**
 * Moves the routes back to table main, because the interface may stay. If the container has too many objects to list,
 * the rest stays until its namespace is deleted.
 */
function deleteSourceRouting(call: InsideCall, { table }: SbrConfig): void {
  using sandbox = findSandbox(call)
  if (!sandbox) return
  using inside = sandbox.openRoute()
  const link = findLink(inside, call.ifName)
  const failures = new Failures(call.log)
  const rules = failures.attempt("find the rules", () => findRulesToDelete(inside, link, call, table)) ?? []
  const withTables = rules.filter((rule) => rule.protocol === RTPROT_SBR && rule.table !== table)
  if (link) failures.attempt("restore the routes", () => restoreRoutes(inside, link, withTables))
  // After a failure the rules are kept: the next DEL needs them to find the tables whose routes it must move back.
  if (!failures.mayPass) failures.attempt("delete the rules", () => deleteRules(inside, rules))
  failures.throwIfAny()
}

function findRulesToDelete(
  inside: NetlinkSocket,
  link: Link | undefined,
  call: InsideCall,
  table: number | undefined,
): Rule[] {
  const { prevResult } = call.network
  const recorded = prevResult ? ownAddresses(prevResult, call) : []
  const all = listAddresses(inside)
  const present = all.filter(({ index }) => index === link?.index)
  const ips = [...recorded, ...present].map(({ ip }) => ip)
  return findSourceRules(inside, { link, ips, allIps: all.map(({ ip }) => ip), table })
}

if (import.meta.main) runPlugin(sbr)
