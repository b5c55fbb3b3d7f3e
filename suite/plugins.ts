/**
 * The table of the plugins: a row registers one. The executables, the lists of names, the schemas, `cni lint`, the manual pages, the
 * lists of `cni graph` and `cni doctor`, and the lists of the tests follow from it.
 */
import { dhcp, runDhcp } from "../ipam/dhcp/main.ts"
import dhcpPage from "../ipam/dhcp/README.md" with { type: "text" }
import { hostLocal } from "../ipam/host-local/main.ts"
import hostLocalPage from "../ipam/host-local/README.md" with { type: "text" }
import { staticIpam } from "../ipam/static/main.ts"
import staticPage from "../ipam/static/README.md" with { type: "text" }
import { bandwidth } from "../meta/bandwidth/main.ts"
import bandwidthPage from "../meta/bandwidth/README.md" with { type: "text" }
import { firewall } from "../meta/firewall/main.ts"
import firewallPage from "../meta/firewall/README.md" with { type: "text" }
import { flannel } from "../meta/flannel/main.ts"
import flannelPage from "../meta/flannel/README.md" with { type: "text" }
import { portmap } from "../meta/portmap/main.ts"
import portmapPage from "../meta/portmap/README.md" with { type: "text" }
import { sbr } from "../meta/sbr/main.ts"
import sbrPage from "../meta/sbr/README.md" with { type: "text" }
import { tuning } from "../meta/tuning/main.ts"
import tuningPage from "../meta/tuning/README.md" with { type: "text" }
import { vrf } from "../meta/vrf/main.ts"
import vrfPage from "../meta/vrf/README.md" with { type: "text" }
import type { Fields } from "../pkg/config/mod.ts"
import type { Plugin, RestorablePlugin } from "../pkg/skel/mod.ts"
import { bridge } from "../plugins/bridge/main.ts"
import bridgePage from "../plugins/bridge/README.md" with { type: "text" }
import { dummy } from "../plugins/dummy/main.ts"
import dummyPage from "../plugins/dummy/README.md" with { type: "text" }
import { hostDevice } from "../plugins/host-device/main.ts"
import hostDevicePage from "../plugins/host-device/README.md" with { type: "text" }
import { ipvlan } from "../plugins/ipvlan/main.ts"
import ipvlanPage from "../plugins/ipvlan/README.md" with { type: "text" }
import { loopback } from "../plugins/loopback/main.ts"
import loopbackPage from "../plugins/loopback/README.md" with { type: "text" }
import { macvlan } from "../plugins/macvlan/main.ts"
import macvlanPage from "../plugins/macvlan/README.md" with { type: "text" }
import { ptp } from "../plugins/ptp/main.ts"
import ptpPage from "../plugins/ptp/README.md" with { type: "text" }
import { runTap, tap } from "../plugins/tap/main.ts"
import tapPage from "../plugins/tap/README.md" with { type: "text" }
import { vlan } from "../plugins/vlan/main.ts"
import vlanPage from "../plugins/vlan/README.md" with { type: "text" }
import { flannelKeys, hostLocalKeys, staticKeys } from "./handed-on-keys.ts"

/** The role of a plugin in a chain: it makes an interface, gives addresses, or changes what an earlier plugin has made. */
export type PluginKind = "interface" | "ipam" | "chained"

/** A row of the table: the plugin, and facts that the plugin itself does not have. */
export interface PluginRow {
  readonly plugin: RestorablePlugin<unknown>
  /** Its page, in Markdown. */
  readonly page: string
  readonly kind: PluginKind
  /** May also come after another interface plugin, and then takes what that has made. */
  readonly joins?: true
  /** False for an interface plugin without an IPAM plugin. */
  readonly leases?: false
  /** Other plugins of the suite that attach containers for it. The first is the default of the key `delegate.type`. */
  readonly delegates?: readonly [string, ...string[]]
  /** Its containers have addresses of the network that the host's own interface is in. */
  readonly isOnLan?: true
  /** Keys that it hands on without a table of its own. */
  readonly handsOn?: Fields
  /** The function of its executable, where that is more than `runPlugin`; gets the plugins that run in its process. */
  readonly run?: (inProcess: readonly Plugin<unknown>[]) => never
  /** Listens to the network: it lies at addresses in memory that the kernel chooses, docs/security.md. */
  readonly listens?: true
}

