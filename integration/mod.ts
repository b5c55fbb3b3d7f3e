/**
 * What integration tests are written with: hosts and containers made of namespaces, plugins run as a runtime runs
 * them, traffic between namespaces, and snapshots of everything that a plugin may change. Needs root.
 * @example
 * await using host = await HostNamespace.create()
 * const pod = await host.addContainer()
 * const before = await takeSnapshot(host)
 * const added = await runPlugin(host, { bin, verb: "ADD", config, containerId: "a", netns: pod.path, ifName: "eth0" })
 * expect(added.exitCode).toBe(0)
 * …
 * expectUnchanged(before, await takeSnapshot(host))
 * @module
 */
export { compileProgram } from "./c-program.ts"
export { type CableEnd, connect } from "./cable.ts"
export type { ContainerNamespace } from "./container-namespace.ts"
export { askEcho, EchoPeer, type EchoQuestion, type EchoReply, type Transport } from "./echo-peer.ts"
export { HostNamespace, privateDirectories } from "./host-namespace.ts"
export type { Namespace } from "./namespace.ts"
export { listNamespaces, namespacePrefix } from "./namespace-names.ts"
export { ping } from "./ping.ts"
export {
  mustRun,
  type Output,
  ProgramError,
  type ProgramOptions,
  programEnv,
  runProgram,
  startDaemon,
} from "./program.ts"
export { type PluginCall, type PluginOutput, pluginEnv, runPlugin } from "./run-plugin.ts"
export { type Change, diffSnapshots, formatChanges } from "./snapshot/diff.ts"
export { expectUnchanged, type Snapshot, takeSnapshot } from "./snapshot/snapshot.ts"
export { readSysctl, setIpv4Defaults, writeSysctl } from "./sysctl.ts"
export { TemporaryDirectory } from "./temporary-directory.ts"
export { waitFor } from "./wait-for.ts"
