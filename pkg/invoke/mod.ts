/**
 * Running plugins: finding the executable, speaking the protocol with it, reading what it answers.
 *
 * @example
 * const path = findPlugin("host-local", "/opt/cni/bin")
 * const env = pluginEnvironment(process.env, { command: "ADD", … })
 * const result = readResult(execPlugin({ path, env, stdin }), "1.1.0")
 */
export type { Builtin, Builtins, Reply } from "./builtin.ts"
export { type Delegate, type DelegateContext, delegateTo } from "./delegate.ts"
export { type CniVariables, formatCniArgs, pluginEnvironment, type TraceContext } from "./environment.ts"
export { busyWaitsMs, type Environment, type Execution, execPlugin } from "./exec.ts"
export { type PluginFailure, pluginError } from "./failure.ts"
export { findPlugin, PluginNotFound } from "./find.ts"
export { type Probe, probeVersions, readVersions } from "./probe.ts"
export { readResult } from "./result.ts"
