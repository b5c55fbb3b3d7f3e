import { parseArgs } from "node:util"
import { version } from "../../package.json"
import { CniError, messageOf, printJson, supportedVersions, toErrorObject } from "../../pkg/types/mod.ts"
import { type Command, Found, readSeconds, text, UsageError, wantsJson, word } from "../../tools/command.ts"
import { schemaCommand } from "../../tools/configuration/schema.ts"
import { testCommand } from "../../tools/connectivity/command.ts"
import { diffCommand } from "../../tools/diff/command.ts"
import { doctor } from "../../tools/doctor/command.ts"
import { dryRunCommand } from "../../tools/dry-run/command.ts"
import { runInside } from "../../tools/dry-run/inside.ts"
import { INSIDE } from "../../tools/dry-run/run.ts"
import { defaults, type Terminal } from "../../tools/environment.ts"
import { explainCommand } from "../../tools/explain/command.ts"
import { log } from "../../tools/flight/log.ts"
import { metrics } from "../../tools/flight/metrics.ts"
import { recorderOff, recorderOn } from "../../tools/flight/recorder.ts"
import { graph } from "../../tools/graph/command.ts"
import { lintCommand } from "../../tools/lint/command.ts"
import { didYouMean } from "../../tools/lint/did-you-mean.ts"
import { ps } from "../../tools/ps.ts"
import { trace } from "../../tools/trace/command.ts"
import { watch } from "../../tools/watch.ts"
import { complete, completionHelp, completionScript, shells } from "../completion.ts"
import { add, check, del, status } from "./attach.ts"
import { dhcpList } from "./dhcp.ts"
import { gc } from "./gc.ts"
import { commandHelp, groupHelp, toolHelp } from "./help.ts"
import { installCommand } from "./install.ts"
import { ipamList, ipamRelease } from "./ipam.ts"
import { withProgress } from "./progress.ts"
import { reattach } from "./reattach.ts"

/** `cni completion` */
const completionCommand: Command = {
  summary: `Print a script that completes command lines in a shell: ${shells.join(", ")}`,
  words: ["SHELL"],
  flags: {},
  help: completionHelp("cni"),
  async run(args, { stdout }) {
    const script = completionScript("cni", word(args, 0))
    if (script === undefined) throw new UsageError(`unknown shell ${word(args, 0)}: expected ${shells.join(", ")}`)
    stdout(script)
  },
}

/** `cni version` */
const versionCommand: Command = {
  summary: "Print the version of this suite and of the protocol",
  words: [],
  flags: {},
  help: "",
  async run(_args, { stdout }) {
    stdout(`cni ${version}\nCNI protocol versions supported: ${supportedVersions.join(", ")}\n`)
  },
}

/** Every command of the tool, by its name, in the order of the help. The manual pages are made from it, too. */
export const commands: Readonly<Record<string, Command>> = {
  add,
  check,
  del,
  status,
  reattach,
  gc,
  ps,
  doctor,
  trace,
  test: testCommand,
  graph,
  log,
  metrics,
  "recorder on": recorderOn,
  "recorder off": recorderOff,
  "dhcp ls": dhcpList,
  "ipam ls": ipamList,
  "ipam release": ipamRelease,
  "dry-run": dryRunCommand,
  diff: diffCommand,
  explain: explainCommand,
  lint: lintCommand,
  schema: schemaCommand,
  install: installCommand,
  completion: completionCommand,
  version: versionCommand,
}

/** Commands of two words are in a group, the first of the words. */
export const groups: Readonly<Record<string, string>> = {
  dhcp: "Show the leases that dhcp's daemon keeps",
  recorder: "Switch the flight recorder on and off: one line for each call of a plugin",
  ipam: "Show the addresses that host-local has handed out, and take them back",
}

/**
 * Runs one command line. Returns the exit code: 0, 1 when it failed, 2 when it was not understood, 3 when it has found the
 * faults that it looked for. Never throws.
 */
export async function cni(args: readonly string[], terminal: Terminal): Promise<number> {
  if (args[0] === "__complete") {
    const help = { words: ["COMMAND"], flags: {} }
    terminal.stdout(complete({ ...commands, help }, args.slice(1), terminal.env.NETCONFPATH || defaults.confDir))
    return 0
  }
  if (args[0] === INSIDE) {
    terminal.stdout(JSON.stringify(await runInside(await terminal.stdin(), terminal.env)))
    return 0
  }
  const [name, ...rest] = nameFirst(args)
  const command = find(name)
  if (command !== undefined) return runCommand(name, command, rest, terminal)
  const asksForHelp = name === "" || name === "help" || isHelpFlag(name)
  return explain(asksForHelp ? rest.filter((word) => !isHelpFlag(word)) : args, terminal)
}

