import { networkNames } from "../pkg/libcni/mod.ts"

/** The properties of a command that completion needs. */
export interface Completable {
  /** The kinds of words, in brackets if optional: `NETWORK`, `CONTAINER`, `SHELL`, `COMMAND`, or a key of `choices`. */
  readonly words: readonly string[]
  readonly flags: Readonly<
    Record<
      string,
      {
        readonly type: "string" | "boolean"
        readonly short?: string | undefined
        readonly choices?: readonly string[] | undefined
      }
    >
  >
  /** The values of other kinds of words. */
  readonly choices?: Readonly<Record<string, readonly string[]>>
}

const scripts: Readonly<Record<string, (tool: string) => string>> = {
  bash: (tool) => `# Completion of ${tool} in bash, by: source <(${tool} completion bash)
_${tool}() {
  mapfile -t COMPREPLY < <("\${COMP_WORDS[0]}" __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _${tool} ${tool}
`,
  zsh: (tool) => `#compdef ${tool}
# Completion of ${tool} in zsh, by: source <(${tool} completion zsh)
_${tool}() {
  local -a found
  found=(\${(f)"$("\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -- $found; else _files; fi
}
if [[ "$funcstack[1]" = _${tool} ]]; then _${tool} "$@"; else compdef _${tool} ${tool}; fi
`,
  fish: (tool) => `# Completion of ${tool} in fish, by: ${tool} completion fish | source
function __${tool}_complete
    set --local words (commandline --tokenize --current-process --cut-at-cursor)
    set --local current (commandline --current-token --cut-at-cursor)
    set --local found ($words[1] __complete $words[2..] "$current" 2>/dev/null)
    if set --query found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete --command ${tool} --no-files --arguments '(__${tool}_complete)'
`,
}

export const shells: readonly string[] = Object.keys(scripts)

/**
 * Returns the script with which a shell completes a tool's command lines, or `undefined` for an unknown shell. The
 * script runs `TOOL __complete WORD…`, and offers file names if the tool prints nothing.
 */
export function completionScript(tool: string, shell: string): string | undefined {
  return Object.hasOwn(scripts, shell) ? scripts[shell]?.(tool) : undefined
}

export function completionHelp(tool: string): string {
  return `Prints a script that lets a shell complete commands, flags, and the names of networks and containers:
  bash   source <(${tool} completion bash)
  zsh    source <(${tool} completion zsh)     # after compinit
  fish   ${tool} completion fish | source
In ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish the line takes effect in every shell.`
}

/**
 * Returns the output of `__complete`: the possible values of the last word of a command line, each on its own line.
 * Reads networks from `confDir`, or from the `--conf-dir` of the command line. `containersOf` returns the containers of
 * a network. An unreadable directory counts as empty.
 */
export function complete(
  commands: Readonly<Record<string, Completable>>,
  line: readonly string[],
  confDir: string,
  containersOf: (network: string) => readonly string[] = () => [],
): string {
  const current = line.at(-1) ?? ""
  const { words, values, open } = read(line.slice(0, -1), commands)
  if (current === "=") return ""
  const known = commandAt(words, commands)
  const candidates = () => {
    if (open !== undefined) return known?.command.flags[open]?.choices ?? []
    if (current.startsWith("-"))
      return ["--help", ...Object.keys(known?.command.flags ?? {}).map((name) => `--${name}`)]
    if (known === undefined) return nextWords(words, commands)
    const meaning = known.command.words[words.length - known.length]?.replace(/[[\]]/g, "")
    if (meaning === "NETWORK") return networksIn(values.get("conf-dir") ?? confDir)
    if (meaning === "CONTAINER") return containersOf(words.at(-1) ?? "")
    if (meaning === "SHELL") return shells
    if (meaning === "COMMAND") return nextWords([], commands)
    return known.command.choices?.[meaning ?? ""] ?? []
  }
  const fitting = new Set(candidates().filter((candidate) => candidate.startsWith(current)))
  return [...fitting].map((candidate) => `${candidate}\n`).join("")
}

interface Line {
  /** The words of the command line that are not flags. */
  readonly words: readonly string[]
  /** The values of flags, by the flags' long names. */
  readonly values: ReadonlyMap<string, string>
  /** The flag at the end of the line, if it needs a value. */
  readonly open: string | undefined
}

/**
 * Splits a command line into words and values of flags. Drops "=", because bash passes "--flag=value" as three words.
 */
function read(line: readonly string[], commands: Readonly<Record<string, Completable>>): Line {
  const flags = Object.values(commands).flatMap((command) => Object.entries(command.flags))
  const words: string[] = []
  const values = new Map<string, string>()
  let open: string | undefined
  for (const word of line.filter((each) => each !== "=")) {
    const [head = "", ...value] = word.split("=")
    if (open !== undefined) {
      values.set(open, word)
      open = undefined
    } else if (word.startsWith("-")) {
      const [name] = flags.find(([long, { short }]) => head === `--${long}` || head === `-${short}`) ?? []
      const takesValue = flags.some(([long, { type }]) => long === name && type === "string")
      if (name !== undefined && value.length > 0) values.set(name, value.join("="))
      else if (takesValue) open = name
    } else {
      words.push(word)
    }
  }
  return { words, values, open }
}

/** Returns the command at the beginning of `words`, and the number of words in its name, such as 2 for "ipam ls". */
function commandAt(words: readonly string[], commands: Readonly<Record<string, Completable>>) {
  for (const length of [3, 2, 1]) {
    const name = words.slice(0, length).join(" ")
    const command = words.length >= length && Object.hasOwn(commands, name) ? commands[name] : undefined
    if (command !== undefined) return { command, length }
  }
  return undefined
}

/** Returns the words that can follow these words in names of commands. */
export function nextWords(words: readonly string[], commands: Readonly<Record<string, Completable>>): string[] {
  return Object.keys(commands).flatMap((name) => {
    const parts = name.split(" ")
    const begins = words.every((word, index) => parts[index] === word)
    const next = begins ? parts[words.length] : undefined
    return next === undefined ? [] : [next]
  })
}

function networksIn(directory: string): string[] {
  try {
    return networkNames(directory)
  } catch {
    return []
  }
}
