import { findSandbox, openSandbox, requireKind } from "../../pkg/attachment/mod.ts"
import { addressesOf, checkRouteSpecs, mismatch, planRoutes, RTPROT_SBR } from "../../pkg/ip/mod.ts"
import {
  assignNsid,
  findLink,
  IFF_UP,
  type Ifindex,
  type Link,
  listAddresses,
  listRules,
  type NetlinkSocket,
  RouteSocket,
  RT_TABLE_MAIN,
} from "../../pkg/netlink/mod.ts"
import {
  type Answered,
  type Call,
  defineRestorable,
  type InsideCall,
  requireForAdd,
  runPlugin,
} from "../../pkg/skel/mod.ts"
import {
  type Attachment,
  CniError,
  Code,
  FAMILIES,
  isCniError,
  isWhole,
  keyOf,
  messageOf,
  ownerOf,
  ownersOf,
  type Result,
} from "../../pkg/types/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import { parseVrfConfig, type VrfConfig, vrfFields } from "./config.ts"
import { deleteEmptyOrphans, deleteVrfIfEmpty, findVrf, findVrfOf, requireVrf, type Vrf } from "./device.ts"
import { type Inside, keysOf, moveLink, noteLosable } from "./move.ts"

export { vrfKeyDocs } from "./config.ts"

/** Puts a container's interface, with its addresses and routes, into a VRF inside the container. */
export const vrf = defineRestorable<VrfConfig>({
  name: "vrf",
  fields: vrfFields,
  config: parseVrfConfig,
  add: addToVrf,
  check: checkVrf,
  del: removeFromVrf,
  status: requireVrfs,
  gc: collectGarbage,
  restoreInside: restoreVrf,
})

function addToVrf(call: InsideCall, { vrfname = "", table }: VrfConfig): Answered {
  const prevResult = requirePrevResult(call)
  using host = RouteSocket.open()
  using sandbox = openSandbox(call)
  using inside = sandbox.openRoute()
  const link = requireLink(inside, call, vrfname)
  refuseOtherMaster(inside, link, vrfname)
  refuseSourceRouting(inside, link, vrfname)
  assignNsid(host, sandbox.fd) // for GC; the kernel deletes the nsid with the namespace
  using undo = new Undo(call.log)
  const found = requireVrf(inside, { name: vrfname, table, owner: ownerOf(call) }, undo)
  if (link.attributes.master !== found.link.index) enter({ sandbox, inside, link }, found, prevResult, undo)
  return call.answer(prevResult, undo)
}

/** Moves the interface into the VRF. `undo` gets the reverse, which works even if the move failed halfway. */
function enter(target: Inside, { link: { index, name }, table }: Vrf, result: Result, undo: Undo): void {
  const needed = addressesOf(result).map(({ ip }) => ip)
  const losable = noteLosable(target.inside, target.link, { table: RT_TABLE_MAIN, needed })
  undo.defer(`put "${target.link.name}" into VRF "${name}"`, () => {
    using inside = target.sandbox.run(() => RouteSocket.open()) // a new socket: the reverse may run after the first one failed
    moveLink({ ...target, inside }, { master: 0, fromTable: table, toTable: RT_TABLE_MAIN }, losable)
  })
  moveLink(target, { master: index, fromTable: RT_TABLE_MAIN, toTable: table }, losable)
}

function requirePrevResult({ network: { prevResult }, ifName }: InsideCall): Result {
  if (prevResult) return prevResult
  throw new CniError(
    Code.InvalidNetworkConfig,
    `Required prevResult missing: there is no "${ifName}" to put into a VRF`,
    {
      details: "put vrf after the plugin that creates the interface",
    },
  )
}

function requireLink(inside: NetlinkSocket, { ifName, netns }: InsideCall, vrfName: string): Link {
  const link = findLink(inside, ifName)
  if (link) return link
  throw refusal(ifName, vrfName, `the interface does not exist in "${netns}"`)
}

function refusal(ifName: string, vrfName: string, reason: string, details?: string): CniError {
  const what = `Cannot put "${ifName}" into VRF "${vrfName}": ${reason}`
  return new CniError(Code.Internal, what, details === undefined ? {} : { details })
}

function masterOf(inside: NetlinkSocket, { attributes: { master } }: Link): Link | undefined {
  return master ? findLink(inside, master as Ifindex) : undefined
}

function refuseOtherMaster(inside: NetlinkSocket, link: Link, vrfName: string): void {
  const master = masterOf(inside, link)
  if (!master || (master.kind === "vrf" && master.name === vrfName)) return
  throw refusal(link.name, vrfName, `interface ${link.name} has already a master set: ${master.name}`) // upstream's words
}

