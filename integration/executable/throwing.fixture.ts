// A plugin with a bug, for the tests of stack traces. It runs as `bun throwing.fixture.ts`, or is built like the
// plugins.
import { definePlugin, runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"

/** Has the bug: it uses a value that may be missing. */
function lookInto(value: { inner?: { name: string } }): string {
  const found = value.inner as { name: string }
  return found.name
}

class Outer {
  readonly #value = {}

  describe(): string {
    const described = lookInto(this.#value)
    return `the ${described}`
  }
}

function fail(): never {
  const outer = new Outer()
  throw new CniError(Code.Internal, outer.describe())
}

function forever(depth: number): number {
  return forever(depth + 1) + 1
}

export const throwing = definePlugin<{ recurses: boolean }>({
  name: "throwing",
  config: (network) => ({ recurses: network.name === "recursion" }),
  add: (_call, { recurses }) => {
    if (recurses) forever(0)
    return fail()
  },
  check: fail,
  del: fail,
  status: fail,
  gc: fail,
})

export const run = () => runPlugin(throwing)

if (import.meta.main) run()
