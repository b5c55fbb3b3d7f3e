import { completionHelp, shells } from "../completion.ts"

/** What each command of `cnitool` does, in one line. */
export const summaries: Readonly<Record<string, string>> = {
  add: "Attach a network namespace to a network and print the result",
  check: "Ask the plugins whether an attachment is still as it was made",
  del: "Detach a network namespace from a network",
  gc: "Delete EVERY attachment of a network, of all containers (see 'cni gc' for a choice)",
  status: "Ask the plugins whether a network can be used",
  completion: `Print a script that completes command lines in a shell: ${shells.join(", ")}`,
  help: "Say more about a command",
}

/** The help of the whole tool. */
export function toolHelp(): string {
  const lines = Object.entries(summaries).map(([name, summary]) => `  ${name.padEnd(12)}${summary}`)
  return `Attaches network namespaces to CNI networks, with the command line of the reference tool.

Usage:
  cnitool COMMAND NETWORK NETNS [flags]

Commands:
${lines.join("\n")}

Environment:
  NETCONFPATH  directory of the network configurations (default /etc/cni/net.d)
  CNI_PATH     directories of the plugins, A:B; required
  CNI_ARGS     arguments for the plugins, K=V;K=V
  CAP_ARGS     values for capabilities, a JSON object
  CNI_IFNAME   name of the interface when there is no --ifname (default eth0)

${flags}`
}

/** The usage of one command. */
export function commandUsage(command: string): string {
  if (command === "completion") return `Usage:\n  cnitool completion SHELL\n\n${completionHelp("cnitool")}\n`
  return `Usage:\n  cnitool ${command} NETWORK NETNS [flags]\n\n${flags}`
}

const flags = `Flags:
  -h, --help            show this
  -i, --ifname string   name of the interface inside the namespace
`
