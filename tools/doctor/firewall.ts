import { Netns } from "../../pkg/netns/mod.ts"
import { AF_INET, AF_INET6, type Family, familyOf, formatIp, parseIp, sameBytes } from "../../pkg/types/mod.ts"
import { type FilterView, verdictOf } from "../node/mod.ts"
import {
  type Destination,
  dropsAlso,
  formatPlace,
  HostKernel,
  type SharedState,
  type Stop,
  share,
  type Walk,
  walk,
  walkFromHost,
  walkInbound,
} from "../packets/mod.ts"
import { affectedBy, type Check, type DoctorInput, type Finding, nameOf } from "./finding.ts"
import { linkTowards } from "./host-routes.ts"
import type { Address, Examined } from "./inside.ts"
import { type Command, ofOthers, sh } from "./remedy.ts"

/** Names of tables of this suite and the reference suite. Drops in these tables are configured. */
const OURS = /^cni_/

/**
 * Destinations outside of the node: addresses of root name servers. They are far apart, so that a rule against one
 * network is not reported as a fault. No packet is sent to them.
 */
const OUTSIDE: Readonly<Record<Family, readonly Uint8Array[]>> = {
  [AF_INET]: ["198.41.0.4", "192.5.5.241"].flatMap((ip) => parseIp(ip) ?? []),
  [AF_INET6]: ["2001:503:ba3e::2:30", "2001:500:2f::f"].flatMap((ip) => parseIp(ip) ?? []),
}

interface Member {
  readonly examined: Examined
  readonly address: Address
}

/** A packet to evaluate: its description, and a function that returns its path. */
export interface Attempt {
  readonly what: string
  readonly walk: () => Walk
}

/** Packets of one purpose. A fault only if all are dropped: rules about a port or destination are intended. */
interface Kind {
  readonly severity: Finding["severity"]
  readonly why: string
  /** Whether both ends are containers of the network. If so, rules that name one of their addresses are intended. */
  readonly isBetween?: true
  readonly attempts: (member: Member, others: readonly Member[], at: Walks) => Attempt[]
}

const HOST_WHY = "containers cannot reach their host, or the host cannot reach containers, so kubelet's probes fail"
const FORWARD_WHY = "a drop is final, even if other tables accept"

const kinds: readonly Kind[] = [
  {
    severity: "error",
    why: `${FORWARD_WHY}: containers cannot reach other networks`,
    attempts: (member, _, at) => outside(member, at),
  },
  {
    severity: "error",
    why: HOST_WHY,
    attempts: ({ examined, address: { gateway } }, _, at) =>
      gateway === undefined || !at.isOfHost(gateway)
        ? []
        : toEach(gateway, [0, 443, 53]).map((to) => at.from(examined, to)),
  },
  {
    severity: "error",
    why: HOST_WHY,
    attempts: ({ examined, address }, _, at) =>
      linkTowards(examined, at.input) === undefined
        ? []
        : toEach(address.ip, [0, 80, 8080]).map((to) => at.fromHost(examined, to)),
  },
  {
    severity: "error",
    why: "containers of the network cannot reach each other",
    isBetween: true,
    attempts: ({ examined }, [other], at) =>
      other === undefined ? [] : toEach(other.address.ip, [0, 80, 8080]).map((to) => at.from(examined, to)),
  },
  {
    severity: "error",
    why: "containers cannot reach published ports",
    attempts: ({ examined, address }, others, at) => {
      const { gateway } = address
      const [client = examined] = others.map((each) => each.examined)
      if (gateway === undefined || at.isRouted(familyOf(address.ip))) return []
      return at.portsOf(examined, address).map((to) => at.from(client, { ...to, ip: gateway }))
    },
  },
  {
    severity: "warning",
    why: "published ports do not answer from outside; this may be intended",
    attempts: ({ examined, address }, _, at) =>
      at
        .portsOf(examined, address)
        .flatMap((to) => OUTSIDE[familyOf(address.ip)].map((source) => at.fromOutside(examined, source, to))),
  },
]

