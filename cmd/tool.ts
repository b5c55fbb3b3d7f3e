import { didYouMean } from "../pkg/config/mod.ts"
import { sourceFrames } from "../pkg/engine/mod.ts"
import { readDirectory, readTextFile } from "../pkg/libc/mod.ts"
import { CniError, messageOf, printJson, toErrorObject } from "../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  Found,
  placesOf,
  readSeconds,
  text,
  UsageError,
  wantsJson,
  word,
} from "../tools/command.ts"
import type { Terminal } from "../tools/environment.ts"
import { watch } from "../tools/watch.ts"
import { parseArguments } from "./arguments.ts"
import { complete, completionHelp, completionScript, nextWords, shells } from "./completion.ts"
import { commandHelp, groupHelp, type Tool, toolHelp } from "./help.ts"
import { withProgress } from "./progress.ts"

export type { Tool } from "./help.ts"

/** The maximum number of words in a command's name. */
const NAME_MAX = 3

export function completionCommand(tool: string): Command {
  return {
    summary: `Print a script that completes command lines in a shell: ${shells.join(", ")}`,
    words: ["SHELL"],
    flags: {},
    help: completionHelp(tool),
    async run(args, { stdout }) {
      const script = completionScript(tool, word(args, 0))
      if (script === undefined) throw new UsageError(`unknown shell ${word(args, 0)}: expected ${shells.join(", ")}`)
      stdout(script)
    },
  }
}

/** Returns the IDs of a network's containers, from the names of cache records: NETWORK-CONTAINERID-IFNAME. */
function idsOf(network: string, cacheDir: string): string[] {
  return namesIn(`${cacheDir}/results`).flatMap((name) => {
    const end = name.lastIndexOf("-")
    return name.startsWith(`${network}-`) && end > network.length ? [name.slice(network.length + 1, end)] : []
  })
}

function namesIn(directory: string): string[] {
  try {
    return readDirectory(directory)
  } catch {
    return []
  }
}

/**
 * Runs one command line. Returns the exit code: 0 for success, 1 for a failure, 2 for an invalid command line, 3 if a
 * command that looks for faults found some. Never throws.
 */
export async function runTool(tool: Tool, args: readonly string[], terminal: Terminal): Promise<number> {
  const { commands } = tool
  if (args[0] === "__complete") {
    const help = { words: ["COMMAND"], flags: {} }
    const { confDir, cacheDir } = placesOf({ flags: {}, words: [] }, terminal)
    const containersOf = (network: string) => [...idsOf(network, cacheDir), ...namesIn("/run/netns")]
    terminal.stdout(complete({ ...commands, help }, args.slice(1), confDir, containersOf))
    return 0
  }
  const [name, ...rest] = nameFirst(tool, args)
  const command = find(tool, name)
  if (command !== undefined) return runCommand({ tool: tool.name, name, command }, rest, terminal)
  const asksForHelp = name === "" || name === "help" || isHelpFlag(name)
  return explain(tool, asksForHelp ? rest.filter((word) => !isHelpFlag(word)) : args, terminal)
}

/** Prints the help about a command, a group, or the tool. Another name is a usage error. */
function explain(tool: Tool, words: readonly string[], { stdout, stderr }: Terminal): number {
  const { commands, groups } = tool
  const [name] = nameFirst(tool, words)
  const command = find(tool, name)
  const lengths = Array.from({ length: NAME_MAX }, (_, at) => NAME_MAX - at)
  const groupLength = lengths.find((length) => Object.hasOwn(groups, words.slice(0, length).join(" "))) ?? 0
  const group = words.slice(0, groupLength)
  const [unknown = ""] = words.slice(groupLength)
  const asksForHelp = unknown === "" || isHelpFlag(unknown)
  if (command !== undefined) stdout(commandHelp(tool.name, name, command))
  else if (asksForHelp && groupLength === 0) stdout(toolHelp(tool))
  else if (asksForHelp) stdout(groupHelp(tool.name, group.join(" "), groups[group.join(" ")] ?? "", commands))
  else {
    const place = [tool.name, ...group].join(" ")
    const near = didYouMean(unknown, nextWords(group, commands))
    const meant = near === undefined ? "." : `; did you mean "${near}"?`
    stderr(`${place}: Cannot run "${unknown}": no such command${meant} "${place} --help" lists the commands\n`)
    return 2
  }
  return 0
}

function isHelpFlag(word: string): boolean {
  return word === "--help" || word === "-h"
}

