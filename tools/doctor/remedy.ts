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

/**
 * Several commands as one line, in the order in which they come: each distinct one once, and those of one form together, as a
 * command with all their lists, or as a loop over the value in which they differ.
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

/** The commands of a sequence, or the one. */
function stepsOf(command: Command): Command[] {
  const { strings, values } = command
  const isSequence = strings.every((text, at) => text === (at === 0 || at === strings.length - 1 ? "" : "; "))
  const steps = values.flatMap((value) => (value instanceof Command ? [value] : []))
  return isSequence && steps.length === values.length ? steps.flatMap(stepsOf) : [command]
}

/** Commands that differ in one value: its lists are joined, or it is looped over; it may stand at several places of a command. */
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

/** The command that gives table local the route of an address again, as the kernel makes it. */
export function localRoute(address: string, device: string): Command {
  return address.includes(":")
    ? sh`ip -6 route replace local ${address} dev ${device} table local proto kernel`
    : sh`ip route replace local ${address} dev ${device} table local proto kernel scope host src ${address}`
}

/**
 * The remedy for what another program or an operator has made: words, with a command that only shows it. Doctor never has a command that deletes
 * or changes what is not this suite's.
 */
export function ofOthers(todo: string, shown: Command): string {
  return `${todo}, by the program that made it; "${shown.line}" shows it`
}

/** The command that writes a value below /proc/sys: the name of an interface may have dots, and then the slashes stay. */
export function setSysctl(path: string, value: string | number): Command {
  const name = path.includes(".") ? path : path.replaceAll("/", ".")
  return sh`sysctl -w ${`${name}=${value}`}`
}

/**
 * The command that gives an interface an address as plugins do: one of IPv6 without duplicate address detection, so that routes
 * can have it as their source at once.
 */
export function giveAddress(address: string, name: string): Command {
  return address.includes(":")
    ? sh`ip address replace ${address} dev ${name} nodad`
    : sh`ip address replace ${address} dev ${name}`
}
