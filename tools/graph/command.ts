import { writeFileSync } from "node:fs"
import { hostname } from "node:os"
import { type Command, nodeFlags, placesOf, text, UsageError, word } from "../command.ts"
import { attachmentsOf, readNode } from "../node/mod.ts"
import { dotOf } from "./dot.ts"
import { htmlOf } from "./html.ts"
import { type Graph, graphOf } from "./model.ts"
import { svgOf, type Theme } from "./svg.ts"

const themes = ["auto", "light", "dark"] as const
const formats = ["svg", "html", "dot", "json"] as const

/** `cni graph` */
export const graph: Command = {
  summary: "Draw this node's container networks",
  words: ["[NETWORK]"],
  flags: {
    format: {
      type: "string",
      value: "FORMAT",
      help: "svg, html (one page that needs no network), dot or json (default svg)",
    },
    output: { type: "string", short: "o", value: "FILE", help: "write it there (default: stdout)" },
    theme: {
      type: "string",
      value: "THEME",
      help: "light, dark or auto: what the viewer's system prefers (default auto)",
    },
    ...nodeFlags,
  },
  help: `Bridges, containers, addresses, published ports, masquerade, routes, the parents of macvlan, ipvlan and vlan, and the kernel's
packet counters. Pointing at a box shows the configuration that made it. It only looks.

Examples:
  cni graph --output node.svg
  cni graph pods --format html --output node.html
  cni graph --format dot | dot -Tpdf -o node.pdf`,
  async run(args, terminal) {
    const theme = oneOf(themes, text(args, "theme") ?? "auto", "--theme")
    const format = args.flags.json === true ? "json" : oneOf(formats, text(args, "format") ?? "svg", "--format")
    const node = readNode(placesOf(args, terminal))
    for (const { what, reason } of node.unread) terminal.stderr(`Warning: cannot see the ${what}: ${reason}\n`)
    const name = args.words.length > 0 ? word(args, 0) : undefined
    const attachments = attachmentsOf(node).filter(({ network, ifName }) =>
      name === undefined ? ifName !== "lo" : network === name,
    )
    const drawn = draw(graphOf(node, attachments), format, theme)
    const file = text(args, "output")
    if (file === undefined) terminal.stdout(drawn)
    else writeFileSync(file, drawn)
  },
}

function draw(graph: Graph, format: (typeof formats)[number], theme: Theme): string {
  switch (format) {
    case "svg":
      return svgOf(graph, theme)
    case "html":
      return htmlOf(graph, `Container networks of ${hostname()}`, theme)
    case "dot":
      return dotOf(graph)
    case "json":
      return `${JSON.stringify(graph, (_key, value) => (typeof value === "bigint" ? Number(value) : value), 2)}\n`
  }
}

function oneOf<const T extends string>(choices: readonly T[], given: string, flag: string): T {
  const found = choices.find((choice) => choice === given)
  if (found === undefined) throw new UsageError(`cannot use ${flag} ${given}: expected ${choices.join(", ")}`)
  return found
}
