/**
 * The table of the plugins. The executables, the lists of names, the schemas, `cni lint`, the manual pages, the lists
 * of `cni graph` and `cni doctor`, and the lists of tests are derived from its rows.
 */
import { dhcp, dhcpKeyDocs, runDhcp } from "../ipam/dhcp/main.ts"
import dhcpPage from "../ipam/dhcp/README.md" with { type: "text" }
import { hostLocal, hostLocalKeyDocs } from "../ipam/host-local/main.ts"
import hostLocalPage from "../ipam/host-local/README.md" with { type: "text" }
import { staticIpam, staticKeyDocs } from "../ipam/static/main.ts"
import staticPage from "../ipam/static/README.md" with { type: "text" }
import { bandwidth, bandwidthKeyDocs } from "../meta/bandwidth/main.ts"
import bandwidthPage from "../meta/bandwidth/README.md" with { type: "text" }
import { firewall, firewallKeyDocs } from "../meta/firewall/main.ts"
import firewallPage from "../meta/firewall/README.md" with { type: "text" }
import { flannel, flannelKeyDocs } from "../meta/flannel/main.ts"
import flannelPage from "../meta/flannel/README.md" with { type: "text" }
import { portmap, portmapKeyDocs } from "../meta/portmap/main.ts"
import portmapPage from "../meta/portmap/README.md" with { type: "text" }
import { sbr, sbrKeyDocs } from "../meta/sbr/main.ts"
import sbrPage from "../meta/sbr/README.md" with { type: "text" }
import { tuning, tuningKeyDocs } from "../meta/tuning/main.ts"
import tuningPage from "../meta/tuning/README.md" with { type: "text" }
import { vrf, vrfKeyDocs } from "../meta/vrf/main.ts"
import vrfPage from "../meta/vrf/README.md" with { type: "text" }
import type { Fields, KeyDoc } from "../pkg/config/mod.ts"
import type { Plugin, RestorablePlugin } from "../pkg/skel/mod.ts"
import { bridge, bridgeKeyDocs } from "../plugins/bridge/main.ts"
import bridgePage from "../plugins/bridge/README.md" with { type: "text" }
import { dummy, dummyKeyDocs } from "../plugins/dummy/main.ts"
import dummyPage from "../plugins/dummy/README.md" with { type: "text" }
import { hostDevice, hostDeviceKeyDocs } from "../plugins/host-device/main.ts"
import hostDevicePage from "../plugins/host-device/README.md" with { type: "text" }
import { ipvlan, ipvlanKeyDocs } from "../plugins/ipvlan/main.ts"
import ipvlanPage from "../plugins/ipvlan/README.md" with { type: "text" }
import { loopback } from "../plugins/loopback/main.ts"
import loopbackPage from "../plugins/loopback/README.md" with { type: "text" }
import { macvlan, macvlanKeyDocs } from "../plugins/macvlan/main.ts"
import macvlanPage from "../plugins/macvlan/README.md" with { type: "text" }
import { ptp, ptpKeyDocs } from "../plugins/ptp/main.ts"
import ptpPage from "../plugins/ptp/README.md" with { type: "text" }
import { runTap, tap, tapKeyDocs } from "../plugins/tap/main.ts"
import tapPage from "../plugins/tap/README.md" with { type: "text" }
import { vlan, vlanKeyDocs } from "../plugins/vlan/main.ts"
import vlanPage from "../plugins/vlan/README.md" with { type: "text" }
import { flannelKeys, hostLocalKeys, staticKeys } from "./handed-on-keys.ts"

/** The role of a plugin: it creates an interface, assigns addresses, or changes an earlier plugin's interface. */
export type PluginKind = "interface" | "ipam" | "chained"

/** A plugin, and its properties that the plugin itself does not define. */
export interface PluginRow {
  readonly plugin: RestorablePlugin<unknown>
  /** The plugin's page, in Markdown. */
  readonly page: string
  /** The documentation of the plugin's keys, as in the table on its page. Absent for a plugin without keys. */
  readonly keys?: readonly KeyDoc[]
  readonly kind: PluginKind
  /** Whether the plugin may also follow another interface plugin, whose interface it then uses. */
  readonly joins?: true
  /** False for an interface plugin that runs no IPAM plugin. */
  readonly leases?: false
  /** Plugins to which this plugin may delegate. The first is the default of the key `delegate.type`. */
  readonly delegates?: readonly [string, ...string[]]
  /** Whether the containers have addresses in the network of the host's interface. */
  readonly isOnLan?: true
  /** The keys that the plugin passes on unchanged to other plugins. */
  readonly handsOn?: Fields
  /** The executable's main function, if it does more than `runPlugin`. Receives the plugins that run in its process. */
  readonly run?: (inProcess: readonly Plugin<unknown>[]) => never
  /** Whether the plugin listens to the network. The kernel then randomizes its memory addresses: docs/security.md. */
  readonly listens?: true
}

