import type { Json, Source } from "./source.ts"

/** JSON keys whose values change although the rule set does not. */
const volatile = new Set(["handle", "packets", "bytes", "expires", "used"])

/** Returns a copy without handles and counters. Sorts the elements of sets and maps, which have no order. */
function stable(value: unknown, key = ""): unknown {
  if (Array.isArray(value)) {
    const list = value.map((item) => stable(item))
    return key === "elem" || key === "set" ? list.sort(byText) : list
  }
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !volatile.has(name))
      .map(([name, child]) => [name, stable(child, name)]),
  )
}

function byText(a: unknown, b: unknown): number {
  return JSON.stringify(a) < JSON.stringify(b) ? -1 : 1
}

/** Returns a line for each table, chain, rule, set and element, so that a diff names the changed object. */
function nftLines(object: Json): string[] {
  return Object.entries(object).flatMap(([kind, value]) => {
    const { family, table, name, chain, elem, ...rest } = value as Json
    const title = [kind, family, table, chain, name].filter((word) => word !== undefined).join(" ")
    const elements = Array.isArray(elem) ? elem.map((item) => `${title} element ${JSON.stringify(item)}`) : []
    return [Object.keys(rest).length === 0 ? title : `${title} ${JSON.stringify(rest)}`, ...elements]
  })
}

const nftables: Source = {
  command: ["nft", "-j", "list", "ruleset"],
  lines: (stdout) =>
    (JSON.parse(stdout) as { nftables: Json[] }).nftables
      .filter((object) => !("metainfo" in object))
      .flatMap((object) => nftLines(stable(object) as Json)),
}

function iptables(program: string): Source {
  return {
    command: [program],
    optional: true,
    lines: (stdout) =>
      stdout
        .split("\n")
        .filter((line) => line !== "" && !line.startsWith("#"))
        .map((line) => line.replace(/ ?\[\d+:\d+\]/, "")),
  }
}

/** The packet filter's rules, as `nft` and the `iptables` programs print them. */
export const filterSources: Readonly<Record<string, Source>> = {
  nftables,
  iptables: iptables("iptables-save"),
  ip6tables: iptables("ip6tables-save"),
}
