import {
  type Fields,
  type Infer,
  invalidConfig,
  isCleanup,
  type KeyDoc,
  off,
  parseConfig,
} from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import {
  AF_INET,
  AF_INET6,
  CniError,
  Code,
  type Family,
  familyOf,
  type JsonObject,
  member,
  type NetworkConfig,
  parseIp,
} from "../../pkg/types/mod.ts"
import { families, type Mapping, printHostPort, protocols } from "./mapping.ts"

export const backends = ["nftables", "iptables"] as const

export type Backend = (typeof backends)[number]

const conditions = {
  kind: "list",
  of: {
    kind: "text",
    expected: "a part of a rule",
    check: checkConditionWord,
    form: "a part of a rule without line ends and semicolons",
    pattern: "^[^;\\r\\n\\u0000]*$",
  },
  default: [],
} as const

const port = { kind: "integer", min: 1, max: 65535, required: true } as const
const mappingFields = {
  hostPort: port,
  containerPort: port,
  protocol: { kind: "choice", of: protocols, ignoreCase: true, expected: "tcp, udp or sctp", required: true },
  hostIP: {
    kind: "text",
    expected: "an IP address",
    check: checkHostIp,
    form: "an IP address such as 192.0.2.1 or 2001:db8::1",
  },
} as const satisfies Fields
const mapping = { kind: "object", fields: mappingFields, expected: "hostPort, containerPort and protocol" } as const

const runtimeFields = {
  runtimeConfig: { kind: "object", fields: { portMappings: { kind: "list", of: mapping } } },
} as const satisfies Fields

