import { chainName, containerComment, networkComment, type Rule, type Search } from "../../../pkg/iptables/mod.ts"
import { type Cidr, formatCidr, formatIp, networkOf, type Owner, ownerComment } from "../../../pkg/types/mod.ts"
import { type Mapping, type Protocol, printEnd } from "../mapping.ts"
import type { Part } from "../parts.ts"
import type { Request } from "../request.ts"
import { markText } from "./blocks.ts"

export const TABLE = "nat"

/** Upstream's chains, in both families, for all containers. */
export const SETMARK = "CNI-HOSTPORT-SETMARK"
export const MASQ = "CNI-HOSTPORT-MASQ"
export const DNAT = "CNI-HOSTPORT-DNAT"
/** Its chains of one container, and those of versions before 0.7. */
export const CONTAINER_CHAIN = /^CNI-(DN|SN)-[0-9a-f]{21}$/
const PARENTS = [DNAT, "CNI-HOSTPORT-SNAT"] as const
const PREFIXES = ["dnat ", "snat "] as const

/** As many as the match `multiport` takes. */
const PORTS_PER_RULE = 15

/** What the rules of iptables depend on besides a request. */
export interface IptablesOptions {
  /** The bit of the packet's mark that asks for the masquerade. */
  markBit: number
  /** Somebody else's chain that sets such a mark, and the masquerade is somebody else's too. */
  externalSetMarkChain: string | undefined
}

/** The rules for one container in one network and one address family, as upstream has them. */
export interface IptablesRules {
  /** "network/container/interface" */
  owner: string
  network: string
  containerId: string
  part: Part
  /** Chains for all, each with its rules; made when they are missing. */
  shared: { chain: string; rules: readonly Rule[] }[]
  /** Where packets come into these chains; the first is to be the first in its chain. */
  entries: readonly Rule[]
  /** The container's own chain, whatever interface is meant. */
  chain: string
  /** In it: first a rule that does nothing but say whose the next ones are. */
  mark: Rule
  content: readonly Rule[]
  /** From `DNAT` to it. */
  jumps: readonly Rule[]
}

export function iptablesRules(request: Request, part: Part, options: IptablesOptions): IptablesRules {
  const { owner, snat, conditions } = request
  const chain = dnatChain(owner)
  const { markBit, externalSetMarkChain } = options
  const marking = snat && !externalSetMarkChain ? markingChains(markBit) : []
  const setMark = externalSetMarkChain ?? SETMARK
  const toHost = ["-m", "addrtype", "--dst-type", "LOCAL", "-j", DNAT]
  return {
    owner: ownerComment(owner),
    network: owner.network,
    containerId: owner.containerId,
    part,
    shared: [...marking, { chain: DNAT, rules: [] }],
    entries: [
      ...(marking.length > 0
        ? [{ chain: "POSTROUTING", words: [...comment("CNI portfwd requiring masquerade"), "-j", MASQ] }]
        : []),
      { chain: "PREROUTING", words: toHost },
      { chain: "OUTPUT", words: toHost },
    ],
    chain,
    mark: { chain, words: comment(markText(ownerComment(owner), request.netns)) },
    content: part.mappings.flatMap((mapping) =>
      mappingRules(chain, mapping, part.address, request, snat ? setMark : ""),
    ),
    jumps: jumpsTo(chain, owner, request.mappings, conditions[part.family]),
  }
}

/** The chain of a container in a network, as upstream names it. */
export function dnatChain(owner: Owner): string {
  return chainName("CNI-DN-", owner)
}

/** All chains that the container may have, made by us, by upstream, or by its versions before 0.7. */
export function containerSearch(owner: Owner): Search {
  return { chains: [dnatChain(owner), chainName("CNI-SN-", owner)], parents: PARENTS }
}

/** The chains of all containers. */
export const anySearch: Search = { chains: CONTAINER_CHAIN, parents: PARENTS }

/** Upstream's comments on the jumps to them. */
export function jumpComments(owner: Owner): string[] {
  return PREFIXES.map((prefix) => containerComment(owner, prefix))
}

/** Whether such a comment is one of this container's, in whichever network. A comment that was cut is nobody's. */
export function isJumpCommentOf(comment: string, containerId: string): boolean {
  const isJumps = PREFIXES.some((prefix) => comment.startsWith(`${prefix}name: `))
  return isJumps && comment.endsWith(` id: ${JSON.stringify(containerId)}`)
}

/** What these begin with for all containers of a network. */
export function networkComments(network: string): string[] {
  return PREFIXES.map((prefix) => networkComment(network, prefix))
}

function markingChains(bit: number): { chain: string; rules: Rule[] }[] {
  const value = `0x${(2 ** bit).toString(16)}`
  const mask = `${value}/${value}`
  const setMark = [...comment("CNI portfwd masquerade mark"), "-j", "MARK", "--set-xmark", mask]
  return [
    { chain: SETMARK, rules: [{ chain: SETMARK, words: setMark }] },
    { chain: MASQ, rules: [{ chain: MASQ, words: ["-m", "mark", "--mark", mask, "-j", "MASQUERADE"] }] },
  ]
}

function mappingRules(chain: string, mapping: Mapping, address: Cidr, { masqAll }: Request, setMark: string): Rule[] {
  const { protocol, hostPort, containerPort, hostIp } = mapping
  const destination = hostIp ? ["-d", `${formatIp(hostIp)}/${8 * hostIp.length}`] : []
  const rule = (source: readonly string[], ...target: string[]): Rule => ({
    chain,
    words: [...source, ...destination, "-p", protocol, "-m", protocol, "--dport", String(hostPort), "-j", ...target],
  })
  const sources = masqAll
    ? [[]]
    : [["-s", subnetOf(address)], ...(address.ip.length === 4 ? [["-s", "127.0.0.1/32"]] : [])]
  return [
    ...(setMark === "" ? [] : sources.map((source) => rule(source, setMark))),
    rule([], "DNAT", "--to-destination", printEnd(address.ip, containerPort)),
  ]
}

/** For all host ports, also those of the other family, as upstream has it: the container's chain sorts them out. */
function jumpsTo(chain: string, owner: Owner, mappings: readonly Mapping[], conditions: readonly string[]): Rule[] {
  const protocols = [...new Set(mappings.map(({ protocol }) => protocol))].sort()
  return protocols.flatMap((protocol) => {
    const ports = portsOf(protocol, mappings)
    const groups = Array.from({ length: Math.ceil(ports.length / PORTS_PER_RULE) }, (_, n) =>
      ports.slice(n * PORTS_PER_RULE, (n + 1) * PORTS_PER_RULE),
    )
    return groups.map((group): Rule => {
      const multiport = ["-m", "multiport", "--dports", group.join(",")]
      const words = [
        "-p",
        protocol,
        ...comment(containerComment(owner, "dnat ")),
        ...multiport,
        ...conditions,
        "-j",
        chain,
      ]
      return { chain: DNAT, words }
    })
  })
}

function portsOf(protocol: Protocol, mappings: readonly Mapping[]): number[] {
  return [...new Set(mappings.filter((one) => one.protocol === protocol).map(({ hostPort }) => hostPort))]
}

function comment(text: string): string[] {
  return ["-m", "comment", "--comment", text]
}

/** "10.1.0.0/16" */
function subnetOf(address: Cidr): string {
  return formatCidr({ ip: networkOf(address), prefix: address.prefix })
}
