import { version } from "../../package.json"
import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { hostName, kernelVersion, machine, readTextFile } from "../../pkg/libc/mod.ts"
import { attachmentAsJson } from "../ps.ts"
import { redact, redactMember, redactText, writePrivateFile } from "../secrets.ts"
import { inspectPlugin } from "./binaries.ts"
import type { Examination } from "./examine.ts"
import { neededPlugins } from "./plugins.ts"
import { asJson } from "./report.ts"
import { tarOf } from "./tar.ts"

/** Kernel files that describe the node's network and contain no secrets. */
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

/** Writes a tar archive without secrets, for a maintainer. Throws the errors of `writePrivateFile`. */
export async function writeBundle(file: string, examination: Examination): Promise<void> {
  writePrivateFile(file, tarOf(bundleFiles(examination), Date.now()))
}

export function bundleFiles(examination: Examination): Map<string, string> {
  const { input } = examination
  const { node } = input
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
  json("attachments.json", input.attachments.map(attachmentAsJson))
  json("links.json", node.links)
  json("routes.json", node.routes)
  json(
    "leases.json",
    node.stores.map(({ rangeSets, ...store }) => ({ ...store, rangeSets: rangeSets.map(({ set: _, ...use }) => use) })),
  )
  json("rules.json", { ...node.rules, ...input.filter })
  json("sysctls.json", Object.fromEntries(SYSCTLS.map((name) => [name, input.sysctl(name) ?? null])))
  json(
    "plugins.json",
    [...neededPlugins(input).keys()].map((type) => inspectPlugin(type, node.places.binDirs) ?? { type }),
  )
  for (const { file } of node.networks) files.set(`net.d/${file.slice(file.lastIndexOf("/") + 1)}`, readRedacted(file))
  for (const { network, containerId, ifName, netns, args, capabilityArgs, result, config } of node.cache) {
    const cached = {
      network,
      containerId,
      ifName,
      netns,
      args: args.map(([key, each]) => [key, redactMember(key, each)]),
      capabilityArgs,
      result,
    }
    json(`cache/${network}-${containerId}-${ifName}.json`, redact({ ...cached, config: parsed(config) } as never))
  }
  for (const path of KERNEL_FILES) files.set(path.slice(1), redactText(tryRead(path)))
  return files
}

/**
 * Converts a value for JSON: a counter (`bigint`) to a number, and the key of a set (bytes) to hexadecimal text.
 * Removes secrets from text, because it may quote a URL.
 */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return Number(value)
  if (typeof value === "string") return redactText(value)
  return value instanceof Uint8Array ? value.toHex() : value
}

function tryRead(path: string): string {
  try {
    return readTextFile(path)
  } catch (error) {
    return `${error}\n`
  }
}

/** Returns a configuration without secrets, or only the length of a file that is not JSON. */
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
