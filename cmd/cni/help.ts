import type { Command, Flag } from "../../tools/command.ts"

/** The text of `cni --help`. */
export function toolHelp(commands: Readonly<Record<string, Command>>): string {
  return `Attaches containers to CNI networks by hand, looks at a node, checks configurations, cleans up, and installs the plugins.

Usage:
  cni COMMAND [arguments]

Commands:
${listCommands(commands)}

Try it:
  ip netns add demo                  # a namespace to play the container
  cni add mynet demo                 # network "mynet" from /etc/cni/net.d
  ip netns exec demo ip address
  cni del mynet demo
  ip netns delete demo

"cni COMMAND --help" says more about one command.
`
}

/** The text of `cni GROUP --help`, as for "ipam": the commands whose first word it is. */
export function groupHelp(group: string, summary: string, commands: Readonly<Record<string, Command>>): string {
  const own = Object.entries(commands).filter(([name]) => name.startsWith(`${group} `))
  return `${summary}.

Usage:
  cni ${group} COMMAND [arguments]

Commands:
${listCommands(Object.fromEntries(own))}

"cni ${group} COMMAND --help" says more about one command.
`
}

/** The text of `cni COMMAND --help`. */
export function commandHelp(name: string, command: Command): string {
  const usage = ["cni", name, ...command.words, Object.keys(command.flags).length > 0 ? "[flags]" : ""]
  const flags = Object.entries(command.flags).map(describeFlag)
  return [
    `${command.summary}.`,
    `Usage:\n  ${usage.join(" ").trim()}`,
    ...(flags.length > 0 ? [`Flags:\n${flags.join("\n")}`] : []),
    ...(command.help === "" ? [] : [command.help]),
  ]
    .join("\n\n")
    .concat("\n")
}

function listCommands(commands: Readonly<Record<string, Command>>): string {
  return Object.entries(commands)
    .map(([name, { summary }]) => `  ${name.padEnd(14)}${summary}`)
    .join("\n")
}

function describeFlag([name, flag]: [string, Flag]): string {
  const names = `${flag.short ? `-${flag.short}, ` : ""}--${name}`
  return `  ${`${names}${flag.value ? ` ${flag.value}` : ""}`.padEnd(22)}${flag.help}`
}
