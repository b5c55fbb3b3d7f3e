import {
  COMMENT_LENGTH,
  chainName,
  commentOf,
  containerComment,
  destinationOf,
  networkComment,
  type Rule,
  type Search,
  targetOf,
} from "../../../pkg/iptables/mod.ts"
import {
  AF_INET,
  type Cidr,
  familyOf,
  formatCidr,
  hostCidr,
  networkOf,
  type Owner,
  ownerComment,
  parseIp,
} from "../../../pkg/types/mod.ts"
import { type MappedAddress, type Mapping, type PortmapSpec, printIpPort } from "../mapping.ts"

export const TABLE = "nat"

/** Upstream's chains, which exist in both families and serve all containers. */
export const SETMARK = "CNI-HOSTPORT-SETMARK"
export const MASQ = "CNI-HOSTPORT-MASQ"
export const DNAT = "CNI-HOSTPORT-DNAT"
/** Matches the chains of single containers, including those of upstream's versions before 0.7. */
export const CONTAINER_CHAIN = /^CNI-(DN|SN)-[0-9a-f]{21}$/
const PARENTS = [DNAT, "CNI-HOSTPORT-SNAT"] as const
const PREFIXES = ["dnat ", "snat "] as const

/** The maximum number of ports in the match `multiport`. */
const PORTS_PER_RULE = 15

/** The rules for one container in one network and one address family, in upstream's form. */
export interface IptablesRules {
  /** "network/container/interface" */
  owner: string
  network: string
  containerId: string
  mapped: MappedAddress
  /** The shared chains and their rules, which are created if missing. */
  shared: readonly { chain: string; rules: readonly Rule[] }[]
  /**
   * The jumps from built-in chains to the shared ones. The jump in POSTROUTING becomes the first rule of that chain.
   */
  entries: readonly Rule[]
  /** The container's own chain, for all its interfaces in this network. */
  chain: string
  /** The first of the attachment's rules in the chain. Its comment names the owner of the attachment. */
  label: Rule
  content: readonly Rule[]
  /** The jumps from `CNI-HOSTPORT-DNAT` to the container's chain. */
  jumps: readonly Rule[]
}

export function iptablesRules(spec: PortmapSpec, mapped: MappedAddress): IptablesRules {
  const { owner, snat, netns, mappings, conditions, markMasqBit, externalSetMarkChain } = spec
  const chain = dnatChain(owner)
  const isMarkedHere = snat && !externalSetMarkChain
  const setMark = snat ? (externalSetMarkChain ?? SETMARK) : undefined
  const toHost = ["-m", "addrtype", "--dst-type", "LOCAL", "-j", DNAT]
  const toMasq = [...comment("CNI portfwd requiring masquerade"), "-j", MASQ]
  return {
    owner: ownerComment(owner),
    network: owner.network,
    containerId: owner.containerId,
    mapped,
    shared: [...(isMarkedHere ? markingChains(markMasqBit) : []), { chain: DNAT, rules: [] }],
    entries: [
      ...(isMarkedHere ? [{ chain: "POSTROUTING", words: toMasq }] : []),
      { chain: "PREROUTING", words: toHost },
      { chain: "OUTPUT", words: toHost },
    ],
    chain,
    label: { chain, words: comment(labelText(ownerComment(owner), netns)) },
    content: mapped.mappings.flatMap((mapping) =>
      mappingRules({ chain, setMark, masqAll: spec.masqAll }, mapping, mapped.address),
    ),
    jumps: jumpsForPorts(chain, owner, mappings, conditions[mapped.family]),
  }
}

/** Returns the name of a container's chain in a network, as in upstream. */
export function dnatChain(owner: Owner): string {
  return chainName("CNI-DN-", owner)
}

/** Returns a search for all possible chains of a container: ours, upstream's, and upstream's before 0.7. */
export function containerSearch(owner: Owner): Search {
  return { chains: [dnatChain(owner), chainName("CNI-SN-", owner)], parents: PARENTS }
}

export const anySearch: Search = { chains: CONTAINER_CHAIN, parents: PARENTS }

/** Returns upstream's comments on the jumps to a container's chains. */
export function jumpComments(owner: Owner): string[] {
  return PREFIXES.map((prefix) => containerComment(owner, prefix))
}

/** Reports whether a jump's comment names this container, in any network. Returns false for a truncated comment. */
export function isJumpCommentOf(comment: string, containerId: string): boolean {
  const isJumps = PREFIXES.some((prefix) => comment.startsWith(`${prefix}name: `))
  return isJumps && comment.endsWith(` id: ${JSON.stringify(containerId)}`)
}

