import { changedSysctls, tunedPaths } from "../../meta/tuning/main.ts"
import type { NetworkPlugin } from "../../pkg/libcni/mod.ts"
import { type NodeAttachment, recordedPlugins } from "../node/mod.ts"
import { arpSetting } from "./arp.ts"
import { affectedBy, type Check, type Finding, nameOf } from "./finding.ts"
import { inContainer } from "./inside.ts"
import { setSysctl } from "./remedy.ts"

/** Returns the paths below /proc/sys that the checks read in a container. */
export function settingsOf(one: NodeAttachment): string[] {
  const tuned = tuningsIn(recordedPlugins(one.cached) ?? []).flatMap(({ raw }) => tunedPaths(raw, one))
  return [...tuned, arpSetting("all")] // netlink reports the value of each link
}

/** Finds sysctls in containers whose values differ from those in the configuration of the plugin tuning. */
export const checkSettings: Check = ({ examined }) =>
  examined.flatMap(({ one, inside, plugins }) => {
    const tunings = tuningsIn(plugins)
    return tunings.flatMap(({ raw }, at) => {
      const later = new Set(tunings.slice(at + 1).flatMap((each) => tunedPaths(each.raw, one)))
      const changed = changedSysctls(raw, one, inside.settings).filter(({ path }) => !later.has(path))
      return changed.map(
        ({ path, expected, found }): Finding => ({
          rule: "container-sysctl",
          severity: "warning",
          network: one.network,
          cause: `${path} of network ${one.network}`,
          affected: [affectedBy(one)],
          what: `${path} in ${nameOf(one)} is "${found}", but its network sets "${expected}"`,
          ofMany: (count) => `${path} in ${count} containers is not "${expected}", but their network sets this value`,
          why: "the container's setting differs from its network's configuration; CHECK fails",
          remedy: inContainer(inside, [setSysctl(path, expected)]),
          consequenceOf: ["container-arp-ignored"],
        }),
      )
    })
  })

function tuningsIn(plugins: readonly NetworkPlugin[]): readonly NetworkPlugin[] {
  return plugins.filter(({ type }) => type === "tuning")
}
