/**
 * The common code of plugins that give containers an interface: sockets, leases, masquerade, undo, and the verbs that
 * find an interface by its owner. A plugin contributes only the code for its own kind of interface.
 *
 * @example
 * export const macvlan = defineInterfacePlugin<MacvlanConfig>({
 *   name: "macvlan", kind: "macvlan", config, attach: attachMacvlan, check: checkMacvlan, requireUsable,
 * })
 */
export {
  checkHostEnd,
  checkInterface,
  checkMac,
  checkSetting,
  checkUp,
  describeInterface,
  findRecordedOnHost,
  noHostEnd,
  type Recorded,
} from "./check.ts"
export { deleteInContainers } from "./delete.ts"
export { findHostEnd } from "./host-end.ts"
export * from "./interface.ts"
export { type InterfaceKind, noKind, requireKind } from "./kinds.ts"
export type {
  Attaching,
  AttachmentConfig,
  Checking,
  InterfacePlugin,
  Lease,
  RestorableInterface,
  RestoringInterfaces,
  Sides,
} from "./plugin.ts"
export { HostEnds } from "./restore.ts"
export { findSandbox, openSandbox } from "./sandbox.ts"
export { defineInterfacePlugin, refuseExistingInterface } from "./verbs.ts"
