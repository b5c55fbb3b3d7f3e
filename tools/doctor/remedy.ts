/** A value in a command: text to quote, a list whose words are quoted, or a command that is inserted unchanged. */
type Value = string | number | Command | readonly string[]

/** A shell line, created by `sh`. All values are inserted and quoted. */
export class Command {
  readonly strings: readonly string[]
  readonly values: readonly Value[]

  constructor(strings: readonly string[], values: readonly Value[]) {
    this.strings = strings
    this.values = values
  }

  /** Returns the line to paste into a shell. */
  get line(): string {
    return this.strings
      .map((text, at) => `${text}${at < this.values.length ? written(this.values[at] ?? "") : ""}`)
      .join("")
  }
}

/**
 * Creates a command. Quotes each value for a POSIX shell.
 *
 * @example
 * sh`ip link set ${name} master ${bridge}`
 */
export function sh(strings: TemplateStringsArray, ...values: Value[]): Command {
  return new Command(strings, values)
}

/**
 * Joins several commands in order into one line without duplicates. Commands of the same form become one command with
 * all their lists, or a loop over the value in which they differ.
 */
export function inOneLine(commands: readonly Command[]): Command {
  const steps = commands.flatMap(stepsOf)
  const distinct = [...new Map(steps.map((step) => [step.line, step])).values()]
  const forms = Map.groupBy(distinct, ({ strings }) => strings.join("\0"))
  const lines = [...forms.values()].flatMap((alike) => loopOf(alike) ?? alike)
  return lines.length === 1 && lines[0] ? lines[0] : sequence(lines)
}

function sequence(steps: readonly Command[]): Command {
  return new Command(steps.map((_, at) => (at === 0 ? "" : "; ")).concat(""), steps)
}

function stepsOf(command: Command): Command[] {
  const { strings, values } = command
  const isSequence = strings.every((text, at) => text === (at === 0 || at === strings.length - 1 ? "" : "; "))
  const steps = values.flatMap((value) => (value instanceof Command ? [value] : []))
  return isSequence && steps.length === values.length ? steps.flatMap(stepsOf) : [command]
}

/** Joins commands that differ in one value: joins the lists in its place, or else loops over the value. */
function loopOf(commands: readonly Command[]): Command | undefined {
  const [first] = commands
  if (first === undefined || commands.length === 1) return first
  const at = first.values.findIndex((value, at) =>
    commands.some(({ values }) => written(values[at] ?? "") !== written(value)),
  )
  const words = commands.map(({ values }) => values[at])
  const bodies = commands.map(
    ({ strings, values }, own) =>
      new Command(
        strings,
        values.map((value) => (value === words[own] ? EACH : value)),
      ),
  )
  if (bodies.some(({ line }) => line !== bodies[0]?.line)) return undefined
  const lists = words.flatMap((word) => (typeof word === "object" && !(word instanceof Command) ? [word] : []))
  const all = lists.flat()
  if (lists.length === words.length)
    return new Command(
      first.strings,
      first.values.map((value) => (value === words[0] ? all : value)),
    )
  return words.every((word) => typeof word === "string")
    ? sh`for each in ${words}; do ${bodies[0] ?? first}; done`
    : undefined
}

const EACH = new Command(['"$each"'], [])

function written(value: Value): string {
  if (value instanceof Command) return value.line
  return typeof value === "object" ? value.map(quoted).join(" ") : quoted(String(value))
}

/** Quotes a word for a POSIX shell. A word without special characters stays unchanged. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** Splits a line at spaces outside of quotes, into at most `room` characters. All lines but the last end with "\". */
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

/** Returns the command that restores the route of an address in table local, as the kernel creates it. */
export function localRoute(address: string, device: string): Command {
  return address.includes(":")
    ? sh`ip -6 route replace local ${address} dev ${device} table local proto kernel`
    : sh`ip route replace local ${address} dev ${device} table local proto kernel scope host src ${address}`
}

/**
 * Returns a remedy for objects of another program or an operator: a sentence, with a command that only shows them.
 * Doctor never suggests a command that deletes or changes foreign objects.
 */
export function ofOthers(todo: string, shown: Command): string {
  return `${todo}, with the program that created it; "${shown.line}" shows it`
}

/** Returns the command that writes a value below /proc/sys. If an interface name contains dots, keeps the slashes. */
export function setSysctl(path: string, value: string | number): Command {
  const name = path.includes(".") ? path : path.replaceAll("/", ".")
  return sh`sysctl -w ${`${name}=${value}`}`
}

/**
 * Returns the command that adds an address to an interface, as plugins do. IPv6 addresses skip duplicate address
 * detection, so that routes can use them as their source at once.
 */
export function giveAddress(address: string, name: string): Command {
  return address.includes(":")
    ? sh`ip address replace ${address} dev ${name} nodad`
    : sh`ip address replace ${address} dev ${name}`
}
