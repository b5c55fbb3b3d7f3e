import { type Fields, isCleanup, type KeyDoc, macAddressOrNone, parseConfig, pathOrNone } from "../../pkg/config/mod.ts"
import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import {
  CniError,
  Code,
  formatMac,
  type JsonObject,
  type NetworkConfig,
  parseMac,
  readCniArgs,
} from "../../pkg/types/mod.ts"
import type { LinkValues } from "./link.ts"
import { type SysctlEntry, sysctlPaths } from "./sysctls.ts"

/** The directory for backups, the same as upstream's. It is in memory, because no container survives a reboot. */
const DATA_DIRECTORY = "/run/cni/tuning"

/** The keys that are allowed both at the top and in `args.cni`. */
const settings = {
  sysctl: { kind: "record", of: { kind: "text", expected: "its value as a string" } },
  mac: macAddressOrNone,
  mtu: { kind: "integer", min: 0, max: 2 ** 31 - 1 },
  promisc: { kind: "boolean" },
  allmulti: { kind: "boolean" },
  txQLen: { kind: "integer", min: 0, max: 2 ** 32 - 1 },
} as const satisfies Fields

export const tuningFields = {
  ...settings,
  dataDir: pathOrNone,
  args: { kind: "object", fields: { cni: { kind: "object", fields: settings } } },
  runtimeConfig: { kind: "object", fields: { mac: macAddressOrNone } },
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const tuningKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["sysctl"],
    default: "none",
    meaning: "settings below `net.` and their values as strings, written in this order in the container's namespace",
  },
  { paths: ["mac"], default: "unchanged", meaning: "hardware address, in any of the usual spellings" },
  {
    paths: ["mtu"],
    default: "0: unchanged",
    meaning: "MTU of the interface, and of the host's end of a veth pair unless that harms others: see below",
  },
  { paths: ["promisc"], default: "false: unchanged", meaning: "true enables promiscuous mode" },
  {
    paths: ["allmulti"],
    default: "unchanged",
    meaning: "true and false enable and disable the reception of all multicast frames",
  },
  { paths: ["txQLen"], default: "unchanged", meaning: "length of the transmit queue in packets; 0 is a valid length" },
  {
    paths: ["dataDir"],
    default: "`/run/cni/tuning`",
    meaning: "directory of the backups, preferably one that a reboot empties",
  },
  { paths: ["runtimeConfig.mac"], default: "none", meaning: "hardware address from the runtime, capability `mac`" },
]

export type TuningConfig = ReturnType<typeof parseTuningConfig>

/**
 * Parses the configuration. `args.cni` has precedence over `runtimeConfig`, then `CNI_ARGS`, then the keys at the top.
 * For DEL and GC, ignores invalid values; otherwise throws code 7 that names the key, or code 4 for `CNI_ARGS`.
 */
export function parseTuningConfig(_network: NetworkConfig, { verb, args, raw }: ConfigCall) {
  const lenient = isCleanup(verb)
  const { args: { cni = {} } = {}, runtimeConfig, ...top } = parseConfig(tuningFields, raw, lenient)
  const sysctls = sysctlsOf(top.sysctl, cni.sysctl)
  if (!lenient) for (const { key } of sysctls) sysctlPaths(key, "IFNAME")
  const wantedMac = cni.mac || runtimeConfig?.mac || macOfArgs(args, lenient) || top.mac
  const address = wantedMac ? parseMac(wantedMac) : undefined
  const link: LinkValues = {
    mac: address && formatMac(address),
    // Promiscuous mode is either enabled or left unchanged; the plugin never disables it.
    promisc: (cni.promisc ?? top.promisc) || undefined,
    mtu: (cni.mtu ?? top.mtu) || undefined,
    allmulti: cni.allmulti ?? top.allmulti,
    txQLen: cni.txQLen ?? top.txQLen,
  }
  return { sysctls, link, dataDir: top.dataDir || DATA_DIRECTORY }
}

/** Returns the sysctls in the order in which ADD sets them: as written, those of `args.cni` last. */
function sysctlsOf(top?: Record<string, string>, ofArgs?: Record<string, string>): readonly SysctlEntry[] {
  return [...entries("sysctl", top), ...entries("args.cni.sysctl", ofArgs)]
}

/** Returns the sysctls of an accepted configuration, for programs that inspect a node. Omits invalid values. */
export function readSysctlKeys(raw: JsonObject): { sysctls: readonly SysctlEntry[]; dataDir: string } {
  const { args: { cni = {} } = {}, sysctl, dataDir } = parseConfig(tuningFields, raw, true)
  return { sysctls: sysctlsOf(sysctl, cni.sysctl), dataDir: dataDir || DATA_DIRECTORY }
}

function entries(from: SysctlEntry["from"], sysctl: Record<string, string> = {}): SysctlEntry[] {
  return Object.entries(sysctl).map(([key, value]) => ({ key, value, from }))
}

function macOfArgs(args: string, lenient: boolean): string | undefined {
  try {
    return readCniArgs(args, { MAC: (text) => (text === "" || parseMac(text) ? text : undefined) }).MAC
  } catch (error) {
    if (lenient && error instanceof CniError) return undefined
    throw error
  }
}

/** The paths of the objects in which a duplicate key is refused, because it is unclear which value is meant. */
const paths = [".sysctl", ".args.cni.sysctl"]

/** Matches a token of a JSON document: a string, a bracket, a colon or a comma. */
const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g

/**
 * Refuses a configuration that sets a sysctl twice with the same spelling. Searches the text, because the parsed value
 * keeps only the last of duplicate keys. The text must be valid JSON. Throws code 7.
 */
export function refuseDuplicateSysctls(stdin: Uint8Array, sysctls: readonly { key: string }[]): void {
  const text = decodeUtf8(stdin)
  const duplicate = mayRepeat(text, sysctls) ? duplicateKey(text) : undefined
  if (duplicate === undefined) return
  const key = JSON.stringify(duplicate)
  throw new CniError(Code.InvalidNetworkConfig, `Cannot use "sysctl": duplicated sysctl keys are not allowed: ${key}`)
}

/** The number up to which keys are searched one by one. Each search reads the whole text. */
const fewKeys = 32

/** Reports whether a key may occur twice. This cheap test returns false for nearly all configurations. */
function mayRepeat(text: string, sysctls: readonly { key: string }[]): boolean {
  if (sysctls.length > fewKeys || text.includes("\\")) return true // JSON escapes can spell the same key differently
  for (const { key } of sysctls) if (text.indexOf(`"${key}"`) !== text.lastIndexOf(`"${key}"`)) return true
  return false
}

/** Returns the first key that occurs twice in an object at one of `paths`; undefined if none exists. */
export function duplicateKey(json: string): string | undefined {
  const seen = new Set<string>()
  const open: string[] = [] // the paths of the enclosing objects and lists
  let path = "" // the path of the next value
  let isKey = false
  for (const [text] of json.matchAll(token)) {
    const parent = open.at(-1) ?? ""
    if (text === "{" || text === "[") {
      open.push(text === "[" ? `${path}[]` : path)
      isKey = text === "{"
    } else if (text === "}" || text === "]") {
      open.pop()
      isKey = false
    } else if (text === ",") {
      isKey = !parent.endsWith("[]")
    } else if (text !== ":" && isKey) {
      const key = String(JSON.parse(text))
      isKey = false
      path = `${parent}.${key.toLowerCase()}`
      if (!paths.includes(parent)) continue
      if (seen.has(`${parent} ${key}`)) return key
      seen.add(`${parent} ${key}`)
    }
  }
  return undefined
}
