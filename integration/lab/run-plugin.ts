import { dirname } from "node:path"
import type { HostNamespace } from "./host-namespace.ts"
import type { Output } from "./program.ts"

/** A plugin call as a runtime makes it. */
export interface PluginCall {
  /** The absolute path of the executable. */
  readonly bin: string
  readonly verb: "ADD" | "DEL" | "CHECK" | "GC" | "STATUS" | "VERSION"
  /** The configuration on stdin: a value to encode as JSON, or raw bytes. */
  readonly config?: object | string | Uint8Array
  readonly containerId?: string
  /** The path of the container's namespace. */
  readonly netns?: string
  readonly ifName?: string
  /** The value of `CNI_ARGS`, like `IgnoreUnknown=1;MAC=02:00:00:00:00:01`. */
  readonly args?: string
  /** The value of `CNI_PATH`, by default the directory of `bin`. */
  readonly path?: string
  /** Further environment variables, which override those of the other fields. */
  readonly env?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
  /** A command that runs the plugin, such as `["prlimit", "--nofile=16"]`. The plugin's path is its last argument. */
  readonly under?: readonly string[]
}

/** The output of a plugin. `json` is its parsed stdout, or `undefined` if stdout is empty or not JSON. */
export interface PluginOutput extends Output {
  readonly json: unknown
}

/**
 * Runs a plugin inside the host namespace and returns its output, also after a failure. The environment contains only
 * the given `CNI_*` variables and PATH. `durationMs` includes about a millisecond for entering the namespace.
 */
export async function runPlugin(host: HostNamespace, call: PluginCall): Promise<PluginOutput> {
  const [file = "", ...args] = [...(call.under ?? []), call.bin]
  const output = await host.tryExec(file, args, {
    env: pluginEnv(call),
    input: configBytes(call.config),
    ...(call.timeoutMs === undefined ? {} : { timeoutMs: call.timeoutMs }),
  })
  return { ...output, json: parseJson(output.stdout) }
}

/** Returns the whole environment of a plugin call. A field that is undefined sets no variable. */
export function pluginEnv(call: PluginCall): Record<string, string> {
  const variables: Record<string, string | undefined> = {
    CNI_COMMAND: call.verb,
    CNI_CONTAINERID: call.containerId,
    CNI_NETNS: call.netns,
    CNI_IFNAME: call.ifName,
    CNI_ARGS: call.args,
    CNI_PATH: call.path ?? dirname(call.bin),
    PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
    ...call.env,
  }
  const isSet = (entry: [string, string | undefined]): entry is [string, string] => entry[1] !== undefined
  return Object.fromEntries(Object.entries(variables).filter(isSet))
}

function configBytes(config: PluginCall["config"]): string | Uint8Array {
  if (config === undefined) return ""
  return typeof config === "string" || config instanceof Uint8Array ? config : JSON.stringify(config)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
