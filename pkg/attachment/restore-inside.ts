import { checkAddresses, checkRouteSpecs, planRoutes } from "../ip/mod.ts"
import { unlessErrno } from "../libc/mod.ts"
import {
  addAddress,
  addRoute,
  deleteRoute,
  findLink,
  IFF_UP,
  type Ifindex,
  type Link,
  linkData,
  type NetlinkSocket,
  RouteScope,
  type RouteSpec,
  RTPROT_KERNEL,
  setLink,
} from "../netlink/mod.ts"
import type { InsideCall } from "../skel/mod.ts"
import { AF_INET, type Cidr, CniError, familyOf, isWhole, networkOf, orCannot } from "../types/mod.ts"
import { expectInterface, type Recorded, readRecorded } from "./check.ts"
import type { AttachmentConfig, ContainerRoutes, InterfacePlugin } from "./plugin.ts"
import { openSandbox } from "./sandbox.ts"

const NO_ROUTES: ContainerRoutes = { first: [], networks: [], last: [] }

/**
 * Brings a container's interface up, and restores missing addresses and routes of its ADD. Existing ones stay. Returns
 * a description of the interface, or undefined if nothing was missing. Throws `CniError`, also if the interface no
 * longer exists.
 */
export function restoreInterface<C extends AttachmentConfig>(
  { kind, chained, routesInside, isUserspace }: InterfacePlugin<C, unknown>,
  call: InsideCall,
  config: C,
  isDry: boolean,
): string | undefined {
  const recorded = readRecorded(call)
  if (isUserspace?.(config)) return undefined
  using sandbox = openSandbox(call)
  using inside = sandbox.openRoute()
  const link = requireInterface(inside, call, chained ? undefined : kind)
  const staysDown = config.disableContainerInterface === true
  const isDown = !staysDown && (link.flags & IFF_UP) === 0
  const addresses = missing(recorded.addresses, (one) => checkAddresses(inside, link, [one]))
  const planned = staysDown ? NO_ROUTES : (routesInside ?? plainRoutes)(recorded, link)
  const { first, networks, last } = inTableOf(inside, link, planned)
  const missingRoutes = (routes: readonly RouteSpec[]) => missing(routes, (one) => checkRouteSpecs(inside, [one]))
  const routes = missingRoutes([...first, ...last])
  if (!isDown && addresses.length + routes.length === 0) return undefined
  if (isDry) return `interface "${link.name}" in the container`
  orCannot(`Cannot restore "${link.name}" in "${call.netns}"`, () => {
    for (const address of addresses) unlessErrno(() => addAddress(inside, link, { ...address, noDad: true }), "EEXIST")
    if (isDown) setLink(inside, link, { up: true })
    // The kernel adds routes when an interface comes up or gets an address.
    for (const route of missingRoutes(first)) unlessErrno(() => addRoute(inside, route, "append"), "EEXIST")
    for (const { ip: dst, prefix } of isDown || addresses.length > 0 ? networks : [])
      unlessErrno(() => deleteRoute(inside, { dst, prefix, index: link.index }), "ESRCH")
    for (const route of missingRoutes(last)) unlessErrno(() => addRoute(inside, route, "append"), "EEXIST")
  })
  return `interface "${link.name}" in the container`
}

function plainRoutes({ prevResult, addresses }: Recorded, link: Link): ContainerRoutes {
  return { first: [...connectedRoutes(addresses, link), ...planRoutes(prevResult, link)], networks: [], last: [] }
}

/**
 * Returns the routes that the kernel adds for addresses, and through which gateways are reached. They can be missing
 * although the addresses exist, because the sbr plugin moves them.
 */
function connectedRoutes(addresses: readonly Cidr[], { index }: Link): RouteSpec[] {
  return addresses.flatMap(({ ip, prefix }) => {
    if (prefix === ip.length * 8) return []
    const route = { dst: networkOf({ ip, prefix }), prefix, index, protocol: RTPROT_KERNEL }
    return familyOf(ip) === AF_INET
      ? { ...route, preferredSource: ip, scope: RouteScope.Link }
      : { ...route, priority: CONNECTED_IPV6_METRIC }
  })
}

/** `IP6_RT_PRIO_ADDRCONF`: the metric of the kernel's routes for IPv6 addresses. */
const CONNECTED_IPV6_METRIC = 256

function requireInterface(inside: NetlinkSocket, call: InsideCall, kind: InterfacePlugin<never>["kind"]): Link {
  try {
    return expectInterface(inside, call, kind)
  } catch (error) {
    if (!(error instanceof CniError)) throw error
    const name = `${call.network.name}/${call.containerId}/${call.ifName}`
    const details = `"cni reattach ${name}" re-creates the interface`
    throw new CniError(error.code, `Cannot restore "${call.ifName}" in "${call.netns}"`, { cause: error, details })
  }
}

/** Returns the routes of an interface in the table of its VRF, or unchanged if it is in no VRF. */
function inTableOf(inside: NetlinkSocket, { attributes: { master } }: Link, routes: ContainerRoutes): ContainerRoutes {
  const vrf = master ? findLink(inside, master as Ifindex) : undefined
  const table = vrf && linkData(vrf, "vrf")?.table
  if (table === undefined) return routes
  const move = (some: readonly RouteSpec[]) => some.map((spec) => ({ ...spec, table: spec.table ?? table }))
  return { ...routes, first: move(routes.first), last: move(routes.last) }
}

function missing<T>(wanted: readonly T[], check: (one: T) => void): T[] {
  return wanted.filter((one) => !isWhole(() => check(one)))
}
