import { nodeDirectories, packagedBinDirs } from "../install/mod.ts"
import { dirname, executablePath, exists, resolve } from "../pkg/libc/mod.ts"
import { loadNetwork, type Network, type Runtime } from "../pkg/libcni/mod.ts"
import { printJson, stringifyJson } from "../pkg/types/mod.ts"
import { defaults, readPath, type Terminal } from "./environment.ts"
import { configuredNetworks, requireNetwork } from "./known-networks.ts"
import { DEFAULT_DATA_DIR, type NodePlaces } from "./node/mod.ts"
import type { Screen } from "./screen.ts"

/** The arguments of a command: its flags by name, and its other words in order. */
export interface Arguments {
  readonly flags: Readonly<Record<string, string | boolean | readonly (string | boolean)[] | undefined>>
  readonly words: readonly string[]
}

export interface FlagSyntax {
  /** Whether the flag takes a value ("string"). */
  readonly type: "string" | "boolean"
  /** The short form of the flag: one letter. */
  readonly short?: string
  readonly multiple?: boolean
}

export interface Flag extends FlagSyntax {
  /** The placeholder of the value in help texts: "DIR". */
  readonly value?: string
  /** The valid values, if they are few. */
  readonly choices?: readonly string[]
  readonly help: string
}

export interface Command {
  /** The summary of the command in lists of commands. */
  readonly summary: string
  /** The positional arguments as help shows them: optional ones last, in brackets; "…" after a repeatable one. */
  readonly words: readonly string[]
  readonly flags: Readonly<Record<string, Flag>>
  /** The values of a positional argument for completion, by its name in `words`. */
  readonly choices?: Readonly<Record<string, readonly string[]>>
  readonly help: string
  /** Whether the command runs until it is stopped, without a progress message. */
  readonly isService?: true
  /** Whether the command needs root, because its output would be wrong for another user. */
  readonly needsRoot?: true
  /** Runs the command. A thrown error becomes a message and exit code 1. */
  run(args: Arguments, terminal: Terminal): Promise<void>
}

/** An invalid command line. The tool points to the help and ends with exit code 2. */
export class UsageError extends Error {}

/** Ends a command that has printed its complete output, with an exit code that tells the outcome. */
export class Found extends Error {
  readonly exitCode: number

  constructor(exitCode: number) {
    super(`exit code ${exitCode}`)
    this.exitCode = exitCode
  }
}

/** The exit code of a command that looked for faults and found some. If a command could not look, it ends with 1. */
export const FOUND_FAULTS = 3

/** Returns the value of a flag with a value, or undefined if it was not given. */
export function text(args: Arguments, flag: string): string | undefined {
  const value = args.flags[flag]
  return typeof value === "string" ? value : undefined
}

/** Returns all values of a flag that may be repeated. */
export function texts(args: Arguments, flag: string): string[] {
  const value = args.flags[flag]
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : []
}

/** Reports whether a flag without a value was given. */
export function given(args: Arguments, flag: string): boolean {
  return args.flags[flag] === true
}

/** Returns the positional argument at an index, or "" for an absent optional one. */
export function word(args: Arguments, index: number): string {
  return args.words[index] ?? ""
}

/** The flags of every command that prints a table or findings. */
export const outputFlags = {
  output: {
    type: "string",
    short: "o",
    value: "FORMAT",
    choices: ["text", "wide", "json"],
    help: "text, wide (every column, nothing cut) or json (default text)",
  },
  json: { type: "boolean", help: "the same as -o json; errors are JSON too" },
  "no-headers": { type: "boolean", help: "print tables without their header row" },
} as const satisfies Record<string, Flag>

export const watchFlags = {
  watch: { type: "boolean", short: "w", help: "print again after each change, until Ctrl-C; exit code 0" },
  interval: { type: "string", value: "SECONDS", help: "how often --watch checks for changes (default 1)" },
} as const satisfies Record<string, Flag>

export const runtimeFlags = {
  "conf-dir": { type: "string", value: "DIR", help: "network configurations (NETCONFPATH, else the runtime's)" },
  "bin-dir": { type: "string", value: "DIR[:DIR]", help: "plugins (CNI_PATH, else the runtime's)" },
  "cache-dir": { type: "string", value: "DIR", help: "results of ADD, for CHECK and DEL (default /var/lib/cni)" },
  timeout: { type: "string", value: "SECONDS", help: "kill a plugin that takes longer (default: never)" },
  ...outputFlags,
} as const satisfies Record<string, Flag>

