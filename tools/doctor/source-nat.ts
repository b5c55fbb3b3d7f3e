import type { FoundRule } from "../../pkg/nftables/mod.ts"
import {
  AF_INET6,
  contains,
  familyOf,
  formatCidr,
  formatIp,
  networkOf,
  parseCidr,
  parseIp,
} from "../../pkg/types/mod.ts"
import type { NodeLink } from "../node/mod.ts"
import { type FilterQuestions, indexRules } from "../trace/chain-walk.ts"
import { Choices } from "../trace/choices.ts"
import { passHook } from "../trace/filter.ts"
import { HostKernel, RTN } from "../trace/kernel.ts"
import { fixedSourceOf } from "../trace/nat.ts"
import { firstPacket } from "../trace/packet.ts"
import { affectedBy, type Check, containerLinks, type Finding, nameOf, type Patient } from "./finding.ts"
import { linkTowards } from "./host-routes.ts"
import type { Examined } from "./inside.ts"
import { sh } from "./remedy.ts"

/** A rule of another program that gives packets a source which the host does not have, and does not answer for. */
interface WrongSource {
  readonly rule: FoundRule
  readonly ip: Uint8Array
  /** The interface of the host in whose network the address lies. */
  readonly link: NodeLink
  readonly network: string
}

/**
 * Rules that give what containers send outside a source that hosts beside this one do not find here. Of an address in no network of the
 * host's interfaces that is not known: a router may send it here.
 */
export const checkSourceNat: Check = (patient) => {
  const { filter, examined } = patient
  const others = filter?.rules.filter(({ chain }) => !/^cni_/.test(chain.table.name)) ?? []
  const fixed = others.flatMap((rule) => {
    const ip = fixedSourceOf(rule)
    return ip === undefined || isOnHost(ip, patient) ? [] : [{ rule, ip }]
  })
  if (!filter || fixed.length === 0) return []
  using kernel = new HostKernel()
  const wrong = fixed.flatMap((one) => {
    const near = networkWith(one.ip, patient, kernel)
    return near === undefined ? [] : [{ ...one, ...near }]
  })
  if (wrong.length === 0) return []
  const questions = { bases: filter.bases, rulesOf: indexRules(filter), kernel, choices: new Choices() }
  return examined.flatMap((each) => {
    const sources = each.interfaces.flatMap(({ addresses }) => addresses.map(({ ip }) => ip))
    const found = sources.flatMap((source) => {
      const by = sourceRule(source, linkTowards(each, patient), { kernel, questions })
      return wrong.filter(({ rule }) => rule === by)
    })
    return found.slice(0, 1).map((one) => findingOf(each, one))
  })
}

function isOnHost(ip: Uint8Array, { node }: Patient): boolean {
  const text = formatIp(ip)
  return node.links.some(
    ({ nsid, addresses }) => nsid === undefined && addresses.some((each) => each.split("/")[0] === text),
  )
}

/**
 * The network of an interface of the host, and not of containers, in which an address lies: its hosts ask for the address by ARP or NDP, and this
 * one does not answer. It may where a route of its own leads to the address, or where it is a proxy for NDP: then undefined.
 */
function networkWith(
  ip: Uint8Array,
  patient: Patient,
  kernel: HostKernel,
): Pick<WrongSource, "link" | "network"> | undefined {
  const route = kernel.routeOf({ dst: ip })
  if (typeof route === "string" || route.type !== RTN.unicast || route.gateway !== undefined) return undefined
  const link = patient.node.links.find(({ nsid, index }) => nsid === undefined && index === route.index)
  if (link === undefined || link.name === "lo" || containerLinks(patient).includes(link.name)) return undefined
  const proxies = ["all", link.name].map((name) => patient.sysctl(`net/ipv6/conf/${name}/proxy_ndp`))
  if (familyOf(ip) === AF_INET6 && proxies.includes("1")) return undefined
  const networks = link.addresses.flatMap((each) => parseCidr(each) ?? [])
  const cidr = networks.find((each) => each.prefix < 8 * each.ip.length && contains(each, ip))
  return cidr && { link, network: formatCidr({ ip: networkOf(cidr), prefix: cidr.prefix }) }
}

/** Addresses outside, of documentation: no rule is about them alone. */
const OUTSIDE = ["198.51.100.1", "2001:db8:ffff::1"].flatMap((each) => parseIp(each) ?? [])
const HTTPS = 443

/** The rule that changes the source of what a container sends outside; undefined where none does, or the host does not forward it. */
function sourceRule(
  source: Uint8Array,
  input: NodeLink | undefined,
  { kernel, questions }: { kernel: HostKernel; questions: FilterQuestions },
): FoundRule | undefined {
  const dst = OUTSIDE.find((each) => familyOf(each) === familyOf(source))
  if (input === undefined || dst === undefined) return undefined
  const route = kernel.routeOf({ dst, src: source, input: kernel.link(input.name)?.index })
  const output = typeof route === "string" || route.index === undefined ? undefined : kernel.link(route.index)?.name
  if (typeof route === "string" || route.type !== RTN.unicast || output === undefined) return undefined
  const packet = firstPacket(source, { ip: dst, port: HTTPS, protocol: "tcp" }, input.name)
  const { mappings, notes } = passHook(questions, "postrouting", { ...packet, output })
  return notes.length > 0 ? undefined : mappings.find(({ mapping }) => mapping.kind === "source")?.by
}

function findingOf({ one }: Examined, { rule, ip, link, network }: WrongSource): Finding {
  const { chain, handle } = rule
  const place = [chain.table.family, chain.table.name, chain.name]
  const text = formatIp(ip)
  const which = `a rule in table ${chain.table.family} ${chain.table.name}, chain ${chain.name}, handle ${handle},`
  const gives = `the source ${text}, which the host does not have`
  return {
    rule: "source-not-local",
    severity: "warning",
    network: one.network,
    cause: `${place.join(" ")} ${handle}`,
    affected: [affectedBy(one)],
    what: `${which} gives what ${nameOf(one)} sends outside ${gives}`,
    ofMany: (count) => `${which} gives what ${count} containers send outside ${gives}`,
    why: `hosts of ${network} on "${link.name}" ask for the MAC of ${text}, and this host does not answer: no answer comes back to the containers`,
    remedy: sh`nft delete rule ${place} handle ${String(handle)}`,
    note: "or give the host the address; the network of a cloud may send packets for it here all the same",
  }
}
