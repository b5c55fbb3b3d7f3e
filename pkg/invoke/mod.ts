/**
 * Runs plugins: finds the executable, passes it the input of the protocol, and reads its answer.
 *
 * @example
 * const path = requirePlugin("host-local", "/opt/cni/bin")
 * const env = pluginEnvironment(process.env, { command: "ADD", … })
 * const result = readResult(execPlugin({ path, env, stdin }), "1.1.0")
 */

export { type Delegate, type DelegateContext, delegateTo } from "./delegate.ts"
export { type CniVariables, formatCniArgs, pluginEnvironment, type TraceContext } from "./environment.ts"
export { busyWaitsMs, type Environment, type Execution, execPlugin } from "./exec.ts"
export type { Builtin, Builtins, Reply } from "./find.ts"
export { findPluginName, PluginNotFound, pluginPath, requirePlugin, validatePluginName } from "./find.ts"
export { type PluginFailure, pluginError, readResult, readVersions } from "./printed.ts"
