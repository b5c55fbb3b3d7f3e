import { type ListedRoute, RTN_UNICAST, type Rule, RuleAction } from "../../pkg/netlink/mod.ts"
import {
  AF_INET6,
  contains,
  type Family,
  familyOf,
  formatCidr,
  formatIp,
  parseIp,
  sameBytes,
} from "../../pkg/types/mod.ts"
import { CLOSED, familiesWithoutMain, isUsual } from "../node/mod.ts"
import { HostKernel, type Walk } from "../packets/mod.ts"
import { affectedBy, type Check, type Finding, nameOf } from "./finding.ts"
import { outside, Walks } from "./firewall.ts"
import { linkTowards } from "./host-routes.ts"
import { type Address, type Examined, inContainer } from "./inside.ts"
import { type Command, ofOthers, sh } from "./remedy.ts"

/** Finds containers' policy rules before the main table that drop packets, or use an unknown gateway. */
export const checkContainerRules: Check = ({ examined }) =>
  examined.flatMap((each) =>
    (each.inside.rules ?? [])
      .filter((rule) => !isUsual(rule))
      .flatMap((rule): Finding[] => {
        const ip = each.interfaces
          .flatMap(({ addresses }) => addresses)
          .find((address) => concerns(rule, address.ip, undefined))?.ip
        const fate = ip === undefined ? undefined : fateOf(rule, ip, each.inside.routes ?? [], each)
        if (ip === undefined || fate === undefined) return []
        return [
          {
            rule: "container-rule",
            severity: "error",
            network: each.one.network,
            cause: `rule ${describeRule(rule)} in network ${each.one.network}`,
            affected: [affectedBy(each.one)],
            what: `the rule "${describeRule(rule)}" in ${nameOf(each.one)} matches packets from ${formatIp(ip)}: ${fate}`,
            ofMany: (count) => `the rule "${describeRule(rule)}" in ${count} containers matches their packets: ${fate}`,
            why: "the container cannot reach the destinations of its main table",
            remedy: ofOthers(
              "exclude packets of the container from the rule",
              inContainer(each.inside, [shownRules(rule)]),
            ),
          },
        ]
      }),
  )

/** Finds namespaces in which no policy rule looks up the main table, so that its routes have no effect. */
export const checkMainTables: Check = ({ examined, hostTables }) => [
  ...hostTables.withoutMain.map((family): Finding => {
    const which = family === AF_INET6 ? "IPv6 " : ""
    return {
      rule: "host-main-table",
      severity: "error",
      what: `the host has no ${which}rule that looks up table main`,
      why: "the host uses none of its routes: it cannot send to containers or other hosts",
      remedy: lookUpMain(family),
    }
  }),
  ...examined.flatMap(({ one, inside }) =>
    familiesWithoutMain(inside.rules ?? []).map((family): Finding => {
      const which = family === AF_INET6 ? "IPv6 " : ""
      return {
        rule: "container-main-table",
        severity: "error",
        network: one.network,
        cause: `${which}main table in network ${one.network}`,
        affected: [affectedBy(one)],
        what: `${nameOf(one)} has no ${which}rule that looks up table main`,
        ofMany: (count) => `${count} containers have no ${which}rule that looks up table main`,
        why: "the container uses none of its routes: it cannot send packets",
        remedy: inContainer(inside, [lookUpMain(family)]),
      }
    }),
  ),
]

/** Returns the command that adds the kernel's default rule for the main table. */
function lookUpMain(family: Family): Command {
  return family === AF_INET6
    ? sh`ip -6 rule add priority 32766 lookup main`
    : sh`ip rule add priority 32766 lookup main`
}

/** Finds the host's policy rules that drop or divert packets from containers outward, or from the host to them. */
export const checkHostRules: Check = (input) => {
  const { examined, hostTables } = input
  if (hostTables.rules.length === 0) return []
  using kernel = new HostKernel()
  const walks = new Walks(input, kernel)
  return examined.flatMap((each) => {
    const addresses = each.interfaces.flatMap((own) => own.addresses)
    return addresses.flatMap((address) => unrouted(each, address, walks)).slice(0, 1)
  })
}