export function isJumpCommentIn(comment: string, network: string): boolean {
  return PREFIXES.some((prefix) => comment.startsWith(networkComment(network, prefix)))
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

function mappingRules(
  { chain, setMark, masqAll }: { chain: string; setMark: string | undefined; masqAll: boolean },
  { protocol, hostPort, containerPort, hostIp }: Mapping,
  address: Cidr,
): Rule[] {
  const destination = hostIp ? ["-d", hostCidr(hostIp)] : []
  const rule = (source: readonly string[], ...target: string[]): Rule => ({
    chain,
    words: [...source, ...destination, "-p", protocol, "-m", protocol, "--dport", String(hostPort), "-j", ...target],
  })
  const subnet = formatCidr({ ip: networkOf(address), prefix: address.prefix })
  const isIpv4 = familyOf(address.ip) === AF_INET
  const sources = masqAll ? [[]] : [["-s", subnet], ...(isIpv4 ? [["-s", "127.0.0.1/32"]] : [])]
  return [
    ...(setMark === undefined ? [] : sources.map((source) => rule(source, setMark))),
    rule([], "DNAT", "--to-destination", printIpPort(address.ip, containerPort)),
  ]
}

/** Returns the jumps for all host ports, of both families, like upstream. The container's chain is more exact. */
function jumpsForPorts(
  chain: string,
  owner: Owner,
  mappings: readonly Mapping[],
  conditions: readonly string[],
): Rule[] {
  const protocols = [...new Set(mappings.map(({ protocol }) => protocol))].sort()
  return protocols.flatMap((protocol) => {
    const ours = mappings.filter((one) => one.protocol === protocol)
    const ports = [...new Set(ours.map(({ hostPort }) => hostPort))]
    const begin = ["-p", protocol, ...comment(containerComment(owner, "dnat ")), "-m", "multiport", "--dports"]
    return Array.from({ length: Math.ceil(ports.length / PORTS_PER_RULE) }, (_, n): Rule => {
      const group = ports.slice(n * PORTS_PER_RULE, (n + 1) * PORTS_PER_RULE).join(",")
      return { chain: DNAT, words: [...begin, group, ...conditions, "-j", chain] }
    })
  })
}

function comment(text: string): string[] {
  return ["-m", "comment", "--comment", text]
}

/** Returns a label's comment: owner and path of the namespace, by which a later ADD sees if the container exists. */
function labelText(owner: string, netns: string): string {
  const text = `${owner} ${netns}`
  return text.length <= COMMENT_LENGTH && /^[\x20-\x7e]*$/.test(text) ? text : owner
}

/** Returns the owner and the path of the namespace in a label; undefined for any other rule. */
export function readLabel(rule: Rule): { owner: string; netns: string | undefined } | undefined {
  const [owner, ...path] = (targetOf(rule) === undefined && commentOf(rule)?.split(" ")) || []
  return owner ? { owner, netns: path.join(" ") || undefined } : undefined
}

/** Returns the host port of a DNAT rule as text for comparison: "tcp 8080", "tcp 8080 203.0.113.1/32". */
export function hostPortOf(rule: Rule): string | undefined {
  if (targetOf(rule) !== "DNAT") return undefined
  const parts = [wordAfter(rule, "-p"), wordAfter(rule, "--dport"), destinationOf(rule)]
  return parts.filter((part) => part !== undefined).join(" ")
}

/** Returns the target of a DNAT rule: "10.1.0.2:80". */
export function translationOf(rule: Rule): string | undefined {
  return wordAfter(rule, "--to-destination")
}

export function translatedAddress(rule: Rule): Uint8Array | undefined {
  return parseIp((translationOf(rule) ?? "").replace(/^\[?(.*?)\]?:[^:]*$/, "$1"))
}

/** Reports whether a jump to a container's chain is for a port of these rules. */
export function isJumpFor(jump: Rule, rules: readonly Rule[]): boolean {
  const ports = wordAfter(jump, "--dports")?.split(",") ?? []
  return rules.some(
    (rule) => wordAfter(rule, "-p") === wordAfter(jump, "-p") && ports.includes(wordAfter(rule, "--dport") ?? ""),
  )
}

function wordAfter({ words }: Rule, option: string): string | undefined {
  const at = words.indexOf(option)
  return at === -1 ? undefined : words[at + 1]
}
