// A plugin as its own process: `bun process.fixture.ts`. The "name" of the network selects the behavior of its verbs.
import { Recorder } from "./plugin.fixture.ts"
import type { Call } from "./plugin.ts"
import { runPlugin } from "./process.ts"

const behaviours: Readonly<Record<string, (call: Call) => void>> = {
  fine() {},
  chatty(call) {
    console.error("a line of another program")
    call.log("a line of the plugin")
  },
  throws() {
    throw new Error("on purpose")
  },
  "leaves-things"() {
    setTimeout(() => {}, 60_000)
    queueMicrotask(() => {
      throw new Error("too late")
    })
  },
}

if (import.meta.main) runPlugin(new Recorder({ behave: (call) => behaviours[call.network.name]?.(call) }).plugin)
