import { didYouMean } from "../pkg/config/mod.ts"
import { type Arguments, type FlagSyntax, UsageError } from "../tools/command.ts"

type Flags = Readonly<Record<string, FlagSyntax>>

/**
 * Parses a command line like getopt: "--flag=VALUE" and "--flag VALUE", "-f VALUE" and "-fVALUE", "-wf VALUE" for "-w
 * -f VALUE". Flags may be before, between and after other words, up to "--". If a flag is repeated, the last value
 * wins, unless the flag takes several values. Throws `UsageError`.
 */
export function parseArguments(line: readonly string[], flags: Flags): Arguments {
  const found: Record<string, string | boolean | readonly string[]> = {}
  const words: string[] = []
  const rest = [...line]
  const take = (flag: string, name: string, value: string | undefined) => {
    const { type, multiple = false } = flags[name] ?? {}
    if (type === "boolean") found[name] = true
    else {
      const given = value ?? valueBehind(flag, rest)
      const before = found[name]
      found[name] = multiple ? [...(Array.isArray(before) ? before : []), given] : given
    }
  }
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === "--") words.push(...rest.splice(0))
    else if (word.startsWith("--")) {
      const [, flag = "", value] = /^(--[^=]+)(?:=(.*))?$/s.exec(word) ?? [undefined, word]
      const name = flag.slice(2)
      if (!Object.hasOwn(flags, name)) throw unknown(flag, flags)
      if (value !== undefined && flags[name]?.type === "boolean") throw new UsageError(`${flag} takes no value`)
      take(flag, name, value)
    } else if (word.startsWith("-") && word !== "-") {
      for (let at = 1; at < word.length; at++) {
        const flag: string = `-${word[at]}`
        const name: string | undefined = Object.keys(flags).find((each) => flags[each]?.short === flag.slice(1))
        if (name === undefined) throw unknown(flag, flags)
        const value = word.slice(at + 1)
        take(flag, name, value === "" ? undefined : value)
        if (flags[name]?.type === "string") break // the rest of the word was the value
      }
    } else words.push(word)
  }
  return { flags: found, words }
}

/** Returns the value after a flag. Throws if the next word looks like a flag, because the value is probably missing. */
function valueBehind(flag: string, rest: string[]): string {
  const value = rest.shift()
  if (value === undefined) throw new UsageError(`${flag} needs a value`)
  if (!value.startsWith("-") || value === "-") return value
  const attached = flag.startsWith("--") ? `${flag}=${value}` : `${flag}${value}`
  throw new UsageError(`${flag} needs a value, and ${value} looks like a flag: write ${attached} if it is the value`)
}

function unknown(flag: string, flags: Flags): UsageError {
  const names = ["help", ...Object.keys(flags)].map((name) => `--${name}`)
  const near = flag.startsWith("--") ? didYouMean(flag, names) : undefined
  return new UsageError(`unknown flag ${flag}${near === undefined ? "" : ` (did you mean ${near}?)`}`)
}