export const attachmentFlags = {
  ifname: { type: "string", short: "i", value: "NAME", help: "interface inside the namespace (CNI_IFNAME, else eth0)" },
  "container-id": { type: "string", value: "ID", help: "default: made from the namespace's path, as cnitool does" },
  ...runtimeFlags,
} as const satisfies Record<string, Flag>

export const nodeFlags = {
  "conf-dir": runtimeFlags["conf-dir"],
  "bin-dir": runtimeFlags["bin-dir"],
  "cache-dir": runtimeFlags["cache-dir"],
  ...outputFlags,
} as const satisfies Record<string, Flag>

/**
 * Returns the directories of a node. Flags and environment come first, then the configuration of containerd, CRI-O, k3s
 * or RKE2, then the usual directories and that of this tool's package.
 */
export function placesOf(args: Arguments, { env }: Pick<Terminal, "env">): NodePlaces {
  const { confDir, binDirs, isOfRuntime } = nodeDirectories()
  const asked = text(args, "bin-dir") ?? env.CNI_PATH
  const packaged = isOfRuntime ? [] : packagedBinDirs(dirname(executablePath())).filter(exists)
  return {
    confDir: resolve(text(args, "conf-dir") ?? (env.NETCONFPATH || confDir)),
    binDirs: asked ? readPath(asked) : [...new Set([...binDirs, ...packaged])],
    cacheDir: resolve(text(args, "cache-dir") ?? defaults.cacheDir),
    dataDir: DEFAULT_DATA_DIR,
  }
}

export function wantsJson({ flags }: Pick<Arguments, "flags">): boolean {
  return flags.json === true || flags.output === "json"
}

/** Returns the screen for a command's text. The width is unlimited with `--output wide`. */
export function screenOf(args: Arguments, { columns, colour = false }: Terminal): Screen {
  const isWide = args.flags.output === "wide"
  return { columns: isWide ? undefined : columns, colour, isWide, hasHeads: !given(args, "no-headers") }
}

/** Prints a command's output as text, or as JSON if requested. With `--watch`, JSON is on one line. */
export function print(args: Arguments, terminal: Terminal, found: { json(): unknown; text(screen: Screen): string }) {
  if (!wantsJson(args)) terminal.stdout(found.text(screenOf(args, terminal)))
  else terminal.stdout(`${given(args, "watch") ? stringifyJson(found.json()) : printJson(found.json())}\n`)
}

export function runtimeOf(args: Arguments, terminal: Terminal): Runtime {
  const { env, stderr, signal } = terminal
  const { binDirs, cacheDir } = placesOf(args, terminal)
  const timeout = text(args, "timeout")
  return {
    path: binDirs,
    cacheDir,
    env,
    stderr,
    signal,
    ...(timeout === undefined ? {} : { timeoutMs: readSeconds("--timeout", timeout) }),
  }
}

/** Loads a network. Prints warnings about files on stderr. Throws with the list of networks if none has the name. */
export function networkOf(name: string, args: Arguments, terminal: Terminal): Network {
  const { confDir } = placesOf(args, terminal)
  requireNetwork(name, configuredNetworks(confDir, name), `no configuration in ${confDir}`)
  const network = loadNetwork(confDir, name)
  for (const warning of network.warnings) terminal.stderr(`Warning: ${warning}\n`)
  return network
}

/** Returns a namespace's path: /run/netns/demo for "demo", a name of `ip netns`. The path may not exist. */
export function netnsPath(given: string): string {
  const named = `/run/netns/${given}`
  return !given.includes("/") && !exists(given) && exists(named) ? named : resolve(given)
}

/** Converts a number of seconds to milliseconds. Throws a usage error for 0 and below. */
export function readSeconds(flag: string, given: string): number {
  const seconds = Number(given)
  if (Number.isFinite(seconds) && seconds > 0) return seconds * 1000
  throw new UsageError(`cannot use ${flag} ${given}: expected a number of seconds above 0`)
}
