import { dhcp } from "../../ipam/dhcp/main.ts"
import dhcpPage from "../../ipam/dhcp/README.md" with { type: "text" }
import { hostLocal } from "../../ipam/host-local/main.ts"
import hostLocalPage from "../../ipam/host-local/README.md" with { type: "text" }
import { staticIpam } from "../../ipam/static/main.ts"
import staticPage from "../../ipam/static/README.md" with { type: "text" }
import { bandwidth } from "../../meta/bandwidth/main.ts"
import bandwidthPage from "../../meta/bandwidth/README.md" with { type: "text" }
import { firewall } from "../../meta/firewall/main.ts"
import firewallPage from "../../meta/firewall/README.md" with { type: "text" }
import { flannel } from "../../meta/flannel/main.ts"
import flannelPage from "../../meta/flannel/README.md" with { type: "text" }
import { portmap } from "../../meta/portmap/main.ts"
import portmapPage from "../../meta/portmap/README.md" with { type: "text" }
import { sbr } from "../../meta/sbr/main.ts"
import sbrPage from "../../meta/sbr/README.md" with { type: "text" }
import { tuning } from "../../meta/tuning/main.ts"
import tuningPage from "../../meta/tuning/README.md" with { type: "text" }
import { vrf } from "../../meta/vrf/main.ts"
import vrfPage from "../../meta/vrf/README.md" with { type: "text" }
import type { Fields } from "../../pkg/config/mod.ts"
import type { Plugin } from "../../pkg/skel/mod.ts"
import { bridge } from "../../plugins/bridge/main.ts"
import bridgePage from "../../plugins/bridge/README.md" with { type: "text" }
import { dummy } from "../../plugins/dummy/main.ts"
import dummyPage from "../../plugins/dummy/README.md" with { type: "text" }
import { hostDevice } from "../../plugins/host-device/main.ts"
import hostDevicePage from "../../plugins/host-device/README.md" with { type: "text" }
import { ipvlan } from "../../plugins/ipvlan/main.ts"
import ipvlanPage from "../../plugins/ipvlan/README.md" with { type: "text" }
import { loopback } from "../../plugins/loopback/main.ts"
import loopbackPage from "../../plugins/loopback/README.md" with { type: "text" }
import { macvlan } from "../../plugins/macvlan/main.ts"
import macvlanPage from "../../plugins/macvlan/README.md" with { type: "text" }
import { ptp } from "../../plugins/ptp/main.ts"
import ptpPage from "../../plugins/ptp/README.md" with { type: "text" }
import { tap } from "../../plugins/tap/main.ts"
import tapPage from "../../plugins/tap/README.md" with { type: "text" }
import { vlan } from "../../plugins/vlan/main.ts"
import vlanPage from "../../plugins/vlan/README.md" with { type: "text" }
import { flannelKeys, hostLocalKeys, mergeFields, pluginKeys, staticKeys } from "./key-tables.ts"

/** What a plugin is in a chain: it makes an interface, gives addresses, or changes what an earlier plugin has made. */
export type PluginKind = "interface" | "ipam" | "chained"

/** A plugin as the tools for configurations know it. */
export interface Known {
  readonly name: string
  readonly kind: PluginKind
  /** May also come after another interface plugin, and then takes what that has made. */
  readonly joins: boolean
  /** Has another plugin make the interface, by the keys of `delegate`: the one that it takes where these name none. */
  readonly delegates: string | undefined
  readonly plugin: Plugin<unknown>
  /** Its page, in Markdown: what its keys mean is read from there. */
  readonly page: string
  /** Every key of its object in a network's list: the specification's, and its own. */
  readonly fields: Fields
}

interface Row {
  readonly plugin: Plugin<unknown>
  readonly page: string
  readonly kind: PluginKind
  readonly joins?: boolean
  readonly delegates?: string
  /** Keys that it hands on without a table of its own. */
  readonly handsOn?: Fields
}

const rows: readonly Row[] = [
  { plugin: bandwidth, page: bandwidthPage, kind: "chained" },
  { plugin: bridge, page: bridgePage, kind: "interface", joins: true },
  { plugin: dhcp, page: dhcpPage, kind: "ipam" },
  { plugin: dummy, page: dummyPage, kind: "interface" },
  { plugin: firewall, page: firewallPage, kind: "chained" },
  { plugin: flannel, page: flannelPage, kind: "interface", delegates: "bridge", handsOn: flannelKeys },
  { plugin: hostDevice, page: hostDevicePage, kind: "interface" },
  { plugin: hostLocal, page: hostLocalPage, kind: "ipam", handsOn: hostLocalKeys },
  { plugin: ipvlan, page: ipvlanPage, kind: "interface", joins: true },
  { plugin: loopback, page: loopbackPage, kind: "interface", joins: true },
  { plugin: macvlan, page: macvlanPage, kind: "interface", joins: true },
  { plugin: portmap, page: portmapPage, kind: "chained" },
  { plugin: ptp, page: ptpPage, kind: "interface" },
  { plugin: sbr, page: sbrPage, kind: "chained" },
  { plugin: staticIpam, page: staticPage, kind: "ipam", handsOn: staticKeys },
  { plugin: tap, page: tapPage, kind: "interface" },
  { plugin: tuning, page: tuningPage, kind: "chained" },
  { plugin: vlan, page: vlanPage, kind: "interface" },
  { plugin: vrf, page: vrfPage, kind: "chained" },
]

/** Every plugin of this suite, in alphabetical order. A test holds this to the list of `cmd/plugins.ts`. */
export const knownPlugins: readonly Known[] = rows.map(
  ({ plugin, page, kind, joins = false, delegates, handsOn = {} }) => ({
    name: plugin.name,
    kind,
    joins,
    delegates,
    plugin,
    page,
    fields: mergeFields(mergeFields(pluginKeys, plugin.fields ?? {}), handsOn),
  }),
)

/** The plugin of that name; undefined for one of another suite. */
export function findPlugin(name: string): Known | undefined {
  return knownPlugins.find((known) => known.name === name)
}

/** The capabilities that a plugin takes: the keys of `runtimeConfig` that it reads. */
export function capabilitiesOf({ plugin }: Pick<Known, "plugin">): string[] {
  const runtimeConfig = plugin.fields?.runtimeConfig
  return runtimeConfig?.kind === "object" ? Object.keys(runtimeConfig.fields) : []
}
