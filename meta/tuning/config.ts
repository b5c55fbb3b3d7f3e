import { type Fields, parseConfig } from "../../pkg/config/mod.ts"
import type { Verb } from "../../pkg/skel/mod.ts"
import { CniError, formatMac, type JsonObject, type NetworkConfig, parseMac, readCniArgs } from "../../pkg/types/mod.ts"
import type { LinkValues } from "./link.ts"
import { sysctlPaths } from "./sysctl-names.ts"

/** Where upstream keeps its backups, in memory: they are worth nothing after a reboot. */
const DATA_DIRECTORY = "/run/cni/tuning"

/** A hardware address; "" is none, as for upstream. */
const mac = {
  kind: "text",
  expected: "a hardware address",
  check: (text: string) => (text === "" ? text : parseMac(text)),
  form: "a hardware address such as 0a:58:0a:01:02:03",
} as const

/** What may stand at the top and in `args.cni`. */
const settings = {
  sysctl: { kind: "record", of: { kind: "text", expected: "its value as text" } },
  mac,
  mtu: { kind: "integer", min: 0, max: 2 ** 31 - 1 },
  promisc: { kind: "boolean" },
  allmulti: { kind: "boolean" },
  txQLen: { kind: "integer", min: 0, max: 2 ** 32 - 1 },
} as const satisfies Fields

const schema = {
  ...settings,
  dataDir: { kind: "text", expected: "a directory" },
  args: { kind: "object", fields: { cni: { kind: "object", fields: settings } } },
  runtimeConfig: { kind: "object", fields: { mac } },
} as const satisfies Fields

/** One sysctl as configured. */
export interface SysctlEntry {
  /** As it was written, "IFNAME" included. */
  key: string
  value: string
  /** What stands in `args.cni` wins over what stands at the top. */
  from: "sysctl" | "args.cni.sysctl"
}

/** The configuration, checked. */
export interface TuningConfig {
  /** In the order in which they are set: as written, those of `args.cni` last. */
  sysctls: readonly SysctlEntry[]
  /** What is to be set on the link. `promisc` is true or absent: the plugin does not switch it off. */
  link: LinkValues
  /** The directory of the backups. */
  dataDir: string
}

/**
 * Reads the configuration. `args.cni` wins over `runtimeConfig`, that over `CNI_ARGS`, and that over what stands at the
 * top. For DEL and GC what is wrong counts as absent. Throws code 7 that names the key, or code 4 for `CNI_ARGS`.
 */
export function parseTuningConfig(
  _network: NetworkConfig,
  { verb, args, raw }: { verb: Verb; args: string; raw: JsonObject },
): TuningConfig {
  const lenient = verb === "DEL" || verb === "GC"
  const { args: { cni = {} } = {}, runtimeConfig, ...top } = parseConfig(schema, raw, lenient)
  const sysctls = [...entries("sysctl", top.sysctl), ...entries("args.cni.sysctl", cni.sysctl)]
  if (!lenient) for (const { key } of sysctls) sysctlPaths(key, "IFNAME")
  const wantedMac = cni.mac || runtimeConfig?.mac || macOfArgs(args, lenient) || top.mac
  const address = wantedMac ? parseMac(wantedMac) : undefined
  return {
    sysctls,
    link: {
      mac: address && formatMac(address),
      promisc: (cni.promisc ?? top.promisc) || undefined,
      mtu: (cni.mtu ?? top.mtu) || undefined,
      allmulti: cni.allmulti ?? top.allmulti,
      txQLen: cni.txQLen ?? top.txQLen,
    },
    dataDir: top.dataDir || DATA_DIRECTORY,
  }
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