export const portmapFields = {
  backend: { kind: "choice", of: backends, expected: '"nftables" or "iptables"' },
  snat: { kind: "boolean", default: true },
  masqAll: off,
  markMasqBit: { kind: "integer", min: 0, max: 31 },
  externalSetMarkChain: {
    kind: "text",
    expected: "the name of a chain",
    check: (text) => (/^[!-~]{0,28}$/.test(text) ? text : undefined),
    form: "the name of a chain of at most 28 characters, without blanks",
    pattern: "^[!-~]{0,28}$",
  },
  conditionsV4: conditions,
  conditionsV6: conditions,
  ...runtimeFields,
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const portmapKeyDocs: readonly KeyDoc[] = [
  {
    keys: "`runtimeConfig.portMappings[]`",
    paths: ["runtimeConfig.portMappings"],
    default: "none",
    meaning:
      "`hostPort` and `containerPort` from 1 to 65535, `protocol` tcp, udp or sctp, `hostIP` for a mapping of one address only",
  },
  { paths: ["backend"], default: "see below", meaning: "`nftables` or `iptables`" },
  {
    paths: ["snat"],
    default: "true",
    meaning:
      "flows from the container itself, its own network and 127.0.0.0/8 get the host's address as source, so that answers return",
  },
  { paths: ["masqAll"], default: "false", meaning: "all flows get the host's address as source" },
  {
    paths: ["conditionsV4", "conditionsV6"],
    default: "none",
    meaning:
      "additional conditions for packets, in the syntax of `nft`, or of `iptables` if the first begins with `-` or `!`",
  },
  { paths: ["markMasqBit"], default: "13", meaning: "iptables: the bit that marks packets for the masquerade" },
  {
    paths: ["externalSetMarkChain"],
    default: "none",
    meaning: "iptables: an existing chain that marks these packets instead; not together with `markMasqBit`",
  },
]

export type PortmapConfig = ReturnType<typeof parsePortmapConfig>

/** Parses the configuration. For DEL and GC, ignores invalid values; otherwise throws code 7 that names the key. */
export function parsePortmapConfig(_network: NetworkConfig, { verb, raw }: ConfigCall) {
  const lenient = isCleanup(verb)
  const read = parseConfig(portmapFields, raw, lenient)
  if (!lenient && read.externalSetMarkChain && read.markMasqBit !== undefined) {
    throw invalidConfig("markMasqBit", "cannot be combined with externalSetMarkChain", read.markMasqBit)
  }
  const isUnreadable = read.runtimeConfig === undefined && (member(raw, "runtimeConfig") ?? null) !== null
  const portMappings: readonly Mapping[] = (read.runtimeConfig?.portMappings ?? []).map(readMapping)
  if (!lenient) refuseContradictions(portMappings)
  return {
    /** Undefined if the mappings are invalid in a call of DEL or GC. */
    portMappings: isUnreadable ? undefined : portMappings,
    /** Undefined means nftables, or iptables if the kernel or kube-proxy requires it. */
    backend: askedBackend(read, lenient),
    snat: read.snat,
    masqAll: read.masqAll,
    /** The mark bit that the iptables rules set on packets to masquerade. */
    markMasqBit: read.markMasqBit ?? 13,
    /** The chain of iptables that sets the mark instead of our own chain. */
    externalSetMarkChain: read.externalSetMarkChain || undefined,
    /** Additional conditions for packets, as parts of a rule in the syntax of the backend's program. */
    conditions: {
      [AF_INET]: wordsOf("conditionsV4", read.conditionsV4, lenient),
      [AF_INET6]: wordsOf("conditionsV6", read.conditionsV6, lenient),
    } as Readonly<Record<Family, readonly string[]>>,
  }
}

/** Returns the configuration with the port mappings of one attachment. Throws code 7 that names the key. */
export function withPortMappings(config: PortmapConfig, runtimeConfig: JsonObject): PortmapConfig {
  const read = parseConfig(runtimeFields, { runtimeConfig })
  const portMappings = (read.runtimeConfig?.portMappings ?? []).map(readMapping)
  refuseContradictions(portMappings)
  return { ...config, portMappings }
}

/** Refuses line ends and semicolons, which begin a new `nft` command, and NUL, which no program's argument contains. */
function checkConditionWord(text: string): string | undefined {
  return /[\n\r\0;]/.test(text) ? undefined : text
}

/** Checks the address in `hostIP`. An empty text means no address, as in upstream. */
function checkHostIp(text: string): unknown {
  return text === "" ? text : parseIp(text)
}

function readMapping({ hostPort, containerPort, protocol, hostIP = "" }: Infer<typeof mappingFields>): Mapping {
  const hostIp = parseIp(hostIP)
  const isEvery = hostIp?.every((byte) => byte === 0)
  return {
    protocol,
    hostPort,
    containerPort,
    family: hostIp && familyOf(hostIp),
    hostIp: isEvery ? undefined : hostIp,
  }
}

/** Throws if two mappings send the same host port to different targets. */
function refuseContradictions(mappings: readonly Mapping[]): void {
  if (mappings.length < 2) return
  const seen = new Map<string, number>()
  for (const { family, containerPort, ...end } of mappings) {
    const port = printHostPort(end)
    for (const each of family ? [family] : families) {
      const name = `${each} ${port}`
      const other = seen.get(name) ?? containerPort
      seen.set(name, containerPort)
      if (other === containerPort) continue
      const ports = `container ports ${other} and ${containerPort}`
      throw new CniError(Code.InvalidNetworkConfig, `Cannot map host port ${port} to ${ports} at once`)
    }
  }
}

/** Returns a rule's words; none if the first word is empty. Throws code 7 if a later word is empty. */
function wordsOf(key: string, words: readonly string[], lenient: boolean): readonly string[] {
  if (words[0] === "") return []
  const empty = words.indexOf("")
  if (empty !== -1 && !lenient) throw invalidConfig(`${key}[${empty}]`, "a part of a rule", "")
  return words
}

/**
 * Returns the requested backend: `backend`, or the only one that supports the keys. Throws code 7 for a contradiction.
 */
function askedBackend(read: Infer<typeof portmapFields>, lenient: boolean): Backend | undefined {
  const options = { iptables: [] as string[], nftables: [] as string[] }
  if (read.externalSetMarkChain) options.iptables.push("externalSetMarkChain")
  for (const key of ["conditionsV4", "conditionsV6"] as const) {
    const [first = ""] = read[key]
    if (first !== "") options[/^[-!]/.test(first) ? "iptables" : "nftables"].push(key)
  }
  const asked = read.backend ?? backends.find((backend) => options[backend].length > 0)
  const other = asked === "iptables" ? "nftables" : "iptables"
  if (!asked || lenient || options[other].length === 0) return asked
  throw new CniError(
    Code.InvalidNetworkConfig,
    `Cannot use ${options[other].map((key) => `"${key}"`).join(", ")}: only ${other} supports this, but the backend is ${asked}`,
    {
      details: read.backend
        ? `"backend" selects ${asked}`
        : `only ${asked} supports ${options[asked].map((key) => `"${key}"`).join(" and ")}`,
    },
  )
}
