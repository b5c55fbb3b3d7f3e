import { askAgent, type Status } from "../../agent/mod.ts"
import { type Command, outputFlags, print, text } from "../../tools/command.ts"
import { RUN_DIR, runDirFlag } from "./run.ts"

export const statusCommand: Command = {
  summary: "Show the ranges and routes of this node, and their faults",
  words: [],
  flags: { ...runDirFlag, ...outputFlags },
  help: `Queries the agent through its socket. Lists the containers with addresses outside the node's ranges: those that were attached before the
range changed.

Examples:
  cni-agent status
  cni-agent status -o json`,
  async run(args, terminal) {
    const status = await askAgent(`${text(args, "run-dir") ?? RUN_DIR}/agent.sock`)
    print(args, terminal, {
      json: () => status,
      text: () =>
        linesOf(status)
          .map((line) => `${line}\n`)
          .join(""),
    })
  },
}

function linesOf({ node, server, nodes, fault, network, routes }: Status): string[] {
  const { name, ranges, former, strays } = network
  const faults = [fault, network.fault, ...(routes?.faults ?? [])].filter((text) => text !== undefined)
  return [
    `Node ${node}, ${nodes ?? "?"} Nodes of ${server}`,
    `Network ${name}: ${ranges.join(" ") || "no range"}`,
    ...(routes ? [`Routes: ${routes.wanted}`] : []),
    ...faults.map((text) => `Fault: ${text}`),
    ...former.map((range) => `Former range ${range}: containers still use addresses in it`),
    ...strays.map(
      ({ address, container, ifName }) =>
        `Outside the range: ${address} of ${container}/${ifName}; restart the container`,
    ),
  ]
}
