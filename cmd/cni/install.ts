import { existsSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { pluginNames } from "../../suite/plugins.ts"
import { type Command, given, outputFlags, print, text } from "../../tools/command.ts"
import { defaults } from "../../tools/environment.ts"
import { fittedTable } from "../../tools/screen.ts"
import { type Installed, install } from "../install.ts"

/** `cni install` */
export const installCommand: Command = {
  summary: "Put the plugins into a directory",
  words: [],
  flags: {
    "bin-dir": { type: "string", value: "DIR", help: "where to; must exist (default /opt/cni/bin)" },
    "tool-dir": {
      type: "string",
      value: "DIR",
      help: "put this tool there too, as cni and cnitool, and cni-agent; not by default",
    },
    "dry-run": { type: "boolean", help: "only say what would be done" },
    ...outputFlags,
  },
  help: `Installs ${pluginNames.join(", ")}, which lie beside this tool,
each as a file of its own, so that an installer that writes over one of them spoils no other. A file there of one
of these names is replaced; other files are not touched. Containers and plugins that run are not disturbed, and doing it
again changes nothing. To go back, install the other suite over it.

Examples:
  cni install --dry-run
  cni install --bin-dir /usr/lib/cni
  cni install --tool-dir /usr/local/bin`,
  async run(args, terminal) {
    const beside = pluginsBeside(dirname(process.execPath))
    const source = (name: string) => join(beside, name)
    const dryRun = given(args, "dry-run")
    const directory = resolve(text(args, "bin-dir") ?? defaults.binDir)
    const plugins = { source, directory, names: pluginNames, dryRun }
    const done = [{ title: "PLUGIN", directory, installed: install(plugins) }]
    const tools = text(args, "tool-dir")
    if (tools !== undefined) {
      const agent = join(dirname(process.execPath), "cni-agent")
      const names = ["cni", "cnitool", ...(existsSync(agent) ? ["cni-agent"] : [])]
      const source = (name: string) => (name === "cni-agent" ? agent : process.execPath)
      const place = { source, directory: resolve(tools), names, dryRun }
      done.push({ title: "TOOL", directory: place.directory, installed: install(place) })
    }
    const said = ({ name, did }: Installed) => [name, dryRun && did !== "unchanged" ? `would be ${did}` : did]
    print(args, terminal, {
      json: () => done.map(({ directory, installed }) => ({ directory, files: installed })),
      text: (screen) =>
        done
          .map(({ title, directory, installed }) => {
            return `${directory}\n${fittedTable([title, "WHAT"], installed.map(said), screen)}`
          })
          .join(""),
    })
  },
}

/** The directory of the plugins: `bin` beside this tool, as built, or that of the tool, as unpacked. */
function pluginsBeside(directory: string): string {
  const places = [join(directory, "bin"), directory]
  const found = places.find((place) => pluginNames.every((name) => existsSync(join(place, name))))
  if (found === undefined)
    throw new Error(`Cannot find the plugins to install: expected all of them in ${places.join(" or ")}`)
  return found
}