function unrouted(examined: Examined, address: Address, walks: Walks): Finding[] {
  const { input } = walks
  if (!walks.isRouted(familyOf(address.ip))) return []
  const echo = { ip: address.ip, port: 0, protocol: "icmp" } as const
  const fromHost = linkTowards(examined, input) === undefined ? [] : [walks.fromHost(examined, echo)]
  const fate = [fromHost, outside({ examined, address }, walks)].flatMap((attempts) => {
    const ends = attempts.map(({ what, walk }) => ({ what, ...walk() }))
    const [first] = ends
    return first && ends.every(({ isUnrouted }) => isUnrouted) ? [`${first.what}: ${reasonOf(first.hops)}`] : []
  })[0]
  if (fate === undefined) return []
  const { rules } = input.hostTables
  const rule = rules.find((each) => concerns(each, address.ip, undefined) || concerns(each, undefined, address.ip))
  const by = rule === undefined ? "the host's policy routing" : `the host's rule "${describeRule(rule)}"`
  return [
    {
      rule: "host-rule",
      severity: "error",
      network: examined.one.network,
      cause: by,
      affected: [affectedBy(examined.one)],
      what: `${by} matches packets of ${nameOf(examined.one)}: ${fate}`,
      ofMany: (count) => `${by} matches packets of ${count} containers: ${fate}`,
      why: "the container cannot send packets beyond the host, or cannot receive them",
      remedy: ofOthers("exclude packets of containers from the rule", rule ? shownRules(rule) : sh`ip rule show`),
      consequenceOf: ["host-route-closed", "host-route-missing", "outside-route-closed"],
    },
  ]
}

/** Describes why policy routing does not deliver a packet: a drop, or a gateway that does not answer. */
function reasonOf(hops: Walk["hops"]): string | undefined {
  return (hops.findLast(({ passes, where }) => passes === "perhaps" && where === "host") ?? hops.at(-1))?.what
}

/** Reports whether a rule matches by address alone. A rule for some ports, marks, users or interfaces is intended. */
function isPlain(rule: Rule): boolean {
  const { not, mark, tos, ipProtocol, sourcePorts, destinationPorts, users, tunnelId, l3Master } = rule
  const selectors = [not, mark, tos, ipProtocol, sourcePorts, destinationPorts, users, tunnelId, l3Master]
  const others = [rule.inputInterface, rule.outputInterface, rule.suppressPrefixLength, rule.suppressGroup]
  return [...selectors, ...others].every((selector) => selector === undefined)
}

/** Reports whether a rule matches all packets from the address `src`, or to the address `dst`. */
function concerns(rule: Rule, src: Uint8Array | undefined, dst: Uint8Array | undefined): boolean {
  const ip = src ?? dst
  if (ip === undefined || rule.family !== familyOf(ip) || !isPlain(rule)) return false
  const matches = (prefix: Rule["src"], address: Uint8Array | undefined) =>
    prefix === undefined || (address !== undefined && contains(prefix, address))
  return matches(rule.src, src) && matches(rule.dst, dst)
}

/** Describes how a rule drops all packets: by its action or its table. Returns undefined for other rules. */
function closedBy({ action, table, family }: Rule, routes: readonly ListedRoute[]): string | undefined {
  if (action === RuleAction.Blackhole || action === RuleAction.Unreachable || action === RuleAction.Prohibit)
    return "it drops them"
  const end = routes.find((route) => route.prefix === 0 && route.table === table && familyOf(route.dst) === family)
  return end !== undefined && end.type !== RTN_UNICAST ? `table ${table} drops them` : undefined
}

/**
 * Describes the effect of a container's rule on its packets, or returns undefined if the rule is harmless. A default
 * route through a gateway that ADD's result lacks is a fault, but a route into a tunnel is intended.
 */
function fateOf(rule: Rule, ip: Uint8Array, routes: readonly ListedRoute[], { inside, interfaces, one }: Examined) {
  const closed = closedBy(rule, routes)
  if (closed !== undefined) return closed
  const out = routes.find(
    ({ prefix, table, dst }) => prefix === 0 && table === rule.table && familyOf(dst) === familyOf(ip),
  )
  const link = inside.links?.find(({ index }) => index === out?.index)
  const own = interfaces.find(({ name }) => name === link?.name)
  if (out?.gateway === undefined || own === undefined) return undefined
  const { gateway } = out
  const texts = [
    ...(one.result?.ips.map((each) => each.gateway) ?? []),
    ...(one.result?.routes.map(({ gw }) => gw) ?? []),
  ]
  const known = texts.flatMap((text) => (text ? (parseIp(text) ?? []) : []))
  if (known.some((each) => sameBytes(each, gateway))) return undefined
  return `table ${rule.table} sends them to ${formatIp(gateway)}, which is not a gateway in the result of ADD`
}

/** Describes a rule as `ip rule` does: "0: from 10.85.0.2 lookup 100". */
export function describeRule({ src, dst, table, action, priority }: Rule): string {
  const to = dst ? ` to ${formatCidr(dst)}` : ""
  const does = action === undefined ? `lookup ${table}` : (CLOSED.get(action) ?? `action ${action}`)
  return `${priority ?? 0}: from ${src ? formatCidr(src) : "all"}${to} ${does}`
}

function shownRules({ family }: Rule): Command {
  return family === AF_INET6 ? sh`ip -6 rule show` : sh`ip rule show`
}
