import { didYouMean, type Fields, invalidConfig, parseConfig, type Schema } from "../pkg/config/mod.ts"
import {
  CniError,
  Code,
  familyOf,
  isJsonObject,
  isLinkLocal,
  type JsonObject,
  parseIp,
  parseJsonObject,
} from "../pkg/types/mod.ts"

/** The agent's configuration, `/etc/cni/agent.json`. */
export interface AgentConfig {
  readonly store: StoreConfig
  /** The node's name; default: `NODE_NAME` of the environment, else the host's name. */
  readonly node?: string
  /** Where the files of pools are written: "/var/lib/cni/pools". */
  readonly poolDir: string
  /** host-local's `dataDir`: "/var/lib/cni/networks". */
  readonly dataDir: string
  /** "/run/cni-agent/agent.sock" */
  readonly socket: string
  /** Address and port of HTTP, on loopback: "127.0.0.1:9817"; "" for none. */
  readonly http: string
  readonly log: "text" | "json"
  /** Addresses of this node to publish, at most one of each family; default: the source addresses of the default routes. */
  readonly nodeAddresses?: readonly string[]
}

/** TLS of a connection; all are paths, read again when a file has changed. */
export interface TlsConfig {
  readonly ca?: string
  readonly certificate?: string
  readonly key?: string
}

export type StoreConfig =
  | { readonly type: "directory"; readonly path: string }
  | {
      readonly type: "etcd"
      /** "https://10.0.0.1:2379" */
      readonly endpoints: readonly string[]
      /** All keys begin with it; default "/cni/". */
      readonly prefix?: string
      readonly tls?: TlsConfig
      readonly username?: string
      /** The file with the password. */
      readonly passwordFile?: string
    }
  | {
      readonly type: "kubernetes"
      /** Path of a kubeconfig; without it the service account of the pod. */
      readonly kubeconfig?: string
      /** "podCIDRs": copy `Node.spec.podCIDRs`, without pools of ours; `network` is the CNI network. */
      readonly source?: "pools" | "podCIDRs"
      readonly network?: string
    }

/** Where the configuration is, unless the command line says otherwise. */
export const defaultConfigPath = "/etc/cni/agent.json"

const path = {
  kind: "text",
  check: (text: string) => (/^\/[^\0]*$/.test(text) ? text : undefined),
  form: "an absolute path",
} as const
const required = { required: true } as const
const texts = { kind: "list", of: { kind: "text", expected: "a text" } } as const

const agentFields = {
  store: { kind: "record", of: { kind: "text" }, required: true }, // read by `parseStore`
  node: {
    kind: "text",
    check: (text: string) => (/^[A-Za-z0-9]([-.A-Za-z0-9_]{0,251}[A-Za-z0-9])?$/.test(text) ? text : undefined),
    form: "the name of a node: letters, digits, '-', '.' and '_', 253 at most",
  },
  poolDir: { ...path, default: "/var/lib/cni/pools" },
  dataDir: { ...path, default: "/var/lib/cni/networks" },
  socket: { ...path, default: "/run/cni-agent/agent.sock" },
  http: {
    kind: "text",
    check: (text: string) => (text === "" ? text : readEndpoint(text)),
    form: 'ADDRESS:PORT such as "127.0.0.1:9817", or "" for none',
    default: "127.0.0.1:9817",
  },
  log: { kind: "choice", of: ["text", "json"], expected: '"text" or "json"', default: "text" },
  nodeAddresses: texts,
} as const satisfies Fields

const tls = { kind: "object", fields: { ca: path, certificate: path, key: path } } as const

const storeFields = {
  directory: { path: { ...path, ...required } },
  etcd: {
    endpoints: { ...texts, ...required },
    prefix: { kind: "text", check: (text: string) => text || undefined, form: "the beginning of keys, not empty" },
    tls,
    username: { kind: "text" },
    passwordFile: path,
  },
  kubernetes: {
    kubeconfig: path,
    source: { kind: "choice", of: ["pools", "podCIDRs"], expected: '"pools" or "podCIDRs"' },
    network: { kind: "text" },
  },
} as const satisfies Record<string, Fields>

/**
 * Reads the text of agent.json. A key that is not known is an error, since a key with a slip would silently count as absent.
 * Throws code 6 for what is not JSON, and code 7 that names the key.
 */
export function parseAgentConfig(text: string): AgentConfig {
  const raw = parseJsonObject(text, "agent's configuration")
  requireKnown(agentFields, raw, "")
  const store = parseStore(raw.store)
  const read = parseConfig(agentFields, { ...raw, store: {} }, false)
  const { nodeAddresses } = read
  if (nodeAddresses) requireNodeAddresses(nodeAddresses)
  return { ...read, store } as AgentConfig
}

