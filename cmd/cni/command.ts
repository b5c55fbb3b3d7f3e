import type { ParseArgsConfig } from "node:util"
import type { Terminal } from "../terminal.ts"

/** What the command line holds for a command: flags by name, then the words that are no flags. */
export interface Arguments {
  readonly flags: Readonly<Record<string, string | boolean | readonly (string | boolean)[] | undefined>>
  readonly words: readonly string[]
}

/** One flag: how it is read, and what the help says of it. */
export type Flag = NonNullable<ParseArgsConfig["options"]>[string] & {
  /** Placeholder of the value: "DIR". */
  readonly value?: string
  readonly help: string
}

/** One command of the tool. */
export interface Command {
  /** One line for the list of commands. */
  readonly summary: string
  /** The words it wants, as the help names them; those in brackets, at the end, may be left out. */
  readonly words: readonly string[]
  readonly flags: Readonly<Record<string, Flag>>
  /** What there is to know, and examples. */
  readonly help: string
  /** Does it. What it throws becomes a message and exit code 1. */
  run(args: Arguments, terminal: Terminal): Promise<void>
}

/** The command line cannot be understood: exit code 2, with a pointer to the help. */
export class UsageError extends Error {}

/** The value of a flag that takes text. */
export function text(args: Arguments, flag: string): string | undefined {
  const value = args.flags[flag]
  return typeof value === "string" ? value : undefined
}

/** The values of a flag that may be given several times. */
export function texts(args: Arguments, flag: string): string[] {
  const value = args.flags[flag]
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : []
}

/** Whether a flag without a value was given. */
export function given(args: Arguments, flag: string): boolean {
  return args.flags[flag] === true
}

/** The word at a place; the tool has checked that it is there. */
export function word(args: Arguments, index: number): string {
  return args.words[index] ?? ""
}
