// An interface plugin and its IPAM plugin for tests, the latter also as a process, `bun delegation.fixture.ts`, and a
// plugin that has the former called, `bun delegation.fixture.ts above`.
import { CniError, type Result } from "../types/mod.ts"
import { definePlugin } from "./plugin.ts"
import { runPlugin } from "./process.ts"

const lease: Result = {
  interfaces: [],
  ips: [{ address: "192.0.2.7/24", gateway: "192.0.2.1" }],
  routes: [{ dst: "0.0.0.0/0", mtu: 1400 }],
  dns: { nameservers: ["192.0.2.53"] },
}

/** Fails every verb that its configuration's "ipam.failing" lists. */
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

/** Delegates every verb to another plugin, and logs its lines. */
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
