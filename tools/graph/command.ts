import { type Arguments, type Command, nodeFlags, placesOf, screenOf, text, wantsJson, watchFlags } from "../command.ts"
import { examineNode } from "../doctor/mod.ts"
import type { Terminal } from "../environment.ts"
import { networksOf, requireNetwork } from "../known-networks.ts"
import { portAsJson } from "../node/mod.ts"
import { writePrivateFile } from "../secrets.ts"
import { withFaults } from "./faults.ts"
import { type Graph, graphOf } from "./model.ts"
import { svgOf, type Theme } from "./svg.ts"
import { treeOf } from "./tree.ts"

export const graph: Command = {
  summary: "Draw this node's container networks",
  words: ["[NETWORK]"],
  flags: {
    write: { type: "string", value: "FILE", help: "write to FILE (default: stdout)" },
    theme: {
      type: "string",
      value: "THEME",
      choices: ["light", "dark", "auto"],
      help: "light, dark or auto (the viewer's system setting; default auto)",
    },
    ...watchFlags,
    ...nodeFlags,
    output: {
      type: "string",
      short: "o",
      value: "FORMAT",
      choices: ["svg", "text", "wide", "json"],
      help: "svg, text (a tree), wide or json (default svg)",
    },
  },
  help: `Shows bridges, containers, addresses, published ports, masquerade, routes, the parents of macvlan, ipvlan and vlan, and the kernel's
packet counters. Pointing at a box shows its configuration. Findings of "cni doctor" are marked at the box that they
concern, without those of STATUS, because no plugin is run. Nothing is changed.

Examples:
  cni graph --write node.svg
  cni graph pods -o text --watch`,
  async run(args, terminal) {
    const [name] = args.words
    const { input, findings } = examineNode(placesOf(args, terminal), { network: name })
    const { node } = input
    requireNetwork(name, networksOf(node, input.attachments, name))
    for (const { what, reason } of node.unread) terminal.stderr(`Warning: cannot see the ${what}: ${reason}\n`)
    const attachments = input.attachments.filter(({ network, ifName }) =>
      name === undefined ? ifName !== "lo" : network === name,
    )
    const drawn = draw(withFaults(graphOf(node, attachments), findings), args, terminal)
    const file = text(args, "write")
    if (file === undefined) terminal.stdout(drawn)
    else writePrivateFile(file, drawn)
  },
}

function draw(graph: Graph, args: Arguments, terminal: Terminal): string {
  const theme = (text(args, "theme") ?? "auto") as Theme // a value of its choices
  switch (wantsJson(args) ? "json" : text(args, "output")) {
    case "json":
      return `${JSON.stringify(graph, asJson, 2)}\n`
    case "text":
    case "wide":
      return treeOf(graph, screenOf(args, terminal))
    default:
      return svgOf(graph, theme)
  }
}

/** Converts values for JSON: counters to numbers, and the ports of a container to objects. */
function asJson(key: string, value: unknown): unknown {
  if (typeof value === "bigint") return Number(value)
  return key === "ports" && Array.isArray(value) ? value.map(portAsJson) : value
}
