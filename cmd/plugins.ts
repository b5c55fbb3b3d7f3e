import type { PluginTable } from "../pkg/skel/mod.ts"

/**
 * Every plugin of the executable under the name that runtimes call it by. Each is a chunk of its own: what is not called
 * is not loaded.
 */
export const plugins: PluginTable = {
  bridge: () => import("../plugins/bridge/main.ts").then((module) => module.bridge),
  "host-local": () => import("../ipam/host-local/main.ts").then((module) => module.hostLocal),
  loopback: () => import("../plugins/loopback/main.ts").then((module) => module.loopback),
  portmap: () => import("../meta/portmap/main.ts").then((module) => module.portmap),
  ptp: () => import("../plugins/ptp/main.ts").then((module) => module.ptp),
  static: () => import("../ipam/static/main.ts").then((module) => module.staticIpam),
  tuning: () => import("../meta/tuning/main.ts").then((module) => module.tuning),
}

/** The names that `cni install` gives to the executable, in alphabetical order. */
export function pluginNames(): string[] {
  return Object.keys(plugins).sort()
}
