// The multi-call entry: the name that the executable was called by decides what it is. Nothing but the names is imported
// here: each line costs every plugin of every pod. No top-level await: it would turn a lost promise into a hang.
import { pluginNames, toolNames } from "./plugins.ts"

/** What each file of `entries/` is. In the executable it is a bundle: whatever it needs comes with it, in one piece. */
interface Entry {
  run(): unknown
}

process.exitCode = 1 // until the one who was called says otherwise

const name = process.argv0.slice(process.argv0.lastIndexOf("/") + 1)

if (pluginNames.includes(name) || toolNames.includes(name)) {
  const isVersion = pluginNames.includes(name) && process.env.CNI_COMMAND === "VERSION"
  const path: string = `./entries/${isVersion ? "version" : name}.js` // not a literal: it would be bundled in here
  import(path).then((entry: Entry) => entry.run(), cannotLoad)
} else {
  const names = [...toolNames, ...pluginNames].join(", ")
  refuse(`Cannot act as "${name}": no such plugin or tool`, 4, `names that this executable answers to: ${names}`)
}

function cannotLoad(error: unknown): void {
  refuse(`Cannot load "${name}"`, 999, error instanceof Error ? error.message : String(error))
}

/** Tells a runtime on stdout, as the protocol wants it, and a human on stderr. */
function refuse(msg: string, code: number, details: string): void {
  if (process.env.CNI_COMMAND) console.log(JSON.stringify({ cniVersion: "1.1.0", code, msg, details }))
  else console.error(`${msg}; ${details}. Run it as "cni --help" to see what it can do`)
}
