// A plugin as a process of its own: `bun process.fixture.ts [STARTUP]`. What its verbs do is the "name" of the network.
import { Recorder } from "./plugin.fixture.ts"
import type { Call } from "./plugin.ts"
import { type PluginTable, runPlugin } from "./run.ts"

const behaviours: Readonly<Record<string, (call: Call) => void>> = {
  fine() {},
  chatty(call) {
    console.error("a line of somebody else")
    call.log("a line of the plugin")
  },
  throws() {
    throw new Error("on purpose")
  },
  exits() {
    process.exit(0)
  },
  "leaves-things"() {
    setTimeout(() => {}, 60_000)
    queueMicrotask(() => {
      throw new Error("too late")
    })
  },
}

/** What happens while the chunk of the delegate is loaded; answers the plugin in it, if ever. */
const startups: Readonly<Record<string, PluginTable[string]>> = {
  "never-loaded": () => new Promise(() => {}),
  "broken-chunk": () => Promise.reject(new Error("the chunk is gone")),
  "crash-early"() {
    setTimeout(() => {
      throw new Error("out of nowhere")
    }, 0)
    return new Promise(() => {})
  },
  "reject-early"() {
    Promise.reject(new Error("nobody cares"))
    return new Promise(() => {})
  },
}

if (import.meta.main) {
  const { plugin } = new Recorder({ behave: (call) => behaviours[call.network.name]?.(call) })
  const startup = startups[process.argv[2] ?? ""]
  runPlugin({ ...plugin, delegates: () => ["other"] }, startup ? { other: startup } : {})
}
