import type { Command, Flag } from "../tools/command.ts"

export interface Tool {
  readonly name: string
  /** The commands by name, in the order of the help. A name may have several words: "ipam ls". */
  readonly commands: Readonly<Record<string, Command>>
  /** The summary of each group of commands, by the first word of their names: "ipam". */
  readonly groups: Readonly<Record<string, string>>
  /** The first sentence of the help, without a period. */
  readonly about: string
  readonly example: string
}

export function toolHelp({ name, about, commands, example }: Tool): string {
  return `${about}.

Usage:
  ${name} COMMAND [arguments]

Commands:
${listCommands(commands)}

${example}

"${name} COMMAND --help" says more about one command.
`
}

/** Returns the text of `cni GROUP --help`: the commands of a group such as "ipam". */
export function groupHelp(tool: string, group: string, summary: string, commands: Tool["commands"]): string {
  const own = Object.entries(commands).filter(([name]) => name.startsWith(`${group} `))
  return `${summary}.

Usage:
  ${tool} ${group} COMMAND [arguments]

Commands:
${listCommands(Object.fromEntries(own))}

"${tool} ${group} COMMAND --help" says more about one command.
`
}

export function commandHelp(tool: string, name: string, command: Command): string {
  const usage = [tool, name, ...command.words, Object.keys(command.flags).length > 0 ? "[flags]" : ""]
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

function listCommands(commands: Tool["commands"]): string {
  const names = Object.keys(commands)
  const width = Math.max(14, ...names.map((name) => name.length + 2))
  return names.map((name) => `  ${name.padEnd(width)}${commands[name]?.summary}`).join("\n")
}

function describeFlag([name, flag]: [string, Flag]): string {
  const names = `${flag.short ? `-${flag.short}, ` : ""}--${name}`
  return `  ${`${names}${flag.value ? ` ${flag.value}` : ""}`.padEnd(21)} ${flag.help}`
}
