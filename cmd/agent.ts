/** Starts the agent of a cluster's node, and its commands: `cni-agent`. */
import { processTerminal } from "../tools/environment.ts"
import { agentTool } from "./agent/main.ts"
import { runTool } from "./tool.ts"

process.exitCode = 1 // until the command changes it
runTool(agentTool, process.argv.slice(2), processTerminal()).then((code) => {
  process.exitCode = code
})
