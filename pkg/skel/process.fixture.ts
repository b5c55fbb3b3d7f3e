// A plugin as a process of its own that misbehaves as its configuration's "name" says: `bun process.fixture.ts`.
import { Recorder } from "./plugin.fixture.ts"
import type { Call } from "./plugin.ts"
import { runPlugin } from "./run.ts"

const behaviours: Readonly<Record<string, (call: Call) => void>> = {
  fine() {},
  chatty(call) {
    console.error("a line of somebody else")
    call.log("a line of the plugin")
  },
  throws() {
    throw new Error("on purpose")
  },
  "throws-later"() {
    queueMicrotask(() => {
      throw new Error("too late")
    })
  },
  exits() {
    process.exit(0)
  },
}

const neverLoaded = { gone: () => new Promise<never>(() => {}) }
const brokenChunk = { gone: () => Promise.reject(new Error("the chunk is gone")) }

const recorder = new Recorder({ behave: (call) => behaviours[call.network.name]?.(call) })
const { plugin } = recorder

if (import.meta.main) {
  if (process.argv[2] === "crash-early") setTimeout(() => crash(), 0)
  const table = process.argv[2] === "never-loaded" ? neverLoaded : process.argv[2] ? brokenChunk : {}
  runPlugin({ ...plugin, delegates: () => ["gone"] }, table)
}

function crash(): never {
  throw new Error("out of nowhere")
}
