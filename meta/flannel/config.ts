import { type Fields, invalidConfig, isCleanup, type KeyDoc, parseConfig, pathOrNone } from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import {
  CniError,
  Code,
  foldKeys,
  isJsonObject,
  type JsonObject,
  member,
  type NetworkConfig,
} from "../../pkg/types/mod.ts"

const path = {
  ...pathOrNone,
  expected: "an absolute path",
  check: (text: string) => (text === "" || text.startsWith("/") ? pathOrNone.check(text) : undefined),
  form: "an absolute path",
  pattern: "^$|^/[^\\u0000]*$",
} as const

/** The keys of the plugin's configuration, without those for the delegate. */
export const flannelFields = { subnetFile: path, dataDir: path } as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const flannelKeyDocs: readonly KeyDoc[] = [
  { paths: ["subnetFile"], default: "`/run/flannel/subnet.env`", meaning: "flanneld's file with the node's subnet" },
  {
    paths: ["dataDir"],
    default: "`/var/lib/cni/flannel`",
    meaning: "directory of the delegates' configurations, which are kept until DEL",
  },
  {
    paths: ["delegate"],
    default: "`{}`",
    meaning: "keys of the delegate's configuration; `type` names the plugin. `name` and `ipam` are not allowed",
  },
  {
    paths: ["ipam"],
    default: "`{}`",
    meaning: "keys of the delegate's `ipam`; `routes` precede the routes to the networks, `ranges` are replaced",
  },
  { paths: ["runtimeConfig"], default: "none", meaning: "passed to the delegate unchanged" },
]

/** The delegate's keys that flannel sets unless `delegate` contains them. */
const delegateKeys = ["type", "name", "ipam", "ipMasq", "mtu", "isGateway"]

export type FlannelConfig = ReturnType<typeof parseFlannelConfig>

/** Parses the configuration. For DEL and GC, ignores invalid values; otherwise throws code 7 that names the key. */
export function parseFlannelConfig({ name, ipam = {}, runtimeConfig }: NetworkConfig, { verb, raw }: ConfigCall) {
  const lenient = isCleanup(verb)
  const { subnetFile, dataDir } = parseConfig(flannelFields, raw, lenient)
  const version = member(raw, "cniVersion")
  return {
    /** The network's version, for the delegate; undefined if the configuration has none. */
    cniVersion: typeof version === "string" && version !== "" ? version : undefined,
    name,
    subnetFile: subnetFile || "/run/flannel/subnet.env",
    dataDir: dataDir || "/var/lib/cni/flannel",
    /** The keys that are copied to the delegate's configuration. */
    delegate: lenient ? tryReadDelegate(raw) : readDelegate(raw),
    ipam,
    runtimeConfig,
  }
}

function readDelegate(raw: JsonObject): JsonObject {
  const written = member(raw, "delegate")
  if (written === undefined) return {}
  if (!isJsonObject(written)) throw invalidConfig("delegate", "an object", written)
  const delegate = foldKeys(written, delegateKeys)
  const { type } = delegate
  if (type !== undefined && (typeof type !== "string" || type === ""))
    throw invalidConfig("delegate.type", "the name of a plugin", type)
  if (type === "flannel")
    throw new CniError(Code.InvalidNetworkConfig, 'Cannot delegate to "flannel": a plugin cannot delegate to itself')
  for (const key of ["name", "ipam"]) {
    if (key in delegate)
      throw new CniError(Code.InvalidNetworkConfig, `Cannot use "delegate.${key}": it is set by flannel`)
  }
  return delegate
}

function tryReadDelegate(raw: JsonObject): JsonObject {
  try {
    return readDelegate(raw)
  } catch (error) {
    if (!(error instanceof CniError)) throw error
    return {}
  }
}