/** Every plugin of this suite, in alphabetical order. */
export const plugins: readonly PluginRow[] = [
  { plugin: bandwidth, page: bandwidthPage, kind: "chained" },
  { plugin: bridge, page: bridgePage, kind: "interface", joins: true },
  { plugin: dhcp, page: dhcpPage, kind: "ipam", run: runDhcp, listens: true, isOnLan: true },
  { plugin: dummy, page: dummyPage, kind: "interface" },
  { plugin: firewall, page: firewallPage, kind: "chained" },
  {
    plugin: flannel,
    page: flannelPage,
    kind: "interface",
    delegates: ["bridge", "host-device", "ipvlan", "macvlan", "ptp"],
    handsOn: flannelKeys,
  },
  { plugin: hostDevice, page: hostDevicePage, kind: "interface", isOnLan: true },
  { plugin: hostLocal, page: hostLocalPage, kind: "ipam", handsOn: hostLocalKeys },
  { plugin: ipvlan, page: ipvlanPage, kind: "interface", joins: true, isOnLan: true },
  { plugin: loopback, page: loopbackPage, kind: "interface", joins: true, leases: false },
  { plugin: macvlan, page: macvlanPage, kind: "interface", joins: true, isOnLan: true },
  { plugin: portmap, page: portmapPage, kind: "chained" },
  { plugin: ptp, page: ptpPage, kind: "interface" },
  { plugin: sbr, page: sbrPage, kind: "chained" },
  { plugin: staticIpam, page: staticPage, kind: "ipam", handsOn: staticKeys },
  { plugin: tap, page: tapPage, kind: "interface", run: runTap },
  { plugin: tuning, page: tuningPage, kind: "chained" },
  { plugin: vlan, page: vlanPage, kind: "interface", isOnLan: true },
  { plugin: vrf, page: vrfPage, kind: "chained" },
]

/** A row without the plugin's verbs: what the tool knows of a plugin. */
export interface DescribedPlugin extends Omit<PluginRow, "plugin" | "page" | "run" | "listens"> {
  readonly name: string
  readonly versions?: readonly string[] | undefined
  /** The keys of its configuration. */
  readonly fields: Fields
  readonly config: Plugin<unknown>["config"]
  /** Restores lost objects of the host. */
  readonly restores: boolean
  /** Restores lost settings of a container. */
  readonly restoresInside: boolean
  /** The table of keys on its page, in Markdown. */
  readonly keys: string
}

/**
 * Every plugin as the tool knows it. The tool's heap image has what can be reached from its commands: the verbs, a third of all
 * code, cannot be, nor can the rest of the pages.
 */
export const describedPlugins: readonly DescribedPlugin[] = plugins.map(
  ({ plugin: { name, versions, fields = {}, config, restore, restoreInside }, page, run: _, listens: __, ...row }) => ({
    ...row,
    name,
    versions,
    fields,
    config,
    restores: restore !== undefined,
    restoresInside: restoreInside !== undefined,
    keys: keysOf(page),
  }),
)

/** The first table of the section "Keys" of a page; "" where it has none. A text of its own: a part of a string keeps the whole alive. */
export function keysOf(page: string): string {
  const [, table = ""] = /^## Keys\n(?:(?!## ).*\n)*?((?:\|.*\n)+)/m.exec(page) ?? []
  return table.split("\n").join("\n")
}

export const pluginNames: readonly string[] = plugins.map(({ plugin }) => plugin.name)

/** Throws when the suite has no plugin of that name. */
export function requirePlugin(name: string): PluginRow {
  const row = plugins.find(({ plugin }) => plugin.name === name)
  if (!row) throw new Error(`Cannot find plugin "${name}": suite/plugins.ts has no row for it`)
  return row
}

/** The other plugins that run in the process of this one: its delegates, and for an interface the IPAM plugins. */
export function pluginsInProcess({ kind, delegates, leases }: PluginRow): Plugin<unknown>[] {
  if (kind !== "interface" || leases === false) return []
  const attaching = delegates?.map((name) => requirePlugin(name).plugin) ?? []
  return [...attaching, ...plugins.filter((row) => row.kind === "ipam").map(({ plugin }) => plugin)]
}

/** Whether its interfaces sit on a link of the host, the key `master`. */
export function isOnMaster({ fields }: DescribedPlugin): boolean {
  return "master" in fields
}