/** Splits off the command's name, which may have several words ("ipam ls"), or is "" if no command matches. */
function nameFirst(tool: Tool, args: readonly string[]): [string, ...string[]] {
  const [first = ""] = args
  if (first === "--version") return ["version", ...args.slice(1)]
  for (let length = Math.min(NAME_MAX, args.length); length > 1; length--) {
    const name = args.slice(0, length).join(" ")
    if (find(tool, name)) return [name, ...args.slice(length)]
  }
  return [first, ...args.slice(1)]
}

function find({ commands }: Tool, name: string): Command | undefined {
  return Object.hasOwn(commands, name) ? commands[name] : undefined
}

async function runCommand(
  { tool, name, command }: { tool: string; name: string; command: Command },
  words: string[],
  terminal: Terminal,
): Promise<number> {
  let json = false
  const outcome = async (to: Terminal, run: () => Promise<void>): Promise<number> => {
    try {
      await run()
      return 0
    } catch (error) {
      if (error instanceof Found) return error.exitCode
      if (error instanceof UsageError) {
        to.stderr(`${tool} ${name}: ${error.message}. "${tool} ${name} --help" shows how\n`)
        return 2
      }
      if (json) to.stdout(`${printJson({ ...toErrorObject(error, "1.1.0"), ...placeOf(error) })}\n`)
      else to.stderr(`${tool} ${name}: ${readable(error)}\n`)
      return 1
    }
  }
  return outcome(terminal, async () => {
    const args = parse(words, command.flags)
    const { flags } = args
    if (flags.help) return terminal.stdout(commandHelp(tool, name, command))
    json = wantsJson(args)
    requireWords(command, args.words)
    if (command.needsRoot && !mayChangeNetworks())
      throw new Error("Cannot read this node: it needs root, with CAP_NET_ADMIN")
    const title = [tool, name, ...args.words].join(" ")
    if (flags.follow === true || flags.listen === true || command.isService) return command.run(args, terminal)
    if (flags.watch !== true) return withProgress(title, terminal, (to) => command.run(args, to))
    const once = (to: Terminal) => outcome(to, () => command.run(args, to))
    const everyMs = readSeconds("--interval", text(args, "interval") ?? "1")
    const code = await watch(once, terminal, { everyMs, title: terminal.interactive && !json ? title : undefined })
    throw new Found(code)
  })
}

/** Reports whether the process has CAP_NET_ADMIN, <linux/capability.h>. */
function mayChangeNetworks(): boolean {
  const [, effective = "0"] = /^CapEff:\s*([0-9a-f]+)$/m.exec(readTextFile("/proc/thread-self/status")) ?? []
  return (BigInt(`0x${effective}`) & (1n << 12n)) !== 0n
}

/** Throws for too many or too few positional arguments. */
function requireWords({ words }: Command, positionals: readonly string[]): void {
  const optional = words.filter((each) => each.startsWith("[")).length
  const missing = words.length - positionals.length
  const isOpen = words.at(-1)?.endsWith("…") === true
  if ((missing >= 0 || isOpen) && missing <= optional) return
  const wanted = words.length === 0 ? "no arguments" : words.join(" and ")
  throw new UsageError(`expected ${wanted}, got ${positionals.length === 0 ? "none" : positionals.join(" ")}`)
}

/** Parses flags and positional arguments. Checks the values of flags with choices. */
function parse(args: readonly string[], flags: Command["flags"]): Arguments {
  const options: Command["flags"] = { ...flags, help: { type: "boolean", short: "h", help: "" } }
  const parsed = parseArguments(args, options)
  for (const [name, { choices }] of Object.entries(flags)) {
    const value = parsed.flags[name]
    if (choices !== undefined && typeof value === "string" && !choices.includes(value))
      throw new UsageError(`cannot use --${name} ${value}: expected ${choices.join(", ")}`)
  }
  return parsed
}

/** Returns an error's message, and its details in the next line. */
function readable(error: unknown): string {
  const { details } = error instanceof CniError ? error : placeOf(error)
  return details === undefined ? messageOf(error) : `${messageOf(error)}\n  ${details}`
}

/** Returns the source position of a JavaScript error, which is a bug. */
function placeOf(error: unknown): { details?: string } {
  const isBug = error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError
  const frames = isBug ? sourceFrames(error) : []
  return frames.length === 0 ? {} : { details: `at ${frames.join(", ")}` }
}
