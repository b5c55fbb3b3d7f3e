import { mismatch } from "../../pkg/ip/mod.ts"
import { isErrno, unlessErrno } from "../../pkg/libc/mod.ts"
import {
  addFilter,
  addIngress,
  CLSACT_INGRESS,
  deleteFilter,
  deleteLink,
  deleteQdisc,
  type Filter,
  filterProtocols,
  findQdisc,
  INGRESS_HANDLE,
  type Link,
  listFilters,
  type NetlinkSocket,
  redirectsOf,
  redirectTo,
  TC_H_INGRESS,
  TC_H_ROOT,
} from "../../pkg/netlink/mod.ts"
import { orCannot, type Result } from "../../pkg/types/mod.ts"
import type { Failures, Undo } from "../../pkg/undo/mod.ts"
import { findIfbs, type IfbOwner } from "./ifb.ts"
import { describeQdisc } from "./limit.ts"
import { HANDLE } from "./shaper.ts"

/** The class `1:1` that upstream's filter names, although no such class exists. */
const CLASS = 0x10001
const MAX_PRIORITY = 0xffff

/**
 * Redirects all packets that a link receives to another link, like `tc qdisc add dev LINK ingress` and `tc filter add
 * dev LINK ingress u32 match u32 0 0 action mirred egress redirect dev OTHER`. If another program has already added an
 * ingress or clsact qdisc, adds the filter to that qdisc, after the other program's filters. Throws `CniError`.
 */
export function addRedirect(route: NetlinkSocket, link: Link, to: Link, undo: Undo): void {
  orCannot(`Cannot redirect the packets that "${link.name}" receives to "${to.name}"`, () => {
    const hook = openHook(route, link, undo)
    const selector = [{ mask: 0, value: 0, offset: 0 }]
    const options = { selector, classId: CLASS, actions: [redirectTo(to.index)] }
    addFilter(route, link, { kind: "u32", ...hook, protocol: filterProtocols.all, options })
    undo.defer(`redirect "${link.name}"`, () => {
      const filters = listReceiveFilters(route, link)
      const own = filters.filter((filter) => redirectsOf(filter).includes(to.index))
      deleteWholly(route, link, own, filters)
    })
  })
}

function openHook(route: NetlinkSocket, link: Link, undo: Undo): { parent: number; priority: number } {
  try {
    addIngress(route, link)
    undo.defer(`watch the packets that "${link.name}" receives`, () => deleteQdisc(route, link, TC_H_INGRESS))
    return { parent: INGRESS_HANDLE, priority: 1 }
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error
  }
  const isClsact = findQdisc(route, link, TC_H_INGRESS)?.kind === "clsact"
  const last = listReceiveFilters(route, link).reduce((most, { priority }) => Math.max(most, priority), 0)
  const priority = Math.min(last + 1, MAX_PRIORITY)
  return { parent: isClsact ? CLSACT_INGRESS : INGRESS_HANDLE, priority }
}

/** Checks that all packets that a link receives are redirected to another link. Throws `CniError`. */
export function checkRedirect(route: NetlinkSocket, link: Link, to: Link): void {
  const found = listReceiveFilters(route, link)
  if (found.some((filter) => matchesAll(filter) && redirectsOf(filter)[0] === to.index)) return
  const hook = findQdisc(route, link, TC_H_INGRESS)
  const present = hook ? `${describeQdisc(hook)} with ${found.length} other filters` : "neither ingress nor clsact"
  throw mismatch(`the filters of "${link.name}"`, `a redirect of everything to "${to.name}"`, present)
}

function matchesAll({ protocol, options }: Filter): boolean {
  return protocol === filterProtocols.all && (options?.selector ?? []).every(({ mask }) => mask === 0)
}

export interface Place extends IfbOwner {
  route: NetlinkSocket
  /** The container's interface, or its peer on the host; undefined if it does not exist. */
  link: Link | undefined
  prevResult: Result | undefined
}

/**
 * Removes an attachment's limits from one link: our own, upstream's, and what upstream's DEL leaves, such as a filter
 * without a target, which drops every packet. Qdiscs and filters of other programs stay. Missing limits are not an
 * error.
 */
