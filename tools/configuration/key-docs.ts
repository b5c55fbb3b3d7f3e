import type { KeyDoc } from "../../pkg/config/mod.ts"

/** Descriptions of the specification's keys. Pages of plugins do not repeat them. */
const ofSpecification: Readonly<Record<string, string>> = {
  cniVersion: "the version of the CNI specification of requests and results",
  cniVersions: "other supported versions: the runtime uses the highest version that it and all plugins support",
  name: "the name of the network, unique on this node: letters, digits, `_`, `.` and `-`",
  disableCheck: "the runtime does not call CHECK for this network",
  disableGC: "the runtime does not call GC for this network",
  loadOnlyInlinedPlugins: "the runtime does not add files from the directory with the network's name to `plugins`",
  plugins: "the chain: plugins that run in order, each with the result of the previous one",
  type: "the plugin: the name of its executable",
  capabilities: "keys that the runtime may pass in `runtimeConfig`: name and true",
  runtimeConfig: "the values that the runtime passes for the capabilities; not for configuration files",
  ipam: "the addresses of the container's interface",
  "ipam.type": "the IPAM plugin",
  dns: "name resolution, for the result",
  "dns.nameservers": "addresses of name servers",
  "dns.domain": "the local domain",
  "dns.search": "search domains for short names",
  "dns.options": "options of the resolver",
  args: "further arguments of the runtime",
  "args.cni": "the arguments that the CNI conventions define",
  "routes[].dst": "the destination, an address with prefix length",
  "routes[].gw": "the gateway; by default that of the address",
  "routes[].mtu": "the MTU along the route",
  "routes[].advmss": "the maximal segment size that TCP announces",
  "routes[].priority": "the metric: the lowest is preferred",
  "routes[].table": "the number of the routing table",
  "routes[].scope": "the scope, the kernel's number: 0 global, 253 link, 254 host",
}

/** Returns a key's description by the plugin's documentation or the specification, or undefined for neither. */
export function describeKey(docs: readonly KeyDoc[], path: string): string | undefined {
  const doc = docs.find(({ paths }) => paths.includes(path))
  const suffix = /(?:^|\.)((?:dns|routes\[\])\.\w+)$/.exec(path)?.[1] ?? path
  const meaning = doc?.meaning ?? ofSpecification[path] ?? ofSpecification[suffix]
  return meaning === undefined ? undefined : plain(meaning)
}

export function plain(markdown: string): string {
  return markdown
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/\*\*/g, "")
    .replaceAll("`", "")
}

export function firstTable(markdown: string): string[][] {
  const lines = markdown.split("\n")
  const first = lines.findIndex((line) => line.startsWith("|"))
  const rows = first < 0 ? [] : lines.slice(first)
  const end = rows.findIndex((line) => !line.startsWith("|"))
  return rows.slice(0, end < 0 ? undefined : end).map(cellsOf)
}

/** Returns the cells of a row in a Markdown table. An escaped vertical bar is part of a cell. */
export function cellsOf(line: string): string[] {
  return line
    .replace(/^\||\|\s*$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"))
}
