// An interface plugin and its IPAM plugin for tests, the latter also as a process: `bun delegation.fixture.ts`.
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

/** Hands every verb on to "pool", and has its log lines as its own. */
export const outer = definePlugin({
  name: "outer",
  config() {},
  add: (call) => call.answer(call.delegate.add("pool")),
  check: (call) => call.delegate.check("pool"),
  del: (call) => call.delegate.del("pool"),
  status: (call) => call.delegate.status("pool"),
  gc: (call) => call.delegate.gc("pool"),
})

if (import.meta.main) runPlugin(pool)