export function outside({ examined, address }: Member, at: Walks): Attempt[] {
  const places = OUTSIDE[familyOf(address.ip)].flatMap((ip) => [443, 80].map((port) => ({ ip, port })))
  return places.map((place) => at.from(examined, { ...place, protocol: "tcp" }))
}

/** Returns destinations at an address: an ICMP echo for port 0, UDP for port 53, and TCP for other ports. */
function toEach(ip: Uint8Array, ports: readonly number[]): Destination[] {
  return ports.map((port) => ({ ip, port, protocol: port === 0 ? "icmp" : port === 53 ? "udp" : "tcp" }))
}

/** Creates packets of a node's containers, and evaluates their paths. */
export class Walks {
  readonly input: DoctorInput
  readonly state: SharedState

  constructor(input: DoctorInput, kernel: HostKernel) {
    const { node, attachments, filter } = input
    this.input = input
    this.state = share({ node, attachments, filter }, kernel)
  }

  from({ one }: Examined, to: Destination): Attempt {
    return {
      what: `${describe(to)} from ${nameOf(one)} to ${formatPlace(to.ip, to.port)}`,
      walk: () => {
        using sandbox = one.netns === undefined ? undefined : Netns.find(one.netns)
        return sandbox
          ? walk({ ...this.state, attachment: one }, sandbox, to)
          : { hops: [], stop: undefined, isUnrouted: false }
      },
    }
  }

  fromHost({ one }: Examined, to: Destination): Attempt {
    const what = `${describe(to)} from the host to ${formatPlace(to.ip, to.port)} of ${nameOf(one)}`
    return { what, walk: () => walkFromHost(this.state, to) }
  }

  fromOutside({ one }: Examined, source: Uint8Array, to: Omit<Destination, "ip">): Attempt {
    const what = `${describe(to)} from outside (${formatIp(source)}) to published port ${to.port} of ${nameOf(one)}`
    return { what, walk: () => walkInbound(this.state, { source, destination: to }) }
  }

