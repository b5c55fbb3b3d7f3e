/**
 * What each plugin's executable is: this module's exports, by the name that runtimes call. The build makes a file of each, of
 * what that export uses and nothing else: these lines are the table of who runs in whose process. A list that is written with
 * `...` would put what is in it into every file, since the bundler does not know that reading a list has no effect.
 */
import { dhcp, runDhcp } from "../ipam/dhcp/main.ts"
import { hostLocal } from "../ipam/host-local/main.ts"
import { staticIpam } from "../ipam/static/main.ts"
import { bandwidth } from "../meta/bandwidth/main.ts"
import { firewall } from "../meta/firewall/main.ts"
import { flannel } from "../meta/flannel/main.ts"
import { portmap } from "../meta/portmap/main.ts"
import { sbr } from "../meta/sbr/main.ts"
import { tuning } from "../meta/tuning/main.ts"
import { vrf } from "../meta/vrf/main.ts"
import { exit, programName, readEnvironment } from "../pkg/libc/mod.ts"
import { answer, logLine, type Plugin, runPlugin } from "../pkg/skel/mod.ts"
import { newestVersion } from "../pkg/types/mod.ts"
import { bridge } from "../plugins/bridge/main.ts"
import { dummy } from "../plugins/dummy/main.ts"
import { hostDevice } from "../plugins/host-device/main.ts"
import { ipvlan } from "../plugins/ipvlan/main.ts"
import { loopback } from "../plugins/loopback/main.ts"
import { macvlan } from "../plugins/macvlan/main.ts"
import { ptp } from "../plugins/ptp/main.ts"
import { runTap } from "../plugins/tap/main.ts"
import { vlan } from "../plugins/vlan/main.ts"

/** Every plugin, in alphabetical order. */
export const pluginNames: readonly string[] = [
  "bandwidth",
  "bridge",
  "dhcp",
  "dummy",
  "firewall",
  "flannel",
  "host-device",
  "host-local",
  "ipvlan",
  "loopback",
  "macvlan",
  "portmap",
  "ptp",
  "sbr",
  "static",
  "tap",
  "tuning",
  "vlan",
  "vrf",
]

/** The IPAM plugins that run in the process of the plugin that asks them for addresses. */
export const ipamPlugins: readonly Plugin<unknown>[] = [dhcp, hostLocal, staticIpam]

/** What flannel has attach containers in its process. */
export const delegates: readonly Plugin<unknown>[] = [
  bridge,
  hostDevice,
  ipvlan,
  macvlan,
  ptp,
  dhcp,
  hostLocal,
  staticIpam,
]

const runBandwidth = () => runPlugin(bandwidth)
const runBridge = () => runPlugin(bridge, ipamPlugins)
const runDummy = () => runPlugin(dummy, ipamPlugins)
const runFirewall = () => runPlugin(firewall)
const runFlannel = () => runPlugin(flannel, delegates)
const runHostDevice = () => runPlugin(hostDevice, ipamPlugins)
const runHostLocal = () => runPlugin(hostLocal)
const runIpvlan = () => runPlugin(ipvlan, ipamPlugins)
const runLoopback = () => runPlugin(loopback)
const runMacvlan = () => runPlugin(macvlan, ipamPlugins)
const runPortmap = () => runPlugin(portmap)
const runPtp = () => runPlugin(ptp, ipamPlugins)
const runSbr = () => runPlugin(sbr)
const runStatic = () => runPlugin(staticIpam)
const runTapPlugin = () => runTap(ipamPlugins)
const runTuning = () => runPlugin(tuning)
const runVlan = () => runPlugin(vlan, ipamPlugins)
const runVrf = () => runPlugin(vrf)

/** What it is under a name that is no plugin's: it tells a runtime on stdout, a human on stderr. */
function runUnknown(): never {
  const msg = `Cannot act as "${programName()}": no such plugin`
  const names = Object.keys(Reflect.get(globalThis, "plugins")).filter((name) => name !== "unknown")
  const details = `names that this executable answers to: ${names.join(", ")}`
  if (readEnvironment().CNI_COMMAND === undefined) {
    logLine(`${msg}; ${details}`)
    return exit(1)
  }
  const stdout = `${JSON.stringify({ cniVersion: newestVersion, code: 4, msg, details })}\n`
  return exit(answer({ stdout, exitCode: 1 }))
}

export {
  runBandwidth as bandwidth,
  runBridge as bridge,
  runDhcp as dhcp,
  runDummy as dummy,
  runFirewall as firewall,
  runFlannel as flannel,
  runHostDevice as "host-device",
  runHostLocal as "host-local",
  runIpvlan as ipvlan,
  runLoopback as loopback,
  runMacvlan as macvlan,
  runPortmap as portmap,
  runPtp as ptp,
  runSbr as sbr,
  runStatic as static,
  runTapPlugin as tap,
  runTuning as tuning,
  runUnknown as unknown,
  runVlan as vlan,
  runVrf as vrf,
}
