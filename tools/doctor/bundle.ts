import { version } from "../../package.json"
import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import {
  findStat,
  hostName,
  isRegularFile,
  kernelVersion,
  machine,
  readTextFile,
  replaceFile,
} from "../../pkg/libc/mod.ts"
import { isJsonObject, type JsonValue } from "../../pkg/types/mod.ts"
import { attachmentAsJson } from "../ps.ts"
import { inspectPlugin } from "./binaries.ts"
import type { Examination } from "./examine.ts"
import { neededPlugins } from "./plugins.ts"
import { asJson } from "./report.ts"
import { tarOf } from "./tar.ts"

/** Keys whose values must not leave the node. */
const SECRET_KEY = /pass|secret|token|credential|auth|private|apikey|api_key|psk|certificate/i
/** The text in place of a secret. */
const REMOVED = "(removed)"

/** Files of the kernel that tell of a node's network, and hold no secrets. */
const KERNEL_FILES = [
  "/proc/version",
  "/proc/modules",
  "/proc/self/mountinfo",
  "/proc/meminfo",
  "/proc/thread-self/net/dev",
  "/proc/thread-self/net/snmp",
  "/proc/thread-self/net/softnet_stat",
]
const SYSCTLS = [
  "net/ipv4/ip_forward",
  "net/ipv6/conf/all/forwarding",
  "net/ipv4/conf/all/rp_filter",
  "net/bridge/bridge-nf-call-iptables",
  "net/bridge/bridge-nf-call-ip6tables",
  "net/netfilter/nf_conntrack_count",
  "net/netfilter/nf_conntrack_max",
]

/**
 * Writes everything that a maintainer needs as a tar, mode 0600, secrets taken out: a new file, in place of one that has the name. Throws
 * what writing throws, and for a name that is a link, which may be another user's and lead anywhere, a directory or a device.
 */
export async function writeBundle(file: string, examination: Examination): Promise<void> {
  const found = findStat(file, true)
  if (found && !isRegularFile(found)) throw new Error(`Cannot write "${file}": it exists and is no regular file`)
  replaceFile(file, tarOf(bundleFiles(examination), Date.now()), 0o600)
}

/** The files of a bundle: name and content. */
export function bundleFiles(examination: Examination): Map<string, string> {
  const { patient } = examination
  const { node } = patient
  const files = new Map<string, string>()
  const kernel = kernelVersion()
  const json = (name: string, value: unknown) => files.set(name, `${JSON.stringify(value, plain, 2)}\n`)
  json("about.json", {
    tool: version,
    host: hostName(),
    kernel: `${kernel.release} ${kernel.version}`,
    machine: machine(),
    time: new Date(node.readMs).toISOString(),
    places: node.places,
    unread: node.unread,
  })
  json("doctor.json", asJson(examination))
  json("attachments.json", patient.attachments.map(attachmentAsJson))
  json("links.json", node.links)
  json("routes.json", node.routes)
  json(
    "leases.json",
    node.stores.map(({ rangeSets, ...store }) => ({ ...store, rangeSets: rangeSets.map(({ set: _, ...use }) => use) })),
  )
  json("rules.json", { ...node.rules, ...patient.filter })
  json("sysctls.json", Object.fromEntries(SYSCTLS.map((name) => [name, patient.sysctl(name) ?? null])))
  json(
    "plugins.json",
    [...neededPlugins(patient).keys()].map((type) => inspectPlugin(type, node.places.binDirs) ?? { type }),
  )
  for (const { file } of node.networks) files.set(`net.d/${file.slice(file.lastIndexOf("/") + 1)}`, readRedacted(file))
  for (const { network, containerId, ifName, netns, args, capabilityArgs, result, config } of node.cache) {
    const cached = { network, containerId, ifName, netns, args: args.map(redactPair), capabilityArgs, result }
    json(`cache/${network}-${containerId}-${ifName}.json`, redact({ ...cached, config: parsed(config) } as never))
  }
  for (const path of KERNEL_FILES) files.set(path.slice(1), tryRead(path))
  return files
}

/** Counters are `bigint`, and keys of sets are bytes. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return Number(value)
  return value instanceof Uint8Array ? value.toHex() : value
}

function tryRead(path: string): string {
  try {
    return readTextFile(path)
  } catch (error) {
    return `${error}\n`
  }
}

/** A configuration without its secrets; a file that is no JSON only by its length, since where its secrets are is unknown. */
function readRedacted(file: string): string {
  const text = tryRead(file)
  try {
    return `${JSON.stringify(redact(JSON.parse(text)), undefined, 2)}\n`
  } catch {
    return `(no JSON; ${text.length} characters)\n`
  }
}

function parsed(config: Uint8Array): unknown {
  try {
    return JSON.parse(decodeUtf8(config))
  } catch {
    return "(no JSON)"
  }
}

/** The value with the values of keys that sound secret replaced, however deep. */
export function redact(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(redact)
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, SECRET_KEY.test(key) ? REMOVED : redact(each as JsonValue)]),
  )
}

function redactPair([key, value]: readonly [string, string]): [string, string] {
  return [key, SECRET_KEY.test(key) ? REMOVED : value]
}
