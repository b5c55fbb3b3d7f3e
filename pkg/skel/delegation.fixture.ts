// Plugins for tests: an interface plugin and its IPAM plugin. `bun delegation.fixture.ts` runs the IPAM plugin as a
// process, and `bun delegation.fixture.ts above` runs a third plugin, which calls the interface plugin.
import { CniError, type Result } from "../types/mod.ts"
import { definePlugin } from "./plugin.ts"
import { runPlugin } from "./process.ts"

const lease: Result = {
  interfaces: [],
  ips: [{ address: "192.0.2.7/24", gateway: "192.0.2.1" }],
  routes: [{ dst: "0.0.0.0/0", mtu: 1400 }],
  dns: { nameservers: ["192.0.2.53"] },
}

/** The IPAM plugin. It fails every verb in "ipam.failing" of its configuration. */
export const pool = definePlugin({
  name: "pool",
  config({ ipam }, { verb }) {
    const { failing } = ipam ?? {}
    if (Array.isArray(failing) && failing.includes(verb))
      throw new CniError(101, `no ${verb} <&> here`, { details: "é" })
  },
  add(call) {
    call.log("leasing")
    return call.answer(lease)
  },
  check() {},
  del() {},
  status() {},
  gc() {},
})

/** Returns a plugin that delegates every verb to another plugin. */
const handingOn = (name: string, to: string) =>
  definePlugin({
    name,
    config() {},
    add: (call) => call.answer(call.delegate.add(to)),
    check: (call) => call.delegate.check(to),
    del: (call) => call.delegate.del(to),
    status: (call) => call.delegate.status(to),
    gc: (call) => call.delegate.gc(to),
  })

export const outer = handingOn("outer", "pool")

if (import.meta.main) {
  if (process.argv[2] === "above") runPlugin(handingOn("above", "outer"), [outer, pool])
  runPlugin(pool)
}
