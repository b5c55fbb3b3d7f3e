import type { Fault, Graph } from "./model.ts"
import { countersText, faultLines } from "./text.ts"

/** Returns the picture in Graphviz's DOT language, <https://graphviz.org/doc/info/lang.html>. */
export function dotOf({ uplinks, segments, faults }: Graph): string {
  const lines = ["digraph cni {", "  rankdir=LR", '  node [shape=box, fontname="sans-serif", fontsize=10]']
  if (faults !== undefined) lines.push(`  node_faults [label="this node"${red(faults)}]`)
  for (const { id, name, addresses, routes, kind, faults } of uplinks) {
    lines.push(`  ${quoted(id)} [label=${quoted([name, ...addresses, ...routes, kind].join("\n"))}${red(faults)}]`)
  }
  for (const segment of segments) {
    const { id, title, caption, isThere, addresses, masquerades, ports, members, uplink = uplinks[0]?.id } = segment
    lines.push(
      `  ${quoted(id)} [label=${quoted([title, isThere ? caption : `${caption}, not there`, ...addresses].join("\n"))}, style=${isThere ? "bold" : "dashed"}${red(segment.faults)}]`,
    )
    const label = [...(masquerades ? ["masquerade"] : []), ...(ports > 0 ? [`${ports} ports`] : [])].join(", ")
    if (uplink !== undefined) lines.push(`  ${quoted(uplink)} -> ${quoted(id)} [dir=both, label=${quoted(label)}]`)
    for (const one of members) {
      const said = [
        one.title,
        one.addresses.join(" "),
        one.ports.join(" "),
        one.counters ? countersText(one.counters) : "",
        one.fault ?? "",
      ]
      const style = one.orphan.length > 0 || one.fault ? ", style=dashed" : ""
      lines.push(
        `  ${quoted(one.id)} [label=${quoted(said.filter((line) => line !== "").join("\n"))}${style}${red(one.faults)}]`,
      )
      if (one.fault === undefined)
        lines.push(`  ${quoted(id)} -> ${quoted(one.id)} [dir=none, label=${quoted(one.hostEnd ?? one.ifName)}]`)
    }
  }
  return `${lines.join("\n")}\n}\n`
}

/** Returns the attributes of a faulty object: red, with doctor's findings as the tooltip. */
function red(faults: readonly Fault[] | undefined): string {
  return faults === undefined ? "" : `, color=red, tooltip=${quoted(faultLines(faults).join("\n"))}`
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, "\\$&").replaceAll("\n", "\\n")}"`
}
