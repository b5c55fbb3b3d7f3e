import { type Fields, isCleanup, macAddressOrNone, parseConfig, pathOrNone } from "../../pkg/config/mod.ts"
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

/** Where upstream keeps its backups, in memory: they are worth nothing after a reboot. */
const DATA_DIRECTORY = "/run/cni/tuning"

/** What may stand at the top and in `args.cni`. */
const settings = {
  sysctl: { kind: "record", of: { kind: "text", expected: "its value as text" } },
  mac: macAddressOrNone,
  mtu: { kind: "integer", min: 0, max: 2 ** 31 - 1 },
  promisc: { kind: "boolean" },
  allmulti: { kind: "boolean" },
  txQLen: { kind: "integer", min: 0, max: 2 ** 32 - 1 },
} as const satisfies Fields

/** The keys of its configuration. */
export const tuningFields = {
  ...settings,
  dataDir: pathOrNone,
  args: { kind: "object", fields: { cni: { kind: "object", fields: settings } } },
  runtimeConfig: { kind: "object", fields: { mac: macAddressOrNone } },
} as const satisfies Fields

/** The configuration, checked. */
export type TuningConfig = ReturnType<typeof parseTuningConfig>

/**
 * Reads the configuration. `args.cni` wins over `runtimeConfig`, that over `CNI_ARGS`, and that over what stands at the
 * top. For DEL and GC what is wrong counts as absent. Throws code 7 that names the key, or code 4 for `CNI_ARGS`.
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
    // It is true or absent: the plugin does not switch it off.
    promisc: (cni.promisc ?? top.promisc) || undefined,
    mtu: (cni.mtu ?? top.mtu) || undefined,
    allmulti: cni.allmulti ?? top.allmulti,
    txQLen: cni.txQLen ?? top.txQLen,
  }
  return { sysctls, link, dataDir: top.dataDir || DATA_DIRECTORY }
}

/** In the order in which they are set: as written, those of `args.cni` last. */
function sysctlsOf(top?: Record<string, string>, ofArgs?: Record<string, string>): readonly SysctlEntry[] {
  return [...entries("sysctl", top), ...entries("args.cni.sysctl", ofArgs)]
}

/** The sysctls of a configuration that was accepted once, for readers of the node; what is wrong counts as absent. */
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

/** The objects in which a key must not come twice: there is no telling which of the values is meant. */
const paths = [".sysctl", ".args.cni.sysctl"]

/** What can be in the text of a JSON document besides numbers, words and white space. */
const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g

/**
 * Refuses a configuration that has one of these sysctls twice, spelled alike. It looks at the text, since the parsed value
 * has only the last one. The text has been parsed before, so it is JSON. Throws code 7.
 */
export function refuseDuplicateSysctls(stdin: Uint8Array, sysctls: readonly { key: string }[]): void {
  const text = decodeUtf8(stdin)
  const duplicate = mayRepeat(text, sysctls) ? duplicateKey(text) : undefined
  if (duplicate === undefined) return
  const key = JSON.stringify(duplicate)
  throw new CniError(Code.InvalidNetworkConfig, `Cannot use "sysctl": duplicated sysctl keys are not allowed: ${key}`)
}

/** How many keys are looked for one by one: each takes the time of the whole text. */
const fewKeys = 32

/** Whether a key may come twice: a look that is cheap, and nearly always enough. */
function mayRepeat(text: string, sysctls: readonly { key: string }[]): boolean {
  if (sysctls.length > fewKeys || text.includes("\\")) return true // a key may be spelled in several ways
  for (const { key } of sysctls) if (text.indexOf(`"${key}"`) !== text.lastIndexOf(`"${key}"`)) return true
  return false
}

/** The first key that comes twice in one of `paths`; undefined when there is none. */
export function duplicateKey(json: string): string | undefined {
  const seen = new Set<string>()
  const open: string[] = [] // the paths of the objects and lists around
  let path = "" // of the value to come
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
