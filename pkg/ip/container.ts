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

/** RFC 8200: a link with less has no IPv6, and the kernel takes no address for it. */
const IPV6_MIN_MTU = 1280

/** A container's interface during its configuration. */
export interface ContainerLink {
  sandbox: Netns
  /** A socket inside the sandbox. */
  inside: NetlinkSocket
  link: Link
}

/** Settings with which a container's interface is set up. */
export interface BringUp {
  /** Waits for the kernel to make sure that no other host has the IPv6 addresses; else they are usable at once. */
  detectDuplicates?: boolean
  /** Undefined: not with IPv6 addresses of the result, and otherwise as the kernel has it. See `setAcceptRa`. */
  acceptRa?: boolean | undefined
}

/**
 * Gives a container's interface the addresses of a result, brings it up, and installs the routes, like `ip addr add`,
 * `ip link set up`, `ip route append`, all in one datagram where nothing is to be waited for. All of it goes with the interface: it has no
 * reverse of its own. Throws `CniError`, that of the first refusal.
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
    // Without addresses of ours it is for the program that adds some to look for duplicates.
    if (addresses.length > 0) setInterfaceSysctls(link.name, { hasIpv6, detectDuplicates })
  })
  const steps: Step[] = [
    ...addresses.map((address) => ({
      ...toAddAddress(link, { ...address, noDad: !detectDuplicates }),
      aim: `add address ${formatCidr(address)} to "${link.name}"`,
    })),
    { ...toSetLink(link, { up: true }), aim: `bring up "${link.name}"` },
  ]
  // Appended: another interface of the container may have the same route, the default route above all, and keeps it.
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
 * Tells the neighbours who has the addresses of a container's interface, like `arping -U` and an unsolicited neighbour
 * advertisement for each. The kernel does so when the interface comes up (`arp_notify`, `ndisc_notify`), but a bridge whose port has no
 * carrier yet drops that: call it once the link is operational. A MAC that is set makes the kernel do so again, also the same one.
 */
export function announceAddresses(inside: NetlinkSocket, link: Link): void {
  unlessErrno(() => setLink(inside, link, { mac: link.mac }), "EOPNOTSUPP", "EBUSY")
}

/** A request, and what it is for, as errors say it. */
type Step = Request & { readonly aim: string }

/** Sends the requests at once. Throws the `CniError` of the first that is refused. */
function takeSteps(inside: NetlinkSocket, steps: readonly Step[]): void {
  const [refusal] = refusalsOf(inside, steps)
  if (!refusal) return
  const { request, error } = refusal
  const details = isNoFamily(error) ? { details: `${noIpv6}: ${error}` } : {}
  throw new CniError(Code.Internal, `Cannot ${request.aim}`, { cause: error, ...details })
}

function refusalsOf(inside: NetlinkSocket, steps: readonly Step[]): readonly Refusal<Step>[] {
  try {
    return executeAll(inside, steps, { isBounded: false }) // the configuration may have thousands
  } catch (error) {
    const [request] = steps
    if (!request || !(error instanceof NetlinkError)) throw error
    return [{ request, error }]
  }
}

/** Throws code 7 for an MTU, if one is configured, with which the interface cannot have the addresses of a result. */
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
 * Has an interface of the thread's namespace take routes and addresses from router advertisements, or not, like
 * `sysctl -w net.ipv6.conf.NAME.accept_ra=0 net.ipv6.conf.NAME.autoconf=0`. Best effort, as below. To be called before it is up: the kernel asks for routers
 * at once.
 */
export function setAcceptRa(name: string, accepts: boolean | undefined): void {
  if (accepts === undefined) return
  const value = accepts ? "1" : "0"
  for (const key of ["accept_ra", "autoconf"]) tryOverwriteSysctl(`net/ipv6/conf/${name}/${key}`, value)
}

/**
 * Settings of the interface, in the namespace that the thread is in. All are best effort: below an MTU of 1280, and
 * where IPv6 is off, the kernel has no IPv6 settings for it, and adding an IPv6 address then says what is wrong.
 */
function setInterfaceSysctls(name: string, options: { hasIpv6: boolean; detectDuplicates: boolean }): void {
  tryOverwriteSysctl(`net/ipv4/conf/${name}/arp_notify`, "1") // tells the neighbours at once who has the address now
  const ipv6 = `net/ipv6/conf/${name}`
  if (options.detectDuplicates) tryOverwriteSysctl(`${ipv6}/enhanced_dad`, "1")
  tryOverwriteSysctl(`${ipv6}/accept_dad`, options.detectDuplicates ? "1" : "0")
  if (!options.hasIpv6) return
  tryWriteSysctl("net/ipv6/conf/lo/disable_ipv6", "0") // some runtimes switch IPv6 off in new namespaces
  tryWriteSysctl(`${ipv6}/disable_ipv6`, "0")
  tryOverwriteSysctl(`${ipv6}/ndisc_notify`, "1") // as arp_notify, for IPv6
  tryOverwriteSysctl(`${ipv6}/keep_addr_on_down`, "1")
}
