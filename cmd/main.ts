// The multi-call entry: the name that the executable was called by decides what it is. Nothing but the table is imported
// here: each line costs every plugin of every pod. No top-level await: it would turn a lost promise into a hang.
import { plugins } from "./plugins.ts"

process.exitCode = 1 // until the one who was called says otherwise

const name = process.argv0.slice(process.argv0.lastIndexOf("/") + 1)
const plugin = Object.hasOwn(plugins, name) ? plugins[name] : undefined

if (plugin && process.env.CNI_COMMAND === "VERSION") {
  import("./version.ts").then((version) => {
    console.log(version.versionReply())
    process.exitCode = 0
  })
} else if (plugin) {
  Promise.all([import("../pkg/skel/mod.ts"), plugin()]).then(
    ([skel, loaded]) => skel.runPlugin(loaded, plugins),
    cannotLoad,
  )
} else if (name === "cni") {
  import("./cni/main.ts").then((tool) => tool.runTool(process.argv.slice(2)))
} else if (name === "cnitool") {
  import("./cnitool/main.ts").then((tool) => tool.runCnitool(process.argv.slice(2)))
} else {
  unknownName()
}

/** Tells a runtime on stdout, as the protocol wants it, and a human on stderr. */
function unknownName(): void {
  const msg = `Cannot act as "${name}": no such plugin or tool`
  const details = `names that this executable answers to: cni, cnitool, ${Object.keys(plugins).sort().join(", ")}`
  if (process.env.CNI_COMMAND) console.log(JSON.stringify({ cniVersion: "1.1.0", code: 4, msg, details }))
  else console.error(`${msg}; ${details}. Run it as "cni --help" to see what it can do`)
}

function cannotLoad(error: unknown): void {
  const details = error instanceof Error ? error.message : String(error)
  console.log(JSON.stringify({ cniVersion: "1.1.0", code: 999, msg: `Cannot load the plugin "${name}"`, details }))
}