/** Prints the help of a command, of a group, or of the tool. Another name is a usage error. */
function explain(words: readonly string[], { stdout, stderr }: Terminal): number {
  const [name, ...rest] = nameFirst(words)
  const command = find(name)
  const group = Object.hasOwn(groups, name) ? groups[name] : undefined
  const [subcommand = ""] = rest
  if (command !== undefined) stdout(commandHelp(name, command))
  else if (name === "") stdout(toolHelp(commands))
  else if (group !== undefined && (subcommand === "" || isHelpFlag(subcommand)))
    stdout(groupHelp(name, group, commands))
  else {
    const [cni, unknown] = group === undefined ? ["cni", name] : [`cni ${name}`, subcommand]
    const known = Object.keys(commands).flatMap((each) => {
      const [first = "", second] = each.split(" ")
      if (group !== undefined) return first === name && second !== undefined ? [second] : []
      return [first]
    })
    const near = didYouMean(unknown, known)
    const meant = near === undefined ? "." : `; did you mean "${near}"?`
    stderr(`${cni}: Cannot run "${unknown}": no such command${meant} "${cni} --help" lists them\n`)
    return 2
  }
  return 0
}

function isHelpFlag(word: string): boolean {
  return word === "--help" || word === "-h"
}

/** The words of a command line with the command in one piece: some have two words, as "ipam ls". "" when there is none. */
function nameFirst(args: readonly string[]): [string, ...string[]] {
  const [first = "", second, ...rest] = args
  if (first === "--version") return ["version", ...args.slice(1)]
  if (second !== undefined && find(`${first} ${second}`)) return [`${first} ${second}`, ...rest]
  return [first, ...args.slice(1)]
}

function find(name: string): Command | undefined {
  return Object.hasOwn(commands, name) ? commands[name] : undefined
}

async function runCommand(name: string, command: Command, words: string[], terminal: Terminal): Promise<number> {
  let json = false
  const outcome = async (to: Terminal, run: () => Promise<void>): Promise<number> => {
    try {
      await run()
      return 0
    } catch (error) {
      if (error instanceof Found) return error.exitCode
      if (error instanceof UsageError) {
        to.stderr(`cni ${name}: ${error.message}. "cni ${name} --help" shows how\n`)
        return 2
      }
      if (json) to.stdout(`${printJson(toErrorObject(error, "1.1.0"))}\n`)
      else to.stderr(`cni ${name}: ${readable(error)}\n`)
      return 1
    }
  }
  return outcome(terminal, async () => {
    const { values: flags, positionals } = parse(words, command.flags)
    if (flags.help) return terminal.stdout(commandHelp(name, command))
    const args = { flags, words: positionals }
    json = wantsJson(args)
    requireWords(command, positionals)
    const title = ["cni", name, ...positionals].join(" ")
    if (flags.follow === true) return command.run(args, terminal)
    if (flags.watch !== true) return withProgress(title, terminal, () => command.run(args, terminal))
    const once = (to: Terminal) => outcome(to, () => command.run(args, to))
    const everyMs = readSeconds("--interval", text(args, "interval") ?? "1")
    const code = await watch(once, terminal, { everyMs, title: terminal.interactive && !json ? title : undefined })
    throw new Found(code)
  })
}

/** Throws where there are more words than the command wants, or fewer. */
function requireWords({ words }: Command, positionals: readonly string[]): void {
  const optional = words.filter((each) => each.startsWith("[")).length
  const missing = words.length - positionals.length
  const isOpen = words.at(-1)?.endsWith("…") === true
  if ((missing >= 0 || isOpen) && missing <= optional) return
  const wanted = words.length === 0 ? "no arguments" : words.join(" and ")
  throw new UsageError(`expected ${wanted}, got ${positionals.length === 0 ? "none" : positionals.join(" ")}`)
}

/** Reads flags and words; a flag with few values has one of these. */
function parse(args: string[], flags: Command["flags"]) {
  const options: Command["flags"] = { ...flags, help: { type: "boolean", short: "h", help: "" } }
  const read = () => {
    try {
      return parseArgs({ args, options, allowPositionals: true })
    } catch (error) {
      throw new UsageError(messageOf(error))
    }
  }
  const parsed = read()
  for (const [name, { choices }] of Object.entries(flags)) {
    const value = parsed.values[name]
    if (choices !== undefined && typeof value === "string" && !choices.includes(value))
      throw new UsageError(`cannot use --${name} ${value}: expected ${choices.join(", ")}`)
  }
  return parsed
}

/** The message, and what is known beyond it on the next line. */
function readable(error: unknown): string {
  if (error instanceof CniError)
    return error.details === undefined ? error.message : `${error.message}\n  ${error.details}`
  return messageOf(error)
}
