import type { Attachment, NetworkPlugin } from "../../pkg/libcni/mod.ts"
import {
  findLink,
  IFA_F_PERMANENT,
  IFF_UP,
  type Link,
  listAddresses,
  listRoutes,
  RouteSocket,
  RT_TABLE_MAIN,
} from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import {
  formatCidr,
  formatIp,
  type Interface,
  member,
  networkOf,
  ownerComment,
  parseCidr,
  type Result,
  type Route,
  sameBytes,
  sameIp,
} from "../../pkg/types/mod.ts"
import { type OwnedRule, readOwnedRules } from "../node/mod.ts"

export interface Difference {
  /** The object that differs: "address of eth0", "route default". */
  readonly what: string
  readonly expected: string
  readonly found: string
}

const NOTHING = "nothing"

/** Compares ADD's result with the kernel's state, on the host and in the namespace `netns`. Throws `NetlinkError`. */
export function compareWithKernel(result: Result, netns: string): Difference[] {
  using host = RouteSocket.open()
  using sandbox = Netns.find(netns)
  if (sandbox === undefined) return [{ what: `namespace ${netns}`, expected: "there", found: "gone" }]
  using inside = sandbox.openRoute()
  const interfaces = result.interfaces.flatMap((one, index) => {
    const addresses = result.ips.filter((ip) => ip.interface === index).map(({ address }) => address)
    return compareInterface(one.sandbox ? inside : host, one, addresses)
  })
  return [...interfaces, ...compareRoutes(inside, result)]
}

/** Returns the gateway addresses that the host should have but does not have. Throws `NetlinkError`. */
export function compareGateways({ ips }: Result): Difference[] {
  using host = RouteSocket.open()
  const own = listAddresses(host).map(({ ip }) => formatIp(ip))
  const gateways = [...new Set(ips.flatMap(({ gateway }) => gateway ?? []))]
  const missing = gateways.filter((gateway) => !own.some((one) => sameIp(one, gateway)))
  return missing.map((gateway) => ({ what: "gateway on the host", expected: gateway, found: NOTHING }))
}

function compareInterface(route: RouteSocket, expected: Interface, addresses: readonly string[]): Difference[] {
  const where = expected.sandbox ? "in the container" : "on the host"
  const link = findLink(route, expected.name)
  if (link === undefined) return [{ what: `interface ${expected.name} ${where}`, expected: "there", found: NOTHING }]
  const { name } = expected
  const pairs: [string, string | number | undefined, string | number][] = [
    [`MAC of ${name}`, expected.mac?.toLowerCase(), link.mac],
    [`MTU of ${name}`, expected.mtu, link.mtu],
    [`state of ${name}`, addresses.length > 0 ? "up" : undefined, link.flags & IFF_UP ? "up" : "down"],
  ]
  const properties = pairs.flatMap(([what, wanted, found]) =>
    wanted === undefined || wanted === found ? [] : [{ what, expected: String(wanted), found: String(found) }],
  )
  return [...properties, ...(expected.sandbox ? compareAddresses(route, link, addresses) : [])]
}

/** Compares addresses. Ignores addresses from router advertisements, because routers may change them. */
function compareAddresses(route: RouteSocket, link: Link, expected: readonly string[]): Difference[] {
  const there = listAddresses(route, link)
    .filter(({ scope, flags }) => scope === 0 && (flags & IFA_F_PERMANENT) !== 0)
    .map(formatCidr)
  const isSame = (a: string, b: string) => {
    const [left, right] = [parseCidr(a), parseCidr(b)]
    return left !== undefined && right !== undefined && left.prefix === right.prefix && sameBytes(left.ip, right.ip)
  }
  const what = `address of ${link.name}`
  const missing = expected.filter((one) => !there.some((other) => isSame(one, other)))
  const more = there.filter((one) => !expected.some((other) => isSame(one, other)))
  return [
    ...missing.map((address) => ({ what, expected: address, found: NOTHING })),
    ...more.map((address) => ({ what, expected: NOTHING, found: address })),
  ]
}

/** Returns the routes of the result that are missing, and default routes that ADD did not create. */
function compareRoutes(inside: RouteSocket, { routes, ips }: Result): Difference[] {
  const gateways = ips.flatMap(({ gateway }) => gateway ?? [])
  const all = listRoutes(inside, undefined).filter(({ type }) => type === 1)
  const missing = routes.flatMap((wanted): Difference[] => {
    const dst = parseCidr(wanted.dst)
    if (dst === undefined) return []
    const toSame = all.filter(
      ({ dst: ip, prefix, table }) =>
        prefix === dst.prefix && sameBytes(ip, networkOf(dst)) && table === (wanted.table ?? RT_TABLE_MAIN),
    )
    if (toSame.some(({ gateway }) => wanted.gw === undefined || (gateway && sameIp(formatIp(gateway), wanted.gw))))
      return []
    const found = toSame.map(({ gateway }) => (gateway ? `via ${formatIp(gateway)}` : "without a gateway")).join(", ")
    return [
      {
        what: `route ${nameOf(wanted)}`,
        expected: wanted.gw === undefined ? "there" : `via ${wanted.gw}`,
        found: found || NOTHING,
      },
    ]
  })
  const isOurs = (gateway: string) =>
    [...gateways, ...routes.flatMap(({ gw }) => gw ?? [])].some((one) => sameIp(one, gateway))
  const others = all.filter(
    ({ prefix, table, gateway }) => prefix === 0 && table === RT_TABLE_MAIN && gateway && !isOurs(formatIp(gateway)),
  )
  const isNamed = (ip: Uint8Array) => missing.some(({ found }) => found.split(", ").includes(`via ${formatIp(ip)}`))
  const more = others
    .filter(({ gateway }) => gateway && !isNamed(gateway))
    .map(({ gateway }) => ({
      what: "route default",
      expected: NOTHING,
      found: `via ${formatIp(gateway ?? new Uint8Array(4))}`,
    }))
  return [...missing, ...more]
}

function nameOf({ dst }: Route): string {
  return /^(0\.0\.0\.0|::)\/0$/.test(dst) ? "default" : dst
}

/** Configuration keys that create rules for each container, and the chains or sets of these rules. */
const makers: readonly (readonly [key: string, what: string, place: RegExp])[] = [
  ["ipMasq", "masquerade", /cni_masquerade|cni_plugins_masquerade|nat (CNI-|POSTROUTING)/],
  ["macspoofchk", "check of source MACs", /spoofcheck|cni_plugins_spoofcheck|nat-PREROUTING/],
]

/**
 * Returns the requested kinds of rules that do not exist. If CHECK fails earlier, it does not report them. Throws
 * `EPERM`.
 */
export function compareRules(plugins: readonly NetworkPlugin[], network: string, attachment: Attachment): Difference[] {
  const wanted = makers.filter(([key]) => plugins.some(({ raw }) => member(raw, key) === true))
  if (wanted.length === 0) return []
  const { containerId, ifName } = attachment
  const comment = ownerComment({ network, containerId, ifName })
  const isOwn = ({ owner }: OwnedRule) => owner === comment || owner.includes(`id: "${containerId}"`) // the reference suite's comment
  const own = readOwnedRules().owned.filter(isOwn)
  return wanted
    .filter(([, , place]) => !own.some((rule) => place.test(rule.place)))
    .map(([, what]) => ({ what: `${what} of ${comment}`, expected: "rules", found: "nothing" }))
}
