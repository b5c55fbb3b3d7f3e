/** Runs `cni-agent`: the agent of a Kubernetes node, and its commands. */
import { processTerminal } from "../tools/environment.ts"
import { agentTool } from "./agent/main.ts"
import { runTool } from "./tool.ts"

process.exitCode = 1 // if the process ends before the command
runTool(agentTool, process.argv.slice(2), processTerminal()).then((code) => {
  process.exitCode = code
})
