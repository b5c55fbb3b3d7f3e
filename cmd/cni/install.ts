import {
  findVersion,
  install,
  requireExecutable,
  requireVersion,
  rollback,
  uninstall,
  verify,
} from "../../install/mod.ts"
import { dirname, executablePath, exists, join, resolve } from "../../pkg/libc/mod.ts"
import { pluginNames } from "../../suite/plugins.ts"
import {
  type Arguments,
  type Command,
  FOUND_FAULTS,
  Found,
  given,
  outputFlags,
  print,
  text,
  UsageError,
} from "../../tools/command.ts"
import { defaults, type Terminal } from "../../tools/environment.ts"
import { fittedTable } from "../../tools/screen.ts"

const ways = ["verify", "rollback", "uninstall"] as const

/** `cni install` */
export const installCommand: Command = {
  summary: "Put the plugins into a directory, say what became of them, or take them back",
  words: [],
  flags: {
    "bin-dir": { type: "string", value: "DIR", help: "where to; must exist (default /opt/cni/bin)" },
    "tool-dir": {
      type: "string",
      value: "DIR",
      help: "put this tool there too, as cni and cnitool, and cni-agent; not by default",
    },
    adopt: { type: "boolean", help: "also replace files that others placed, and keep them" },
    verify: { type: "boolean", help: "say which files were replaced, removed or changed since; exit code 3 then" },
    rollback: { type: "boolean", help: "put back what was there before the last installation" },
    uninstall: { type: "boolean", help: "remove the plugins, and put back what --adopt displaced" },
    "dry-run": { type: "boolean", help: "only say what would be done" },
    ...outputFlags,
  },
  help: `Installs ${pluginNames.join(", ")}, which lie beside this tool,
each as a file of its own, so that an installer that writes over one of them spoils no other. A file of one of these names
that was placed by others is replaced with --adopt only, and kept; other files are not touched. Containers and plugins that
run are not disturbed, and doing it again changes nothing. An installation that was interrupted is finished by the next
one, or taken back by --rollback.

Examples:
  cni install --dry-run
  cni install --bin-dir /usr/lib/cni
  cni install --tool-dir /usr/local/bin
  cni install --verify
  cni install --rollback`,
  async run(args, terminal) {
    const [way, ...more] = ways.filter((flag) => given(args, flag))
    if (more.length > 0) throw new UsageError(`cannot use --${way} with --${more[0]}: give one of them`)
    const places = placesOf(args)
    if (way === "verify") return tellDifferences(args, terminal, places)
    const act = way === "rollback" ? rollback : way === "uninstall" ? uninstall : undefined
    const files = places.map((place) => ({ ...place, outcomes: act ? act(place) : install(place.source()) }))
    const said = (did: string) => (given(args, "dry-run") && !/^(unchanged|left)$/.test(did) ? `would be ${did}` : did)
    print(args, terminal, {
      json: () => files.map(({ directory, outcomes }) => ({ directory, files: outcomes })),
      text: (screen) =>
        files
          .map(({ title, directory, outcomes }) => {
            const rows = outcomes.map(({ name, did }) => [name, said(did)])
            return `${directory}\n${fittedTable([title, "WHAT"], rows, screen)}`
          })
          .join(""),
    })
  },
}

/** A directory that the command is about, and what is to be installed into it. */
interface InstallPlace {
  readonly title: string
  readonly directory: string
  readonly adopt: boolean
  readonly dryRun: boolean
  readonly source: () => Parameters<typeof install>[0]
}

function placesOf(args: Arguments): InstallPlace[] {
  const common = { adopt: given(args, "adopt"), dryRun: given(args, "dry-run") }
  const directory = resolve(text(args, "bin-dir") ?? defaults.binDir)
  const plugins = () => {
    const from = pluginsBeside(dirname(executablePath()))
    const source = (name: string) => join(from, name)
    const checks = { inspect: requireExecutable, introduce: requireVersion }
    return { ...common, ...checks, directory, from, source, names: pluginNames }
  }
  const places: InstallPlace[] = [{ ...common, title: "PLUGIN", directory, source: plugins }]
  const toolDir = text(args, "tool-dir")
  if (toolDir === undefined) return places
  const tools = () => {
    const from = dirname(executablePath())
    const agent = join(from, "cni-agent")
    const names = ["cni", "cnitool", ...(exists(agent) ? ["cni-agent"] : [])]
    const source = (name: string) => (name === "cni-agent" ? agent : executablePath())
    return { ...common, inspect: requireExecutable, directory: resolve(toolDir), from, source, names }
  }
  return [...places, { ...common, title: "TOOL", directory: resolve(toolDir), source: tools }]
}

/** Prints what is not as it was installed. Ends with exit code 3 when there is anything. */
function tellDifferences(args: Arguments, terminal: Terminal, places: readonly InstallPlace[]): void {
  const found = places.map(({ title, directory }) => {
    const verified = verify(directory)
    if (!verified) throw new Error(`Cannot verify "${directory}": nothing was installed there by "cni install"`)
    const { manifest, differences, interrupted } = verified
    const files = differences.map(({ name, is }) => {
      const version = is === "replaced" ? findVersion(join(directory, name)) : undefined
      return { name, is, ...(version !== undefined && { by: version }) }
    })
    const { installed, from, files: all } = manifest
    return { title, directory, installed, from, count: Object.keys(all).length, interrupted, files }
  })
  print(args, terminal, {
    json: () => found.map(({ title, count, ...rest }) => rest),
    text: (screen) =>
      found
        .map(({ title, directory, installed, from, count, interrupted, files }) => {
          const head = `${directory}: ${count} files of ${from}, installed ${installed}\n`
          const note = interrupted === undefined ? "" : `${interruptionNote(interrupted)}\n`
          if (files.length === 0) return `${head}${note || "All are as they were installed.\n"}`
          const rows = files.map(({ name, is, by }) => [name, by === undefined ? is : `${is} by ${by}`])
          return `${head}${note}${fittedTable([title, "WHAT"], rows, screen)}`
        })
        .join(""),
  })
  if (found.some(({ files, interrupted }) => files.length > 0 || interrupted !== undefined))
    throw new Found(FOUND_FAULTS)
}

function interruptionNote(kind: string): string {
  const what = { install: "An installation", rollback: "A rollback", uninstall: "A removal" }[kind]
  return `${what} was interrupted: "cni install" finishes it, "cni install --rollback" takes it back.`
}

/** The directory of the plugins: `bin` beside this tool, as built, or that of the tool, as unpacked. */
function pluginsBeside(directory: string): string {
  const places = [join(directory, "bin"), directory]
  const missing = places.map((place) => pluginNames.filter((name) => !exists(join(place, name))))
  const found = places.find((_, at) => missing[at]?.length === 0)
  if (found !== undefined) return found
  const [inBin = [], beside = []] = missing
  const fewest = inBin.length <= beside.length ? inBin : beside
  throw new Error(
    `Cannot find the plugins to install: expected all of them in ${places.join(" or ")}, without ${fewest.join(", ")}`,
  )
}