  /** Returns the first TCP or UDP port of a container that is published on all addresses of the host, or none. */
  portsOf({ one }: Examined, { ip }: Address): Omit<Destination, "ip">[] {
    const isOwn = (to: string) => to.startsWith(familyOf(ip) === AF_INET ? `${formatIp(ip)}:` : `[${formatIp(ip)}]:`)
    const { ports } = this.input.node.rules
    const own = ports.filter(({ to, hostPort }) => /^\d+\//.test(hostPort) && isOwn(to))
    const isKnown = own.find(({ protocol }) => protocol === "tcp" || protocol === "udp")
    return isKnown && one.isAlive !== false ? [{ port: isKnown.port, protocol: isKnown.protocol as "tcp" | "udp" }] : []
  }

  isOfHost(ip: Uint8Array): boolean {
    const text = formatIp(ip)
    const { links } = this.input.node
    return links.some(
      ({ nsid, addresses }) => nsid === undefined && addresses.some((each) => each.split("/")[0] === text),
    )
  }

  isRouted(family: Family): boolean {
    const all = family === AF_INET ? "0.0.0.0/0" : "::/0"
    return this.input.node.routes.some(({ dst, isClosed }) => dst === all && !isClosed)
  }
}

function describe({ protocol, port }: Omit<Destination, "ip">): string {
  return port === 0 ? "an echo request" : protocol.toUpperCase()
}

/** Finds rules of other programs that drop packets that each network needs, or the answers to them. */
export const checkFirewall: Check = (input) => {
  const { filter, examined } = input
  const foreign = (filter?.bases ?? []).filter(({ table, type }) => type === "filter" && !OURS.test(table.name))
  const isEmpty = ({ table, name }: (typeof foreign)[number]) =>
    !filter?.rules.some(({ chain }) => chain.name === name && chain.table.name === table.name)
  if (foreign.every((base) => base.policy === "accept" && isEmpty(base))) return []
  const isPerInterface = foreign.some(({ table, devices }) => table.family === "bridge" || devices !== undefined)
  using kernel = new HostKernel()
  const walks = new Walks(input, kernel)
  const living = examined.filter(({ one }) => one.isAlive !== false && one.netns !== undefined)
  const networks = Map.groupBy(living, ({ one }) => one.network)
  const findings = [AF_INET, AF_INET6].flatMap((family) =>
    [...networks.values()].flatMap((group) => {
      const members = group.flatMap((each): Member[] => {
        const address = each.interfaces.flatMap(({ addresses }) => addresses).find(({ ip }) => familyOf(ip) === family)
        return address ? [{ examined: each, address }] : []
      })
      return kinds.flatMap((kind) => lostOf(kind, members, isPerInterface, walks))
    }),
  )
  return oncePerChain(findings)
}

/** The number of containers that are checked in a network, unless rules concern single interfaces. */
const SAMPLES = 3

interface Lost {
  readonly stop: Stop
  readonly what: string
  readonly isAnswer: boolean
}

interface FoundDrop {
  readonly finding: Finding
  readonly isBetween: boolean
}

function lostOf(kind: Kind, members: readonly Member[], isPerInterface: boolean, walks: Walks): FoundDrop[] {
  const asked = isPerInterface ? members : sampled(members)
  const lost: { member: Member; lost: Lost }[] = []
  for (const member of asked) {
    const others = members.filter(({ examined }) => examined.inside.inode !== member.examined.inside.inode)
    const found = lostAll(kind.attempts(member, others, walks))
    if (found) lost.push({ member, lost: found })
    else if (!isPerInterface) return [] // the packets of one container pass, so no rule concerns the whole network
  }
  const [first] = lost
  if (first === undefined) return []
  if (lost.length < asked.length) {
    const single = lost.filter(({ lost: { stop } }) => stop.device !== undefined || stop.base.table.family === "bridge")
    return single.map(({ member, lost: found }) => findingOf(kind, found, [member], walks.input))
  }
  const isPolicy = ({ lost: { stop }, member }: (typeof lost)[number]) =>
    [stop.packet.original.source, stop.packet.original.destination]
      .filter((ip) => kind.isBetween || sameBytes(ip, member.address.ip))
      .some((ip) => isAboutOne(stop, ip, member.address.gateway, walks))
  if ((kind.isBetween || members.length === 1) && lost.every(isPolicy)) return []
  return [findingOf(kind, first.lost, members, walks.input)]
}

/** Returns the first, the middle, and the last member. */
function sampled(members: readonly Member[]): Member[] {
  if (members.length <= SAMPLES) return [...members]
  return [0, members.length >> 1, members.length - 1].flatMap((at) => members[at] ?? [])
}

/** Returns the first packet if rules of other programs drop all of them, or undefined if one passes. */
function lostAll(attempts: readonly Attempt[]): Lost | undefined {
  let first: Lost | undefined
  for (const { what, walk } of attempts) {
    const { stop, hops } = walk()
    if (stop === undefined || OURS.test(stop.base.table.name)) return undefined
    first ??= { stop, what, isAnswer: hops.at(-1)?.isAnswer === true }
  }
  return first
}

/** Reports whether rules drop a container's packets, but not those of a neighboring address, which is intended. */
function isAboutOne(stop: Stop, own: Uint8Array, gateway: Uint8Array | undefined, { state }: Walks): boolean {
  const flipped = [1, 2, 3, 4].map((bits) => own.map((byte, at) => (at === own.length - 1 ? byte ^ bits : byte)))
  const neighbour = flipped.find((ip) => gateway === undefined || !sameBytes(ip, gateway))
  return neighbour !== undefined && !dropsAlso(state, stop, own, neighbour)
}

function findingOf(
  kind: Kind,
  { stop, what, isAnswer }: Lost,
  members: readonly Member[],
  input: DoctorInput,
): FoundDrop {
  const { base, rule, device } = stop
  const { table, hook } = base
  const maker = input.filter && makerOf(input.filter, table.name)
  const at = device === undefined ? "" : ` at "${device}"`
  const place = `table ${table.family} ${table.name}, chain ${base.name}${maker === undefined ? "" : ` (made by ${maker})`}`
  const packet = isAnswer ? `the answer to ${what}` : what
  const says =
    rule === undefined
      ? `${place} drops ${packet}${at}, by its policy`
      : `a rule in ${place} drops ${packet}${at}: chain ${rule.chain.name}, handle ${rule.handle}`
  const name = nameOfStop(stop)
  const isForwarded = name === "forward-drop" || name === "forward-drop-rule"
  const via = members[0] && linkTowards(members[0].examined, input)?.name
  const hint = via === undefined || !isForwarded ? "" : hintOf(maker, via)
  const finding: Finding = {
    rule: name,
    severity: kind.severity,
    cause: `${place} at ${hook}`,
    affected: members.map(({ examined }) => affectedBy(examined.one)),
    what: says,
    ofMany: () => says,
    why: kind.why,
    remedy: ofOthers(`allow such packets there${hint}`, shownChain(rule?.chain ?? base)),
  }
  return { finding, isBetween: kind.isBetween === true }
}

function nameOfStop({ base, rule, device }: Stop): Finding["rule"] {
  if (base.table.family === "bridge") return "frames-dropped"
  if (device !== undefined) return "netdev-drop"
  if (base.hook === "input" || base.hook === "output") return "host-drop"
  return rule === undefined ? "forward-drop" : "forward-drop-rule"
}

/** Joins the findings about one chain. Ignores packets between containers if the chain also drops other packets. */
function oncePerChain(findings: readonly FoundDrop[]): Finding[] {
  return [...Map.groupBy(findings, ({ finding }) => finding.cause).values()].flatMap((alike) => {
    const own = alike.filter(({ isBetween }) => !isBetween)
    const [first] = own.length > 0 ? own : alike
    const concerned = own.length > 0 ? own : alike
    const affected = new Map(
      concerned.flatMap(({ finding }) => finding.affected ?? []).map((each) => [each.name, each]),
    )
    return first ? [{ ...first.finding, affected: [...affected.values()] }] : []
  })
}

/** Describes how to configure the program that owns the rules. */
function hintOf(maker: string | undefined, device: string): string {
  if (maker === "docker") return `: its chain DOCKER-USER is for rules such as "-i ${device} -j ACCEPT"`
  if (maker === "firewalld") return `: "${device}" belongs in a zone that forwards, such as trusted`
  return maker === "ufw" ? `: run "ufw route allow in on ${device}" and "ufw route allow out on ${device}"` : ""
}

/** Returns the program that owns the rules of a table, judging by the names of the table's chains. */
function makerOf({ rules, bases }: FilterView, table: string): string | undefined {
  if (table === "firewalld") return "firewalld"
  const inTable = rules.filter(({ chain }) => chain.table.name === table)
  const names = [...inTable.map(({ chain }) => chain.name), ...inTable.flatMap(jumpOf)]
  names.push(...bases.filter((base) => base.table.name === table).map(({ name }) => name))
  const signs = { docker: /^DOCKER/, ufw: /^ufw-/, "kube-proxy": /^KUBE-/ }
  return Object.entries(signs).find(([, sign]) => names.some((name) => sign.test(name)))?.[0]
}

function jumpOf(rule: FilterView["rules"][number]): string[] {
  const verdict = verdictOf(rule)
  return typeof verdict === "object" ? [verdict.jump] : []
}

/** Returns the command that shows a chain with the handles of its rules. */
export function shownChain({ table, name }: Pick<Stop["base"], "table" | "name">): Command {
  return sh`nft -a list chain ${[table.family, table.name, name]}`
}