/** Throws if sbr routes by the interface's addresses, because the kernel's VRF rule would precede sbr's rules. */
function refuseSourceRouting(inside: NetlinkSocket, link: Link, vrfName: string): void {
  const addresses = keysOf(listAddresses(inside, link).map(({ ip }) => ip))
  for (const family of FAMILIES) {
    const isOfSbr = listRules(inside, family, { ofOneSource: true }).some(
      ({ src, protocol }) => protocol === RTPROT_SBR && src && addresses.has(keyOf(src.ip)),
    )
    if (isOfSbr)
      throw refusal(
        link.name,
        vrfName,
        "sbr already routes by its addresses",
        "remove sbr: the VRF's table replaces it",
      )
  }
}

/** Checks that the VRF exists, is up, has the table and the interface, and the result's routes in its table. */
function checkVrf(call: InsideCall, { vrfname = "", table }: VrfConfig): void {
  const prevResult = requirePrevResult(call)
  using sandbox = openSandbox(call)
  using inside = sandbox.openRoute()
  const link = requireLink(inside, call, vrfname)
  const found = findVrf(inside, vrfname)
  if (!found) throw mismatch("VRFs", `"${vrfname}"`, "none of that name")
  if (table !== undefined && found.table !== table) {
    throw mismatch(`VRF "${vrfname}"`, `table ${table}`, `table ${found.table}`)
  }
  if ((found.link.flags & IFF_UP) === 0) throw mismatch(`VRF "${vrfname}"`, "up", "down")
  if (link.attributes.master !== found.link.index) {
    throw mismatch(`master of "${link.name}"`, `"${vrfname}"`, masterOf(inside, link)?.name ?? "none")
  }
  checkRouteSpecs(
    inside,
    planRoutes(prevResult, link).map((spec) => ({ ...spec, table: spec.table ?? found.table })),
  )
}

/**
 * Puts the interface back into the VRF if a check fails. The plugin that created the interface has already restored the
 * routes, in the VRF's table. Throws `CniError`.
 */
function restoreVrf(call: InsideCall, config: VrfConfig, isDry: boolean): string | undefined {
  if (isWhole(() => checkVrf(call, config))) return undefined
  if (!isDry) addToVrf(call, config)
  return `VRF "${config.vrfname}" of "${call.ifName}" in the container`
}

/**
 * Moves the routes back to table main, because the interface may stay. Deletes the VRF if no interface is left in it.
 */
function removeFromVrf(call: Call, { vrfname }: VrfConfig): void {
  using sandbox = findSandbox(call)
  if (!sandbox) return
  using inside = sandbox.openRoute()
  const failures = new Failures(call.log)
  const link = findLink(inside, call.ifName)
  const master = link && masterOf(inside, link)
  const chosen = vrfname ?? (master?.kind === "vrf" ? master.name : undefined)
  const named = chosen === undefined ? undefined : tryFindVrf(inside, chosen)
  // Without a VRF of that name, looks for the owner's VRF: a GC that was killed may have left it.
  const found = named ?? failures.attempt("find the VRF", () => findVrfOf(inside, ownerOf(call)))
  if (link && found && master?.index === found.link.index) {
    const what = `take "${link.name}" out of VRF "${found.link.name}"`
    failures.attempt(what, () => leave({ sandbox, inside, link }, found, call))
  }
  if (found) failures.attempt(`delete VRF "${found.link.name}"`, () => deleteVrfIfEmpty(inside, found))
  failures.throwIfAny()
}

/** Moves the interface out of the VRF. Only logs lost routes, because most interfaces are deleted next. */
function leave(target: Inside, { table }: Vrf, call: Call): void {
  const losable = noteLosable(target.inside, target.link, { table, needed: [] })
  try {
    moveLink(target, { master: 0, fromTable: table, toTable: RT_TABLE_MAIN }, losable)
  } catch (error) {
    if (findLink(target.inside, target.link.index)?.attributes.master) throw error
    logLoss(call, error)
  }
}

function logLoss(call: Call, error: unknown): void {
  call.log(`"${call.ifName}" has lost routes: ${messageOf(error)}`)
}

/** Returns the VRF of this name; undefined if the name is that of another kind of link, which is not ours. */
function tryFindVrf(inside: NetlinkSocket, name: string): Vrf | undefined {
  try {
    return findVrf(inside, name)
  } catch (error) {
    if (!isCniError(error)) throw error
    return undefined
  }
}

function requireVrfs(): void {
  using host = RouteSocket.open()
  requireForAdd(() => requireKind(host, "vrf"))
}

/**
 * Deletes VRFs that stale attachments left empty in running containers. Other VRFs are deleted with their namespace.
 */
function collectGarbage(
  { network: { name }, log }: Call,
  _config: VrfConfig,
  attachments: readonly Attachment[],
): void {
  deleteEmptyOrphans({ network: name, valid: ownersOf(name, attachments), log })
}

if (import.meta.main) runPlugin(vrf)
