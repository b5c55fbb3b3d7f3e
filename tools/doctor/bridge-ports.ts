import { affectedBy, type Check, type Finding, nameOf } from "./finding.ts"
import { sh } from "./remedy.ts"

/** BR_STATE_*, <linux/if_bridge.h>: a port that passes nothing. Those between are the spanning tree's, for seconds. */
const CLOSED: Readonly<Record<number, string>> = { 0: "disabled", 4: "blocking" }

/** Ports of bridges that pass nothing, or nothing to other such ports. */
export const checkPorts: Check = ({ examined, node }) =>
  examined.flatMap(({ one, plugins }): Finding[] => {
    const end = one.link
    if (end?.port === undefined || end.nsid !== undefined || !end.isUp || end.state !== "up") return []
    const bridge = node.links.find(({ index, nsid }) => nsid === undefined && index === end.master)
    if (!bridge?.isUp) return [] // its ports are disabled with it: link-down
    const { state, isIsolated } = end.port
    const closed = CLOSED[state]
    const about = { network: one.network, cause: `ports of network ${one.network}`, affected: [affectedBy(one)] }
    if (closed !== undefined)
      return [
        {
          ...about,
          rule: "port-state",
          severity: "error",
          what: `the bridge's port "${end.name}" of ${nameOf(one)} is in state ${closed}`,
          ofMany: (count) => `${count} ports of containers are in state ${closed}`,
          why: "the bridge drops all frames of the container and for it",
          remedy: sh`bridge link set dev ${end.name} state 3`,
        },
      ]
    const isWanted = plugins.some(({ raw }) => raw.portIsolation === true)
    if (!isIsolated || isWanted) return []
    return [
      {
        ...about,
        rule: "port-isolated",
        severity: "warning",
        what: `the bridge's port "${end.name}" of ${nameOf(one)} is isolated, and its network has no "portIsolation"`,
        ofMany: (count) => `${count} ports of containers are isolated, and their network has no "portIsolation"`,
        why: "containers whose ports are isolated do not reach each other",
        remedy: sh`bridge link set dev ${end.name} isolated off`,
      },
    ]
  })
