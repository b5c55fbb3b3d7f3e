import { resolve } from "node:path"
import { defaults } from "../attachment.ts"
import { install } from "../install/install.ts"
import { pluginNames } from "../plugins.ts"
import { type Command, given, text } from "./command.ts"
import { table } from "./result-table.ts"

/** `cni install` */
export const installCommand: Command = {
  summary: "Put the plugins into a directory",
  words: [],
  flags: {
    "bin-dir": { type: "string", value: "DIR", help: "where to; must exist (default /opt/cni/bin)" },
    "dry-run": { type: "boolean", help: "only say what would be done" },
  },
  help: `Installs ${pluginNames.join(", ")}: one copy of this executable with a hard link for each name.
A file there of one of these names is replaced, whoever made it; other files are not touched. Containers and plugins that
run are not disturbed, and doing it again changes nothing. To go back, install the other suite over it.

Examples:
  cni install --dry-run
  cni install --bin-dir /usr/lib/cni`,
  async run(args, { stdout }) {
    if (!import.meta.path.startsWith("/$bunfs/")) {
      throw new Error("Cannot install from the sources: build the executable and run that")
    }
    const dryRun = given(args, "dry-run")
    const directory = resolve(text(args, "bin-dir") ?? defaults.binDir)
    const source = "/proc/self/exe" // also right when the file has been replaced since we started
    const installed = install({ source, directory, names: pluginNames, dryRun })
    const rows = installed.map(({ name, did }) => [name, dryRun && did !== "unchanged" ? `would be ${did}` : did])
    stdout(`${directory}\n${table(["PLUGIN", "WHAT"], rows)}`)
  },
}
