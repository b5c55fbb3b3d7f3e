import { join, makeDirectories, writeFile } from "../../pkg/libc/mod.ts"
import { type Command, given, text, UsageError } from "../command.ts"
import { schemaFiles, schemaOf, schemaText } from "./json-schema.ts"
import { knownPlugins } from "./plugins.ts"

export const schemaCommand: Command = {
  summary: "Print the JSON Schema of a network list or of one plugin",
  words: ["[PLUGIN]"],
  choices: { PLUGIN: ["conflist", ...knownPlugins.map(({ name }) => name)] },
  flags: {
    strict: { type: "boolean", help: "refuse unknown keys, which the plugins ignore" },
    write: { type: "string", value: "DIR", help: "write all schemas into a directory instead of printing one" },
    json: { type: "boolean", help: "no effect: a schema is always JSON" },
  },
  help: `Without PLUGIN it prints the schema of a network list, a .conflist, with all plugins; with PLUGIN the schema of
its object in "plugins". To use it in an editor:
  "$schema": "./schemas/conflist.json"     as first key of the file, or
  "json.schemas": [{ "fileMatch": ["*.conflist"], "url": "./conflist.json" }]     in VS Code's settings

A schema finds less than "cni lint": it misses contradicting keys, wrong addresses, and keys in another letter case.

Examples:
  cni schema > conflist.json
  cni schema bridge --strict
  cni schema --write schemas`,
  async run(args, { stdout }) {
    const directory = text(args, "write")
    if (directory !== undefined) {
      makeDirectories(directory)
      const files = Object.entries(schemaFiles())
      for (const [file, content] of files) writeFile(join(directory, file), content)
      stdout(`Wrote ${files.length} schemas into ${directory}\n`)
      return
    }
    const name = args.words[0] ?? "conflist"
    const schema = schemaOf(name, { strict: given(args, "strict") })
    if (schema === undefined) {
      const names = ["conflist", ...knownPlugins.map((known) => known.name)]
      throw new UsageError(`unknown plugin ${name}: expected ${names.join(", ")}`)
    }
    stdout(schemaText(schema))
  },
}
