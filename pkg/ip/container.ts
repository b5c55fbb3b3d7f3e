import { unlessErrno } from "../libc/mod.ts"
import {
  executeAll,
  isNoFamily,
  type Link,
  NetlinkError,
  type NetlinkSocket,
  noIpv6,
  type Refusal,
  type Request,
  RouteGroup,
  RouteSocket,
  setLink,
  toAddAddress,
  toAddRoute,
  toSetLink,
} from "../netlink/mod.ts"
import type { Netns } from "../netns/mod.ts"
import { tryOverwriteSysctl, tryWriteSysctl } from "../sysctl/mod.ts"
import { AF_INET, AF_INET6, CniError, Code, familyOf, formatCidr, type Result } from "../types/mod.ts"
import { addressesOf, planRoutes } from "./result.ts"
import { waitForDetection } from "./wait.ts"

/** RFC 8200: the minimum MTU of IPv6. The kernel refuses IPv6 addresses on a link with a smaller MTU. */
const IPV6_MIN_MTU = 1280

/** A container's interface that is being configured. */
export interface ContainerLink {
  sandbox: Netns
  inside: NetlinkSocket
  link: Link
}

export interface BringUp {
  /** Whether the kernel checks that no other host has the IPv6 addresses, which `configureLink` then waits for. */
  detectDuplicates?: boolean
  /**
   * Whether to accept router advertisements, see `setAcceptRa`. If undefined, they are ignored if the result has IPv6
   * addresses, and the kernel's default stays if it has none.
   */
  acceptRa?: boolean | undefined
}

/**
 * Adds the addresses of a result to a container's interface, brings it up, and adds the routes, like `ip addr add`, `ip
 * link set up`, `ip route append`. All requests are in one datagram, unless `detectDuplicates` requires a wait.
 * Deleting the interface undoes all of it. Throws the `CniError` of the first refusal.
 */
export function configureLink(
  { sandbox, inside, link }: ContainerLink,
  result: Result,
  { detectDuplicates = false, acceptRa }: BringUp = {},
): void {
  const addresses = addressesOf(result)
  const hasIpv6 = addresses.some(({ ip }) => familyOf(ip) === AF_INET6)
  using events =
    hasIpv6 && detectDuplicates ? sandbox.run(() => RouteSocket.subscribe(RouteGroup.Ipv6Address)) : undefined
  sandbox.run(() => {
    setAcceptRa(link.name, acceptRa ?? (hasIpv6 ? false : undefined))
    // Without addresses in the result, the program that adds some later is responsible for duplicate address detection.
    if (addresses.length > 0) setInterfaceSysctls(link.name, { hasIpv6, detectDuplicates })
  })
  const steps: Step[] = [
    ...addresses.map((address) => ({
      ...toAddAddress(link, { ...address, noDad: !detectDuplicates }),
      aim: `add address ${formatCidr(address)} to "${link.name}"`,
    })),
    { ...toSetLink(link, { up: true }), aim: `bring up "${link.name}"` },
  ]
  // Appended, not added: another interface of the container may have the same route, for example the default route, and
  // must keep it.
  const routes = planRoutes(result, link).map((spec) => ({
    ...toAddRoute(spec, "append"),
    aim: `add the routes of "${link.name}"`,
  }))
  if (events) {
    takeSteps(inside, steps)
    waitForDetection(inside, link, events)
    takeSteps(inside, routes)
  } else takeSteps(inside, [...steps, ...routes])
}

/**
 * Announces the addresses of a container's interface to its neighbors, like `arping -U` for IPv4 and an unsolicited
 * neighbor advertisement for IPv6. The kernel announces them when the interface comes up (`arp_notify`,
 * `ndisc_notify`), but a bridge port without carrier drops these frames. Call this function once the link is
 * operational. It sets the interface's MAC to the present value, which makes the kernel announce again.
 */
export function announceAddresses(inside: NetlinkSocket, link: Link): void {
  unlessErrno(() => setLink(inside, link, { mac: link.mac }), "EOPNOTSUPP", "EBUSY")
}

/** A request, and its purpose for error messages. */
type Step = Request & { readonly aim: string }

/** Sends the requests in one datagram. Throws the `CniError` of the first refused request. */
function takeSteps(inside: NetlinkSocket, steps: readonly Step[]): void {
  const [refusal] = refusalsOf(inside, steps)
  if (!refusal) return
  const { request, error } = refusal
  const details = isNoFamily(error) ? { details: `${noIpv6}: ${error}` } : {}
  throw new CniError(Code.Internal, `Cannot ${request.aim}`, { cause: error, ...details })
}

function refusalsOf(inside: NetlinkSocket, steps: readonly Step[]): readonly Refusal<Step>[] {
  try {
    return executeAll(inside, steps, { isBounded: false }) // the configuration may have thousands of routes
  } catch (error) {
    const [request] = steps
    if (!request || !(error instanceof NetlinkError)) throw error
    return [{ request, error }]
  }
}

/** Checks that a configured MTU is large enough for the addresses of a result. Throws `CniError` with code 7. */
export function requireMtu(mtu: number | undefined, result: Pick<Result, "ips">): void {
  if (mtu === undefined || mtu >= IPV6_MIN_MTU) return
  for (const address of addressesOf(result)) {
    if (familyOf(address.ip) === AF_INET) continue
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use "mtu" ${mtu} with ${formatCidr(address)}`, {
      details: `IPv6 needs an MTU of ${IPV6_MIN_MTU} or more`,
    })
  }
}

/**
 * Makes an interface of the thread's namespace accept or ignore routes and addresses from router advertisements, like
 * `sysctl -w net.ipv6.conf.NAME.accept_ra=0 net.ipv6.conf.NAME.autoconf=0`. Must be called before the interface is up,
 * because the kernel then solicits routers immediately. Settings that do not exist are skipped.
 */
export function setAcceptRa(name: string, accepts: boolean | undefined): void {
  if (accepts === undefined) return
  const value = accepts ? "1" : "0"
  for (const key of ["accept_ra", "autoconf"]) tryOverwriteSysctl(`net/ipv6/conf/${name}/${key}`, value)
}

/**
 * Sets sysctls of an interface in the thread's namespace, and skips those that do not exist. With an MTU below 1280, or
 * with IPv6 off, the interface has no IPv6 settings; adding an IPv6 address then reports the error.
 */
function setInterfaceSysctls(name: string, options: { hasIpv6: boolean; detectDuplicates: boolean }): void {
  tryOverwriteSysctl(`net/ipv4/conf/${name}/arp_notify`, "1") // announces the address when the interface comes up
  const ipv6 = `net/ipv6/conf/${name}`
  if (options.detectDuplicates) tryOverwriteSysctl(`${ipv6}/enhanced_dad`, "1")
  tryOverwriteSysctl(`${ipv6}/accept_dad`, options.detectDuplicates ? "1" : "0")
  if (!options.hasIpv6) return
  tryWriteSysctl("net/ipv6/conf/lo/disable_ipv6", "0") // some runtimes switch IPv6 off in new namespaces
  tryWriteSysctl(`${ipv6}/disable_ipv6`, "0")
  tryOverwriteSysctl(`${ipv6}/ndisc_notify`, "1") // like arp_notify, for IPv6
  tryOverwriteSysctl(`${ipv6}/keep_addr_on_down`, "1")
}
