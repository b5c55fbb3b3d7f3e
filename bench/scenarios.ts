import { type Scenario, underLoad } from "./measure.ts"
import { bandwidths } from "./rows/bandwidth.ts"
import { bridges } from "./rows/bridge.ts"
import { bursts } from "./rows/burst.ts"
import { chains } from "./rows/chain.ts"
import { delegates } from "./rows/delegates.ts"
import { dhcps } from "./rows/dhcp.ts"
import { firewalls } from "./rows/firewall.ts"
import { hostLocals } from "./rows/host-local.ts"
import { interfaces } from "./rows/interfaces.ts"
import { portmaps } from "./rows/portmap.ts"
import { versions } from "./rows/version.ts"
import type { Suite } from "./suites.ts"

/** What is measured under load too. */
const alsoLoaded = [
  /^bridge$/,
  /^host-local$/,
  /^host-local, 8 processes, 0 /,
  /^bridge\+.* beside 1$/,
  /^chain .* beside 1$/,
  /^60 containers, 16 /,
]

/** Everything that is measured. A new subject is a line here. */
export function allScenarios(suites: readonly Suite[]): Scenario[] {
  const idle = [
    versions,
    bridges,
    chains,
    interfaces,
    delegates,
    dhcps,
    hostLocals,
    firewalls,
    portmaps,
    bandwidths,
    bursts,
  ].flatMap((rows) => rows(suites))
  const loaded = idle.filter(({ name }) => alsoLoaded.some((pattern) => pattern.test(name)))
  return [...idle, ...loaded.map(underLoad)]
}
