import { existsSync } from "node:fs"
import { resolve } from "node:path"
import { loadNetwork, type Network, type Runtime } from "../../pkg/libcni/mod.ts"
import { defaults, readPath } from "../attachment.ts"
import type { Terminal } from "../terminal.ts"
import { type Arguments, type Flag, text } from "./command.ts"

/** The flags of every command that runs plugins. */
export const runtimeFlags = {
  "conf-dir": { type: "string", value: "DIR", help: "network configurations (NETCONFPATH, else /etc/cni/net.d)" },
  "bin-dir": { type: "string", value: "DIR[:DIR]", help: "plugins (CNI_PATH, else /opt/cni/bin)" },
  "cache-dir": { type: "string", value: "DIR", help: "results of ADD, for CHECK and DEL (default /var/lib/cni)" },
  timeout: { type: "string", value: "SECONDS", help: "kill a plugin that takes longer (default: never)" },
  json: { type: "boolean", help: "print JSON, also on a terminal and for errors" },
} as const satisfies Record<string, Flag>

/** The runtime that the flags and the environment ask for. */
export function runtimeOf(args: Arguments, { env, stderr, signal }: Terminal): Runtime {
  const timeout = text(args, "timeout")
  return {
    path: readPath(text(args, "bin-dir") ?? (env.CNI_PATH || defaults.binDir)),
    cacheDir: resolve(text(args, "cache-dir") ?? defaults.cacheDir),
    env,
    stderr,
    signal,
    ...(timeout === undefined ? {} : { timeoutMs: readSeconds(timeout) }),
  }
}

/** Loads the network of that name; what is odd about the files goes to stderr. */
export function networkOf(name: string, args: Arguments, { env, stderr }: Terminal): Network {
  const network = loadNetwork(text(args, "conf-dir") ?? (env.NETCONFPATH || defaults.confDir), name)
  for (const warning of network.warnings) stderr(`Warning: ${warning}\n`)
  return network
}

/** A namespace as a path: what `ip netns` calls "demo" is /run/netns/demo. Its existence is the plugins' affair. */
export function netnsPath(given: string): string {
  const named = `/run/netns/${given}`
  return !given.includes("/") && !existsSync(given) && existsSync(named) ? named : resolve(given)
}

function readSeconds(timeout: string): number {
  const seconds = Number(timeout)
  if (Number.isFinite(seconds) && seconds > 0) return seconds * 1000
  throw new Error(`Cannot use --timeout ${timeout}: expected a number of seconds above 0`)
}
