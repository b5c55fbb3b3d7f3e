import { version } from "../../package.json"
import type { Command } from "../../tools/command.ts"
import { completionCommand, type Tool } from "../tool.ts"
import { runCommand } from "./run.ts"
import { statusCommand } from "./status.ts"

const versionCommand: Command = {
  summary: "Print the version of the agent",
  words: [],
  flags: {},
  help: "",
  async run(_args, { stdout }) {
    stdout(`cni-agent ${version}\n`)
  },
}

export const agentTool: Tool = {
  name: "cni-agent",
  commands: {
    run: runCommand,
    status: statusCommand,
    completion: completionCommand("cni-agent"),
    version: versionCommand,
  },
  groups: {},
  about: "The agent of a Kubernetes node: writes the node's range for host-local, and keeps routes to other nodes",
  example: `Try it:
  cni-agent run --network pods
  cni-agent status`,
}
