/**
 * Tools for integration tests: hosts and containers as namespaces, plugin calls like a runtime's, traffic between
 * namespaces, and snapshots of everything that a plugin may change. Needs root.
 *
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
export {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  fail,
  isAllocationTrace,
  isSharedBridge,
  newest,
  type PluginError,
  type PluginResult,
  succeed,
} from "./attachment.ts"
export { type Breakage, testBreakages } from "./breakages.ts"
export { CProgram, compileProgram } from "./c-program.ts"
export { answering, type CableEnd, connect, ping, pingOnce } from "./cable.ts"
export { casesOf, isLeftToKernel, testPlugin, testPlugins, testWhereItRuns } from "./cases.ts"
export { Chance } from "./chance.ts"
export { askEcho, EchoPeer, type EchoQuestion, type EchoReply, expectNoEcho, type Transport } from "./echo/peer.ts"
export { UdpFlow } from "./echo/udp-flow.ts"
export { extent, type Figure, isLong, readFigures, readShare, seed, tellFigure } from "./extent.ts"
export { allFeatures, type Feature, hasFeature, isOfMachine } from "./features.ts"
export { advertised, advertiseRouter, capture, learnt, type Recording, record } from "./frames/frames.ts"
export { chooseIptables, HostNamespace, type IptablesKind, mountOver, privateDirectories } from "./host-namespace.ts"
export { IpMonitor } from "./ip-monitor.ts"
export {
  addressesOf,
  changeMac,
  type KernelLink,
  linkNames,
  linkOf,
  portOf,
  vlansOf,
  waitForLocalRoutes,
} from "./links.ts"
export { type ContainerNamespace, listNamespaces, Namespace, namespacePids, namespacePrefix } from "./namespace.ts"
export { gatewayBridge } from "./networks.ts"
export type { InterfacePlugin, Network, Role } from "./plugin-row.ts"
export { interfacePlugin, interfacePlugins, neededByPlugins, pluginRow, pluginsAs } from "./plugins.ts"
export {
  mustRun,
  type Output,
  ProgramError,
  type ProgramOptions,
  programEnv,
  runProgram,
  startDaemon,
} from "./program.ts"
export {
  ConnectedPod,
  connectOutside,
  outside,
  type RuleBackend,
  RuleLab,
  routeToContainers,
  ruleBackends,
  testEachBackend,
  uplink,
} from "./rule-lab.ts"
export { type PluginCall, type PluginOutput, pluginEnv, runPlugin } from "./run-plugin.ts"
export { SmallCgroup } from "./small-cgroup.ts"
export { type Change, diffSnapshots, formatChanges, type Snapshot } from "./snapshot/diff.ts"
export { expectUnchanged, takeSnapshot } from "./snapshot/snapshot.ts"
export { type Attached, type AttachOptions, hostFor, Stage, usedHost } from "./stage.ts"
export { buildStation, type Job, type Outcome, type Sample, Station, stationProgram, total } from "./station.ts"
export { runTraced } from "./strace.ts"
export { readSysctl, setIpv4Defaults, writeSysctl } from "./sysctl.ts"
export { TemporaryDirectory } from "./temporary-directory.ts"
export { type LeftOut, leftOutLine, leftOutTests, testWith, titlesWith, titlesWithAll } from "./test-with.ts"
export { scaleTimeout, waitFor, waitLimitMs, within } from "./wait-for.ts"
