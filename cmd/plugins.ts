/**
 * Every plugin of the executable, by the name that runtimes call it by, in alphabetical order. Each has its entry in
 * `entries/`.
 */
export const pluginNames: readonly string[] = [
  "bridge",
  "host-local",
  "loopback",
  "macvlan",
  "portmap",
  "ptp",
  "sbr",
  "static",
  "tuning",
]
