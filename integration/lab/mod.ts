/**
 * What integration tests are written with: hosts and containers made of namespaces, plugins run as a runtime runs
 * them, traffic between namespaces, and snapshots of everything that a plugin may change. Needs root.
 * @example
 * await using host = await HostNamespace.create()
 * const pod = await host.addContainer()
 * const before = await takeSnapshot(host)
 * const attachment = new Attachment(host, pod, bridgeNetwork())
 * await attachment.add()
 * …
 * expectUnchanged(before, await takeSnapshot(host))
 * @module
 */
export { type AddressPair, type AttachingPlugin, bridge, ptp, ptpNetwork } from "./attaching-plugins.ts"
export {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  fail,
  isAllocationTrace,
  newest,
  type PluginError,
  type PluginResult,
  succeed,
} from "./attachment.ts"
export { CProgram, compileProgram } from "./c-program.ts"
export { type CableEnd, connect } from "./cable.ts"
export { type Breakage, commonBreakages } from "./cases/breakages.ts"
export { testDel, usedHost } from "./cases/del.ts"
export { testUndo } from "./cases/undo.ts"
export { testVersions } from "./cases/versions.ts"
export type { ContainerNamespace } from "./container-namespace.ts"
export { askEcho, EchoPeer, type EchoQuestion, type EchoReply, type Transport } from "./echo/peer.ts"
export { UdpFlow } from "./echo/udp-flow.ts"
export { type Attached, type AttachOptions, type Network, pluginsAs, type Role, Stage } from "./every-plugin.ts"
export { allFeatures, type Feature, hasFeature } from "./features.ts"
export { advertised, advertiseRouter, capture, learnt } from "./frames/frames.ts"
export { HostNamespace, privateDirectories } from "./host-namespace.ts"
export { chooseIptables, type IptablesKind, mountOver } from "./iptables-kind.ts"
export { type LeftOut, leftOutLine, leftOutTests, titlesWith } from "./left-out.ts"
export { addressesOf, changeMac, type KernelLink, linkNames, linkOf, portOf, vlansOf } from "./links.ts"
export { Namespace } from "./namespace.ts"
export { listNamespaces, namespacePids, namespacePrefix } from "./namespace-names.ts"
export { patient } from "./patience.ts"
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
export { testWith } from "./test-with.ts"
export { waitFor } from "./wait-for.ts"
export { liveWhole } from "./whole-life.ts"
