import { dhcp } from "../../ipam/dhcp/main.ts"
import { hostLocal } from "../../ipam/host-local/main.ts"
import { staticIpam } from "../../ipam/static/main.ts"
import { bandwidth } from "../../meta/bandwidth/main.ts"
import { firewall } from "../../meta/firewall/main.ts"
import { flannel } from "../../meta/flannel/main.ts"
import { portmap } from "../../meta/portmap/main.ts"
import { sbr } from "../../meta/sbr/main.ts"
import { tuning } from "../../meta/tuning/main.ts"
import { vrf } from "../../meta/vrf/main.ts"
import type { Plugin } from "../../pkg/skel/mod.ts"
import { bridge } from "../../plugins/bridge/main.ts"
import { dummy } from "../../plugins/dummy/main.ts"
import { hostDevice } from "../../plugins/host-device/main.ts"
import { ipvlan } from "../../plugins/ipvlan/main.ts"
import { loopback } from "../../plugins/loopback/main.ts"
import { macvlan } from "../../plugins/macvlan/main.ts"
import { ptp } from "../../plugins/ptp/main.ts"
import { tap } from "../../plugins/tap/main.ts"
import { vlan } from "../../plugins/vlan/main.ts"

/** The plugins that interface plugins ask in their own process are in `cmd/plugins.ts`. */
const all = [
  bandwidth,
  bridge,
  dhcp,
  dummy,
  firewall,
  flannel,
  hostDevice,
  hostLocal,
  ipvlan,
  loopback,
  macvlan,
  portmap,
  ptp,
  sbr,
  staticIpam,
  tap,
  tuning,
  vlan,
  vrf,
] as unknown as Plugin<unknown>[]

/** Every plugin as its sources define it, for tests that serve calls in one process. Throws when there is none of that name. */
export function definitionOf(name: string): Plugin<unknown> {
  const plugin = all.find((each) => each.name === name)
  if (!plugin) throw new Error(`Say in integration/every-plugin/definitions.ts where plugin "${name}" is`)
  return plugin
}