function parseStore(raw: JsonObject[string] | undefined): StoreConfig {
  const expected = 'an object with "type"'
  if (raw === undefined || !isJsonObject(raw)) throw invalidConfig("store", expected, raw)
  const { type, ...keys } = raw
  const types = Object.keys(storeFields)
  if (typeof type !== "string" || !Object.hasOwn(storeFields, type))
    throw invalidConfig("store.type", types.map((one) => `"${one}"`).join(", "), type)
  const fields: Fields = storeFields[type as keyof typeof storeFields]
  requireKnown(fields, keys, "store.")
  if (isJsonObject(keys.tls ?? null)) requireKnown(tls.fields, keys.tls as JsonObject, "store.tls.")
  const wanted = Object.keys(fields).filter((key) => fields[key]?.required)
  const whole: Schema = {
    kind: "object",
    fields,
    expected: `an object with ${wanted.map((key) => `"${key}"`).join(", ")}`,
  }
  const read = parseConfig<Record<"store", never>>({ store: whole as never }, { store: keys })
  const store = { type, ...(read.store as object) } as StoreConfig
  if (store.type === "etcd") requireEtcd(store)
  if (store.type === "kubernetes" && store.source === "podCIDRs" && !store.network)
    throw invalidConfig("store.network", 'the CNI network whose containers get addresses of "podCIDRs"', undefined)
  return store
}

function requireEtcd({ endpoints, tls: files, username, passwordFile }: Extract<StoreConfig, { type: "etcd" }>): void {
  if (endpoints.length === 0) throw invalidConfig("store.endpoints", "at least one URL", endpoints)
  for (const [at, text] of endpoints.entries()) {
    if (!/^https?:\/\/[^/?#@]+\/?$/.test(text) || !URL.canParse(text))
      throw invalidConfig(`store.endpoints[${at}]`, 'a URL such as "https://10.0.0.1:2379"', text)
  }
  if ((username === undefined) !== (passwordFile === undefined))
    throw invalidConfig(
      username === undefined ? "store.username" : "store.passwordFile",
      '"username" and "passwordFile" together',
      undefined,
    )
  if ((files?.certificate === undefined) !== (files?.key === undefined))
    throw invalidConfig(
      files?.certificate === undefined ? "store.tls.certificate" : "store.tls.key",
      '"certificate" and "key" together',
      undefined,
    )
}

/** Throws for the first key that is not in the table. */
function requireKnown(fields: Fields, raw: JsonObject, where: string): void {
  const known = Object.keys(fields)
  for (const key of Object.keys(raw)) {
    if (known.includes(key)) continue
    const near = didYouMean(key, known)
    const hint = near === undefined ? `known here: ${known.toSorted().join(", ")}` : `did you mean "${where}${near}"?`
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use "${where}${key}": unknown key`, { details: hint })
  }
}

/** Other nodes reach them: one of each family at most. */
function requireNodeAddresses(addresses: readonly string[]): void {
  const families = new Set<number>()
  for (const [at, text] of addresses.entries()) {
    const key = `nodeAddresses[${at}]`
    const ip = parseIp(text)
    const isUnusable = ip === undefined || isLinkLocal(ip) || isNoUnicast(ip)
    if (isUnusable) throw invalidConfig(key, "an address by which other nodes reach this one", text)
    if (families.has(familyOf(ip))) throw invalidConfig(key, "one address of each family", text)
    families.add(familyOf(ip))
  }
}

/** Unspecified, loopback, multicast, and what is above. */
function isNoUnicast(ip: Uint8Array): boolean {
  const [first = 0] = ip
  if (ip.length === 4) return first === 0 || first === 127 || first >= 224
  return first === 0xff || ip.subarray(0, 15).every((byte) => byte === 0)
}

/** Reads "127.0.0.1:9817" or "[::1]:9817"; undefined for anything else. */
export function readEndpoint(text: string): { readonly hostname: string; readonly port: number } | undefined {
  const [, bracketed, plain, digits = ""] = /^(?:\[([^\]]+)\]|([^:]+)):([0-9]{1,5})$/.exec(text) ?? []
  const hostname = bracketed ?? plain
  const port = Number(digits)
  if (hostname === undefined || port < 1 || port > 65535) return undefined
  const ip = parseIp(hostname)
  return ip !== undefined && (ip.length === 16) === (bracketed !== undefined) ? { hostname, port } : undefined
}
