/**
 * Every plugin of the executable, by the name that runtimes call it by, in alphabetical order. Each has its entry in
 * `entries/`, which the build makes into a bundle of its own.
 */
export const pluginNames: readonly string[] = ["bridge", "host-local", "loopback", "portmap", "ptp", "static", "tuning"]

/** The names under which the executable is a tool for humans. */
export const toolNames: readonly string[] = ["cni", "cnitool"]