export function removeShaping({ route, link, prevResult, ...whose }: Place, failures: Failures): void {
  const filters = link && failures.attempt(`list the filters of "${link.name}"`, () => listReceiveFilters(route, link))
  const traces = { ...whose, redirects: filters?.flatMap(redirectsOf), prevResult }
  const ifbs = failures.attempt("find the ifb", () => findIfbs(route, traces)) ?? []
  removeParts({ route, link, filters, ifbs }, failures)
}

interface Parts {
  route: NetlinkSocket
  link: Link | undefined
  /** The filters for packets that the link receives; undefined if they could not be listed. */
  filters: readonly Filter[] | undefined
  ifbs: readonly Link[]
}

/**
 * Removes the filters that redirect to `ifbs`, the ingress qdisc if it has no other filters, the limit of the link, and
 * at last `ifbs` themselves. After a failure they stay, because an existing device tells the next attempt that work
 * remains. Returns true unless an earlier step failed.
 */
export function removeParts({ route, link, filters, ifbs }: Parts, failures: Failures): boolean {
  if (link && !stopRedirection({ route, link, filters, ifbs }, failures)) return false
  for (const ifb of ifbs)
    failures.attempt(`delete ifb "${ifb.name}"`, () => tolerateMissing(() => deleteLink(route, ifb)))
  return true
}

/** Removes the redirection and the limit of a link. Returns whether all steps succeeded. */
function stopRedirection({ route, link, filters, ifbs }: Parts & { link: Link }, failures: Failures): boolean {
  let isOver = filters !== undefined
  const step = (verb: string, change: () => void) => {
    const isDone = failures.attempt(`${verb} "${link.name}"`, () => tolerateMissing(change)) ?? false
    isOver &&= isDone
  }
  const gone = new Set([0, ...ifbs.map(({ index }) => index)])
  const own = filters?.filter((filter) => redirectsOf(filter).some((index) => gone.has(index))) ?? []
  const isHookOver = own.length + ifbs.length > 0 && own.length === filters?.length
  let hasGone = false
  const deleteHook = () => {
    hasGone = deleteIngress(route, link)
  }
  if (isHookOver) step("delete the ingress qdisc of", deleteHook) // deletes all filters of the qdisc in one request
  if (!hasGone) step("stop the redirection of", () => deleteWholly(route, link, own, filters ?? []))
  step("delete the limit of", () => deleteShaper(route, link))
  return isOver
}

/**
 * Deletes the filters in `own`. If these are all filters of a priority, deletes the priority as a whole, because the
 * kernel would keep an empty one. Throws `ETIME` if a container has added more filters than can be deleted in the time
 * limit.
 */
function deleteWholly(route: NetlinkSocket, link: Link, own: readonly Filter[], all: readonly Filter[]): void {
  const inAll = Map.groupBy(all, ({ priority }) => priority)
  route.spend(() => {
    for (const [priority, filters] of Map.groupBy(own, (each) => each.priority)) {
      const [first] = filters
      const isWhole = first && filters.length === inAll.get(priority)?.length
      for (const filter of isWhole ? [{ ...first, handle: 0 }] : filters) {
        route.step(`delete the filters of "${link.name}"`)
        tolerateMissing(() => deleteFilter(route, link, filter))
      }
    }
  })
}

export function listReceiveFilters(route: NetlinkSocket, link: Link): Filter[] {
  return listFilters(route, link, CLSACT_INGRESS)
}

/**
 * Deletes the ingress qdisc of a link. Keeps a clsact qdisc, which another program added, and returns false.
 */
function deleteIngress(route: NetlinkSocket, link: Link): boolean {
  if (findQdisc(route, link, TC_H_INGRESS)?.kind !== "ingress") return false
  deleteQdisc(route, link, TC_H_INGRESS)
  return true
}

/** Deletes a link's root qdisc if its handle is ours. The kind of the qdisc is an attribute of `link`. */
function deleteShaper(route: NetlinkSocket, link: Link): void {
  if (link.attributes.qdisc !== "tbf" && link.attributes.qdisc !== "htb") return
  const root = findQdisc(route, link, TC_H_ROOT)
  if (root?.handle === HANDLE && (root.kind === "tbf" || root.kind === "htb")) {
    deleteQdisc(route, link, TC_H_ROOT)
  }
}

/** Makes a change. Returns true even if the object no longer exists. */
function tolerateMissing(change: () => void): true {
  unlessErrno(change, "ENOENT", "ENODEV", "EINVAL")
  return true
}
