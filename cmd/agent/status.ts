import { askAgent, defaultConfigPath, readAgentConfig, type Status } from "../../agent/mod.ts"
import { type Command, outputFlags, print, text } from "../../tools/command.ts"
import { fittedTable } from "../../tools/screen.ts"
import { configFlag } from "./flags.ts"

/** `cni-agent status` */
export const statusCommand: Command = {
  summary: "Show the state of this node's agent",
  words: [],
  flags: {
    ...configFlag,
    socket: { type: "string", value: "PATH", help: "the agent's socket (default: that of the configuration)" },
    ...outputFlags,
  },
  help: `Shows the store, the pools with the blocks of this node, lost blocks, and the routes to other nodes. It asks the agent through its socket.

Examples:
  cni-agent status
  cni-agent status -o json`,
  async run(args, terminal) {
    const socket = text(args, "socket") ?? readAgentConfig(text(args, "config") ?? defaultConfigPath).socket
    const status = await askAgent(socket)
    print(args, terminal, {
      json: () => status,
      text: (screen) =>
        [
          linesOf(status)
            .map((line) => `${line}\n`)
            .join(""),
          fittedTable(
            ["POOL", "PREFIX", "BLOCKS", "USED", "FREE", "FREE BLOCKS IN THE CLUSTER"],
            rowsOf(status),
            screen,
          ),
        ].join(""),
    })
  },
}

/** What the node and its store are, and all that is wrong. */
function linesOf({ node, store, pools, lost, routes }: Status): string[] {
  return [
    `Node ${node.name}, store: ${store.name}`,
    ...[store.fault, store.stopped, ...pools.map(({ fault }) => fault), ...(routes?.faults ?? [])].flatMap((fault) =>
      fault === undefined ? [] : [`Fault: ${fault}`],
    ),
    ...lost.map(({ prefix, pool, owner, containers }) => {
      const names = containers.map(({ id, ifName, address }) => `${address} of ${id}/${ifName}`)
      return `Lost: block ${prefix} of pool "${pool}" belongs to node "${owner}" now; still used here: ${names.join(", ") || "nothing"}`
    }),
    ...(routes ? [`Routes to other nodes: ${routes.wanted}`] : []),
  ]
}

function rowsOf({ pools }: Status): string[][] {
  return pools.flatMap(({ name, prefixes }) =>
    prefixes.map(({ prefix, blocks, used, free, cluster }) => {
      return [name, prefix, String(blocks.length), String(used), free, cluster?.free ?? "?"]
    }),
  )
}