/** Every plugin of this suite, in alphabetical order. */
export const plugins: readonly PluginRow[] = [
  { plugin: bandwidth, page: bandwidthPage, keys: bandwidthKeyDocs, kind: "chained" },
  { plugin: bridge, page: bridgePage, keys: bridgeKeyDocs, kind: "interface", joins: true },
  { plugin: dhcp, page: dhcpPage, keys: dhcpKeyDocs, kind: "ipam", run: runDhcp, listens: true, isOnLan: true },
  { plugin: dummy, page: dummyPage, keys: dummyKeyDocs, kind: "interface" },
  { plugin: firewall, page: firewallPage, keys: firewallKeyDocs, kind: "chained" },
  {
    plugin: flannel,
    page: flannelPage,
    keys: flannelKeyDocs,
    kind: "interface",
    delegates: ["bridge", "host-device", "ipvlan", "macvlan", "ptp"],
    handsOn: flannelKeys,
  },
  { plugin: hostDevice, page: hostDevicePage, keys: hostDeviceKeyDocs, kind: "interface", isOnLan: true },
  { plugin: hostLocal, page: hostLocalPage, keys: hostLocalKeyDocs, kind: "ipam", handsOn: hostLocalKeys },
  { plugin: ipvlan, page: ipvlanPage, keys: ipvlanKeyDocs, kind: "interface", joins: true, isOnLan: true },
  { plugin: loopback, page: loopbackPage, kind: "interface", joins: true, leases: false },
  { plugin: macvlan, page: macvlanPage, keys: macvlanKeyDocs, kind: "interface", joins: true, isOnLan: true },
  { plugin: portmap, page: portmapPage, keys: portmapKeyDocs, kind: "chained" },
  { plugin: ptp, page: ptpPage, keys: ptpKeyDocs, kind: "interface" },
  { plugin: sbr, page: sbrPage, keys: sbrKeyDocs, kind: "chained" },
  { plugin: staticIpam, page: staticPage, keys: staticKeyDocs, kind: "ipam", handsOn: staticKeys },
  { plugin: tap, page: tapPage, keys: tapKeyDocs, kind: "interface", run: runTap },
  { plugin: tuning, page: tuningPage, keys: tuningKeyDocs, kind: "chained" },
  { plugin: vlan, page: vlanPage, keys: vlanKeyDocs, kind: "interface", isOnLan: true },
  { plugin: vrf, page: vrfPage, keys: vrfKeyDocs, kind: "chained" },
]

/** A plugin without its verbs: the properties that `cni` needs. */
export interface DescribedPlugin extends Omit<PluginRow, "plugin" | "page" | "run" | "listens"> {
  readonly name: string
  readonly versions?: readonly string[] | undefined
  /** The keys of the plugin's configuration. */
  readonly fields: Fields
  readonly config: Plugin<unknown>["config"]
  /** Whether the plugin can restore lost objects on the host. */
  readonly restores: boolean
  /** Whether the plugin can restore lost settings in a container. */
  readonly restoresInside: boolean
  /** The documentation of the plugin's keys. */
  readonly keys: readonly KeyDoc[]
}

/**
 * All plugins, without their verbs and pages. The heap image of `cni` contains everything that its commands can reach,
 * and the verbs are a third of all code.
 */
export const describedPlugins: readonly DescribedPlugin[] = plugins.map(
  ({
    plugin: { name, versions, fields = {}, config, restore, restoreInside },
    page: _,
    keys = [],
    run: __,
    listens: ___,
    ...row
  }) => ({
    ...row,
    name,
    versions,
    fields,
    config,
    restores: restore !== undefined,
    restoresInside: restoreInside !== undefined,
    keys,
  }),
)

export const pluginNames: readonly string[] = plugins.map(({ plugin }) => plugin.name)

/** Returns the plugin with this name. Throws if the suite has no such plugin. */
export function requirePlugin(name: string): PluginRow {
  const row = plugins.find(({ plugin }) => plugin.name === name)
  if (!row) throw new Error(`Cannot find plugin "${name}": suite/plugins.ts has no row for it`)
  return row
}

/** Returns the other plugins in a plugin's process: its delegates, and for an interface plugin the IPAM plugins. */
export function pluginsInProcess({ kind, delegates, leases }: PluginRow): Plugin<unknown>[] {
  if (kind !== "interface" || leases === false) return []
  const attaching = delegates?.map((name) => requirePlugin(name).plugin) ?? []
  return [...attaching, ...plugins.filter((row) => row.kind === "ipam").map(({ plugin }) => plugin)]
}

/** Reports whether the plugin creates interfaces on a link of the host, which the key `master` names. */
export function isOnMaster({ fields }: DescribedPlugin): boolean {
  return "master" in fields
}
