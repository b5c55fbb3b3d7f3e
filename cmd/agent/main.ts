import { version } from "../../package.json"
import type { Command } from "../../tools/command.ts"
import { completionCommand, type Tool } from "../tool.ts"
import { ipamCommands, ipamGroups } from "./ipam/commands.ts"
import { migrateCommands } from "./migrate.ts"
import { runCommand } from "./run.ts"
import { statusCommand } from "./status.ts"

/** `cni-agent version` */
const versionCommand: Command = {
  summary: "Print the version of the agent",
  words: [],
  flags: {},
  help: "",
  async run(_args, { stdout }) {
    stdout(`cni-agent ${version}\n`)
  },
}

/** The executable `cni-agent`. */
export const agentTool: Tool = {
  name: "cni-agent",
  commands: {
    run: runCommand,
    status: statusCommand,
    ...ipamCommands,
    ...migrateCommands,
    completion: completionCommand("cni-agent"),
    version: versionCommand,
  },
  groups: { ...ipamGroups, migrate: "Have networks take addresses of a pool in place of another IPAM" },
  about:
    "Keeps the addresses of a cluster's node: claims blocks of pools in the cluster's store, and writes the files that host-local reads",
  example: `Try it:
  cni-agent run --config /etc/cni/agent.json
  cni-agent status`,
}
