import { type LoadKind, loads } from "./load.ts"
import { type Scenario, underLoad } from "./measure.ts"
import { alones, leftOutAlone } from "./rows/alone.ts"
import { bandwidths } from "./rows/bandwidth.ts"
import { bridges } from "./rows/bridge.ts"
import { bursts } from "./rows/burst.ts"
import { chains } from "./rows/chain.ts"
import { delegates } from "./rows/delegates.ts"
import { dhcps } from "./rows/dhcp.ts"
import { firewalls } from "./rows/firewall.ts"
import { hostLocals } from "./rows/host-local.ts"
import { interfaces, leftOut } from "./rows/interfaces.ts"
import { nodeRanges } from "./rows/node-ranges.ts"
import { portmaps } from "./rows/portmap.ts"
import { tools } from "./rows/tools.ts"
import { traffics } from "./rows/traffic.ts"
import { versions } from "./rows/version.ts"
import type { Suite } from "./suites.ts"

/** The scenarios that are also measured with other work on the node. A busy disk needs more `patience`. */
const alsoLoaded: Readonly<Record<LoadKind, { readonly names: readonly RegExp[]; readonly patience: number }>> = {
  processes: {
    names: [
      /^bridge$/,
      /^host-local$/,
      /^host-local, no store,$/,
      /^bridge\+.* beside 1$/,
      /^chain .* beside 1$/,
      /^60 containers, 16 /,
    ],
    patience: 1,
  },
  disk: { names: [/^host-local$/, /^host-local, no store,$/, /^chain with 1 port beside 1$/], patience: 4 },
}

/** Returns all scenarios. Add new ones here. */
export function allScenarios(suites: readonly Suite[]): Scenario[] {
  const idle = [
    versions,
    bridges,
    chains,
    interfaces,
    alones,
    delegates,
    dhcps,
    hostLocals,
    nodeRanges,
    firewalls,
    portmaps,
    bandwidths,
    bursts,
    tools,
    traffics,
  ].flatMap((rows) => rows(suites))
  const kinds = Object.keys(loads) as LoadKind[]
  return [
    ...idle,
    ...kinds.flatMap((kind) => {
      const { names, patience } = alsoLoaded[kind]
      const wanted = idle.filter(({ name }) => names.some((pattern) => pattern.test(name)))
      return wanted.map((scenario) => ({ ...underLoad(scenario, kind), patience }))
    }),
  ]
}

/** Returns the rows that this kernel cannot run, because it lacks a kind of link. */
export function leftOutHere(): string[] {
  return [...leftOut(), ...leftOutAlone()]
}
