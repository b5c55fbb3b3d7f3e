import { IFA_F_DADFAILED, IFA_F_TENTATIVE, RT_TABLE_LOCAL, RTN_LOCAL } from "../../pkg/netlink/mod.ts"
import { AF_INET6, familyOf, formatIp, sameBytes } from "../../pkg/types/mod.ts"
import { about } from "./containers.ts"
import { affectedBy, type Check, type Finding, nameOf } from "./finding.ts"
import { type Address, type Examined, type ExaminedInterface, inContainer, isLoopback, isUp } from "./inside.ts"
import { localRoute, sh } from "./remedy.ts"

/**
 * Finds loopback interfaces that went down and are not part of an attachment. Ignores an `lo` without address, which is
 * normal in a virtual machine's namespace: the kernel assigns 127.0.0.1 when `lo` first goes up, and the address stays.
 */
export const checkLoopbacks: Check = ({ examined }) => {
  const first = new Map(examined.map((each) => [each.inside.inode, each] as const).reverse())
  return [...first.values()].flatMap((each): Finding[] => {
    const { inside, linkNames } = each
    const lo = inside.links?.find(isLoopback)
    const wasUp = inside.addresses?.some(({ index }) => index === lo?.index)
    if (lo === undefined || isUp(lo) || !wasUp || linkNames.has(lo.name)) return []
    const { common, what, ofMany } = about(each, lo)
    return [
      {
        ...common,
        rule: "container-link-down",
        severity: "error",
        what: `${what} is down`,
        ofMany: ofMany("is down"),
        why: "the container can reach neither 127.0.0.1 nor its own addresses",
        remedy: inContainer(inside, [sh`ip link set ${lo.name} up`]),
      },
    ]
  })
}

/** Finds addresses for which a container accepts no packets, because their routes in its table local are missing. */
export const checkLocalRoutes: Check = ({ examined }) =>
  examined.flatMap((each) =>
    each.interfaces.flatMap((one) => one.addresses.flatMap((address) => notLocal(each, one, address))),
  )

/** Returns a finding for an address without a local route. Ignores VRFs: their tables have the local routes. */
function notLocal(examined: Examined, { name, link }: ExaminedInterface, { ip, text }: Address): Finding[] {
  const { one, inside } = examined
  const answer = inside.routesTo.get(text)
  const own = inside.addresses?.find((each) => each.index === link?.index && sameBytes(each.ip, ip))
  if (link === undefined || !isUp(link) || link.attributes.master !== undefined || own === undefined) return []
  const isPending = (own.flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) !== 0
  if (answer === undefined || isPending || (typeof answer === "object" && answer.type === RTN_LOCAL)) return []
  const address = formatIp(ip)
  const isV6 = familyOf(ip) === AF_INET6
  const isLookedUp = inside.rules?.some(({ family, table }) => family === familyOf(ip) && table === RT_TABLE_LOCAL)
  const isRule = isLookedUp === false
  const lookUp = isV6 ? sh`ip -6 rule add priority 0 lookup local` : sh`ip rule add priority 0 lookup local`
  const lost = isRule ? "no rule looks up table local" : "its route is not in table local"
  const lostOfMany = isRule ? lost : "their routes are not in table local"
  return [
    {
      rule: "container-not-local",
      severity: "error",
      network: one.network,
      cause: `${lost} in network ${one.network}`,
      affected: [affectedBy(one)],
      what: `${nameOf(one)} does not accept packets for ${address} of "${name}": ${lost}`,
      ofMany: (count) => `${count} containers do not accept packets for their own addresses: ${lostOfMany}`,
      why: "the container drops packets for the address, including answers to its own requests",
      remedy: inContainer(inside, [isRule ? lookUp : localRoute(address, name)]),
      consequenceOf: ["container-main-table", "container-rule"],
    },
  ]
}
