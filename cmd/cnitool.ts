import {
  type Attachment,
  addNetwork,
  checkNetwork,
  delNetwork,
  gcNetwork,
  loadNetwork,
  type Network,
  type Runtime,
  statusNetwork,
} from "../pkg/libcni/mod.ts"
import { printJson } from "../pkg/types/mod.ts"
import { text } from "../tools/command.ts"
import { attachmentOf, defaults, readPath, type Terminal } from "../tools/environment.ts"
import { parseArguments } from "./arguments.ts"
import { type Completable, complete, completionHelp, completionScript, shells } from "./completion.ts"

/**
 * Runs `cnitool COMMAND NETWORK NETNS` with the commands, variables, messages and exit codes of the reference suite's
 * tool, for existing scripts. Returns the exit code. Never throws.
 */
export async function cnitool(
  args: readonly string[],
  terminal: Terminal,
  cacheDir = defaults.cacheDir,
): Promise<number> {
  let command: string | undefined
  try {
    if (args[0] === "__complete") {
      terminal.stdout(complete(completables, args.slice(1), confDir(terminal)))
      return 0
    }
    if (args[0] === "completion") {
      command = "completion"
      terminal.stdout(completion(args.slice(1)))
      return 0
    }
    const given = parseArguments(args, flags)
    const { words } = given
    command = words[0]
    if (command === undefined || command === "help") {
      terminal.stdout(helpFor(command === "help" ? words[1] : undefined))
      return 0
    }
    const run = Object.hasOwn(commands, command) ? commands[command] : undefined
    if (run === undefined) throw new UnknownCommand(`unknown command ${JSON.stringify(command)} for "cnitool"`)
    if (given.flags.help) {
      terminal.stdout(commandUsage(command))
      return 0
    }
    const [network, netns] = words.slice(1)
    if (network === undefined || netns === undefined) {
      throw new Error(`requires at least 2 arg(s), only received ${words.length - 1}`)
    }
    const [runtime, list] = [runtimeOf(terminal, cacheDir), loadNetwork(confDir(terminal), network)]
    terminal.stdout(await run(runtime, list, attachmentOf(terminal.env, netns, { ifName: text(given, "ifname") })))
    return 0
  } catch (error) {
    const known = command !== undefined && !(error instanceof UnknownCommand)
    const hint = known ? `${commandUsage(command ?? "")}\n` : "Run 'cnitool --help' for usage.\n"
    const reason = error instanceof Error && error.name !== "CniError" ? error.message : String(error)
    terminal.stderr(`Error: ${reason}\n${hint}${reason}\n`)
    return 1
  }
}

const flags = { ifname: { type: "string", short: "i" }, help: { type: "boolean", short: "h" } } as const

class UnknownCommand extends Error {}

type Command = (runtime: Runtime, network: Network, attachment: Attachment) => Promise<string>

const commands: Readonly<Record<string, Command>> = {
  add: async (runtime, network, attachment) =>
    printJson(await addNetwork(runtime, network, attachment, { again: true })),
  check: (runtime, network, attachment) => checkNetwork(runtime, network, attachment).then(() => ""),
  del: (runtime, network, attachment) => delNetwork(runtime, network, attachment).then(() => ""),
  gc: (runtime, network) => gcNetwork(runtime, network, []).then(() => ""), // as in the reference suite's tool, no attachment is valid
  status: (runtime, network) => statusNetwork(runtime, network).then(() => ""),
}

const completables: Readonly<Record<string, Completable>> = {
  ...Object.fromEntries(Object.keys(commands).map((name) => [name, { words: ["NETWORK", "NETNS"], flags }])),
  completion: { words: ["SHELL"], flags: {} },
  help: { words: ["COMMAND"], flags: {} },
}

/** Returns the output of `cnitool completion [SHELL]`. Ignores `--no-descriptions` of the reference suite's tool. */
function completion(args: readonly string[]): string {
  const shell = args.find((word) => !word.startsWith("-"))
  if (shell === undefined || args.includes("--help") || args.includes("-h")) return commandUsage("completion")
  const script = completionScript("cnitool", shell)
  if (script === undefined) throw new Error(`unknown shell ${JSON.stringify(shell)}: expected ${shells.join(", ")}`)
  return script
}

function helpFor(command: string | undefined): string {
  return command !== undefined && command !== "help" && Object.hasOwn(summaries, command)
    ? commandUsage(command)
    : toolHelp()
}

function confDir({ env }: Terminal): string {
  return env.NETCONFPATH || defaults.confDir
}

function runtimeOf({ env, stderr, signal }: Terminal, cacheDir: string): Runtime {
  return { path: readPath(env.CNI_PATH ?? ""), cacheDir, env, stderr, signal }
}

const summaries: Readonly<Record<string, string>> = {
  add: "Attach a network namespace to a network and print the result",
  check: "Check that an attachment is unchanged since ADD",
  del: "Detach a network namespace from a network",
  gc: "Delete EVERY attachment of a network, of all containers (see 'cni gc' for a choice)",
  status: "Check that a network can be used",
  completion: `Print a script that completes command lines in a shell: ${shells.join(", ")}`,
  help: "Show the help of a command",
}

function toolHelp(): string {
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
  CNI_IFNAME   name of the interface without --ifname (default eth0)

${flagsHelp}`
}

function commandUsage(command: string): string {
  if (command === "completion") return `Usage:\n  cnitool completion SHELL\n\n${completionHelp("cnitool")}\n`
  return `Usage:\n  cnitool ${command} NETWORK NETNS [flags]\n\n${flagsHelp}`
}

const flagsHelp = `Flags:
  -h, --help            show this
  -i, --ifname string   name of the interface inside the namespace
`
