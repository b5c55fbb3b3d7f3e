/** A value in a command: text is quoted, a list is its words, a command is inserted as it is. */
type Value = string | number | Command | readonly string[]

/** A line for a shell, made by `sh`: all values are filled in and quoted. */
export class Command {
  readonly strings: readonly string[]
  readonly values: readonly Value[]

  constructor(strings: readonly string[], values: readonly Value[]) {
    this.strings = strings
    this.values = values
  }

  /** The line, as it is pasted. */
  get line(): string {
    return this.strings
      .map((text, at) => `${text}${at < this.values.length ? written(this.values[at] ?? "") : ""}`)
      .join("")
  }
}

/**
 * A command of which each value is quoted for a POSIX shell.
 *
 * @example
 * sh`ip link set ${name} master ${bridge}`
 */
export function sh(strings: TemplateStringsArray, ...values: Value[]): Command {
  return new Command(strings, values)
}

/** Several commands as one line: each distinct one once, and those that differ in one value only as a loop over it. */
export function inOneLine(commands: readonly Command[]): Command {
  const distinct = [...new Map(commands.map((command) => [command.line, command])).values()]
  const [first] = distinct
  if (first === undefined || distinct.length === 1) return first ?? new Command([""], [])
  return loopOf(first, distinct) ?? new Command(distinct.map((_, at) => (at === 0 ? "" : "; ")).concat(""), distinct)
}

function loopOf(first: Command, commands: readonly Command[]): Command | undefined {
  if (commands.some(({ strings }) => strings.join("\0") !== first.strings.join("\0"))) return undefined
  const varying = first.values.flatMap((value, at) =>
    commands.some(({ values }) => written(values[at] ?? "") !== written(value)) ? [at] : [],
  )
  const [at = 0] = varying
  const each = commands.map(({ values }) => values[at])
  if (varying.length !== 1 || !each.every((value) => typeof value === "string")) return undefined
  const variable = new Command(['"$each"'], [])
  const body = new Command(first.strings, first.values.with(at, variable))
  return sh`for each in ${each}; do ${body}; done`
}

function written(value: Value): string {
  if (value instanceof Command) return value.line
  return typeof value === "object" ? value.map(quoted).join(" ") : quoted(String(value))
}

/** A word for a POSIX shell: as it is where no character of it means anything to the shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** The line in lines of at most `room` characters, each but the last with "\" at its end: broken at blanks outside of quotes. */
export function continued(line: string, room: number): string[] {
  const words = line.match(/(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+/g) ?? []
  const lines: string[] = []
  let current = ""
  for (const word of words) {
    if (current !== "" && current.length + 1 + word.length > room - 2) {
      lines.push(`${current} \\`)
      current = word
    } else current = current === "" ? word : `${current} ${word}`
  }
  return [...lines, current]
}
