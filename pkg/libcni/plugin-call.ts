import { formatCniArgs, pluginEnvironment, pluginError, requirePlugin, validatePluginName } from "../invoke/mod.ts"
import { CniError, Code, isCniError, type JsonObject, member, stringifyJson } from "../types/mod.ts"
import type { Execution, Outcome } from "./exec.ts"
import { execute } from "./execute.ts"
import type { Attachment, Network, NetworkPlugin, Runtime } from "./network.ts"
import { throwIfStopped } from "./stop.ts"

export type Operation = "ADD" | "CHECK" | "DEL" | "GC" | "STATUS" | "VERSION"

/** The `CNI_*` variables. An absent value is "", except `path` (`CNI_PATH`), which is the runtime's by default. */
export type CallParameters = Partial<Pick<Attachment, "containerId" | "netns" | "ifName" | "args"> & { path: string }>

interface PluginCall {
  readonly operation: Operation
  readonly type: string
  readonly request: JsonObject
  readonly parameters?: CallParameters
}

/**
 * Runs a plugin for an operation and returns its stdout. After the plugin has ended, writes its stderr to the
 * runtime's, unless the error quotes it. Throws the plugin's own error, code 0 if the plugin died without printing one,
 * or the error of `requirePlugin`.
 */
export async function callPlugin(
  runtime: Runtime,
  { operation, type, request, parameters = {} }: PluginCall,
): Promise<string> {
  const said: Uint8Array[] = []
  let isQuoted = false
  try {
    const { stdout, stderr, cause } = await run(runtime, type, {
      file: await findPlugin(runtime, type),
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
    if (!isQuoted) for (const chunk of said) tell(runtime, chunk)
  }
}

/** Passes stderr to the runtime. Ignores errors, because a failing log must not stop an attachment halfway. */
function tell(runtime: Runtime, chunk: Uint8Array): void {
  try {
    runtime.stderr(chunk)
  } catch {}
}

async function findPlugin({ exec, path }: Runtime, type: string): Promise<string> {
  validatePluginName(type)
  if (!exec?.findPlugin) return requirePlugin(type, path.join(":"))
  try {
    return await exec.findPlugin(type, path)
  } catch (cause) {
    throw isCniError(cause) ? cause : new CniError(Code.Internal, `failed to find plugin "${type}"`, { cause })
  }
}

async function run({ exec }: Runtime, type: string, execution: Execution): Promise<Outcome> {
  if (!exec?.run) return await execute(execution)
  throwIfStopped(execution.signal)
  const failed = (cause: unknown) => new CniError(Code.Io, `Cannot run plugin "${type}"`, { cause })
  let outcome: Outcome
  try {
    outcome = await exec.run(execution)
  } catch (cause) {
    throwIfStopped(execution.signal)
    throw isCniError(cause) ? cause : failed(cause)
  }
  const { stdout, stderr, cause } = outcome ?? {}
  const isOutcome = typeof stdout === "string" && typeof stderr === "string" && typeof (cause ?? "") === "string"
  if (!isOutcome) throw failed(new Error("exec.run did not return stdout, stderr and cause"))
  return { stdout, stderr, cause: cause ?? undefined }
}

/** Returns the runtime's environment with all six `CNI_*` variables. */
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

/** Finds the executables of all plugins, so that a missing one does not stop a chain halfway. */
export async function requirePlugins(runtime: Runtime, network: Network): Promise<void> {
  for (const plugin of network.plugins) await findPlugin(runtime, plugin.type)
}

/** Returns a plugin's error, its code unchanged, with the plugin in front: `plugin type="ptp" failed (add): …`. */
export function failedPlugin(plugin: NetworkPlugin, verb: "add" | "delete" | "gc", error: unknown): CniError {
  const name = member(plugin.raw, "name")
  const who = `type="${plugin.type}"${typeof name === "string" && name !== "" ? ` name="${name}"` : ""}`
  const known = error instanceof CniError ? error : undefined
  const message = `plugin ${who} failed (${verb}): ${known?.message ?? String(error)}`
  return new CniError(known?.code ?? Code.Internal, message, { details: known?.details ?? "", cause: error })
}

/** Combines errors into one: a single error unchanged, otherwise with the first one's code and all texts. */
export function joinErrors(errors: readonly CniError[]): CniError | undefined {
  const [first, ...more] = errors
  if (first === undefined || more.length === 0) return first
  return new CniError(first.code, errors.map(String).join("\n"), { details: "", cause: first })
}
