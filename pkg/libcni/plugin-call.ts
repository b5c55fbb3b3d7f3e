import { formatCniArgs, pluginEnvironment, pluginError, requirePlugin } from "../invoke/mod.ts"
import { CniError, Code, type JsonObject, member, stringifyJson } from "../types/mod.ts"
import { execute } from "./execute.ts"
import type { Attachment, Network, NetworkPlugin, Runtime } from "./network.ts"

/** The operations that a runtime asks plugins for. */
export type Operation = "ADD" | "CHECK" | "DEL" | "GC" | "STATUS" | "VERSION"

/** What goes into the `CNI_*` variables; what is absent is set to "", and `CNI_PATH` to the runtime's. */
export type CallParameters = Partial<Pick<Attachment, "containerId" | "netns" | "ifName" | "args"> & { path: string }>

/**
 * Runs one plugin for one operation and returns its stdout. What it writes to stderr goes to the runtime's when it has ended,
 * unless the error quotes it. Throws the plugin's own error, or code 0 when it died without printing one; what `requirePlugin`
 * throws when it is not there.
 */
export async function callPlugin(
  runtime: Runtime,
  operation: Operation,
  type: string,
  request: JsonObject,
  parameters: CallParameters = {},
): Promise<string> {
  const said: Uint8Array[] = []
  let isQuoted = false
  try {
    const { stdout, stderr, cause } = await execute({
      file: requirePlugin(type, runtime.path.join(":")),
      env: environment(runtime, operation, parameters),
      stdin: stringifyJson(request),
      stderr: (chunk) => said.push(chunk),
      ...(runtime.timeoutMs === undefined ? {} : { timeoutMs: runtime.timeoutMs }),
      ...(runtime.signal === undefined ? {} : { signal: runtime.signal }),
    })
    isQuoted = cause !== undefined && stdout === ""
    if (cause !== undefined) throw pluginError({ stdout, stderr, cause })
    return stdout
  } finally {
    if (!isQuoted) for (const chunk of said) runtime.stderr(chunk)
  }
}

/** The runtime's environment with all six `CNI_*` variables set. */
function environment(runtime: Runtime, operation: Operation, given: CallParameters): Record<string, string> {
  const variables = {
    command: operation,
    containerId: given.containerId ?? "",
    netns: given.netns ?? "",
    ifName: given.ifName ?? "",
    args: formatCniArgs(given.args ?? []),
    path: given.path ?? runtime.path.join(":"),
  }
  const env = pluginEnvironment(runtime.env, variables, runtime.trace)
  const isSet = (entry: [string, string | undefined]): entry is [string, string] => entry[1] !== undefined
  return Object.fromEntries(Object.entries(env).filter(isSet))
}

/** Finds the executables of all plugins, so that a chain does not stop half-way for one that is not there. */
export function requirePlugins(runtime: Runtime, network: Network): void {
  for (const plugin of network.plugins) requirePlugin(plugin.type, runtime.path.join(":"))
}

/** A plugin's failure with the plugin in front: `plugin type="ptp" failed (add): …`; the code stays. */
export function failedPlugin(plugin: NetworkPlugin, verb: "add" | "delete" | "gc", error: unknown): CniError {
  const name = member(plugin.raw, "name")
  const who = `type="${plugin.type}"${typeof name === "string" && name !== "" ? ` name="${name}"` : ""}`
  const known = error instanceof CniError ? error : undefined
  const message = `plugin ${who} failed (${verb}): ${known?.message ?? String(error)}`
  return new CniError(known?.code ?? Code.Internal, message, { details: known?.details ?? "", cause: error })
}

/** One error for all: itself when there is one, else the first one's code and every text. */
export function joinErrors(errors: readonly CniError[]): CniError | undefined {
  const [first, ...more] = errors
  if (first === undefined || more.length === 0) return first
  return new CniError(first.code, errors.map(String).join("\n"), { details: "", cause: first })
}
