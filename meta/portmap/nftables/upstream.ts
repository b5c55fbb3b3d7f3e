import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { atomically, type FoundRule, listRules, remove } from "../../../pkg/nftables/mod.ts"
import { families } from "../mapping.ts"

/** Where the Go suite, from v1.6 on, has rules with `backend: nftables`: one for each mapping, and up to two for masquerading. */
export const UPSTREAM_TABLE = "cni_hostport"
const CHAINS = ["hostports", "hostip_hostports", "masquerading"] as const

/**
 * Removes what the Go suite's ADD has left for this attachment, so that a node can change suites with containers running.
 * Its rules have the container's id and nothing else as comment: of a container in several networks only those go that
 * are for `addresses`, and without any all of them, as its own DEL does. Table and chains stay. Nothing there is success.
 * Throws `NetlinkError`.
 */
export function removeUpstreamHostports(
  socket: NetlinkSocket,
  containerId: string,
  addresses: readonly Uint8Array[],
): void {
  const needles = [encodeUtf8(`${containerId}\0`)]
  atomically(socket, () =>
    families.flatMap((family) =>
      CHAINS.flatMap((name) =>
        listRules(socket, { table: { family, name: UPSTREAM_TABLE }, name }, needles)
          .filter(({ comment }) => comment === containerId)
          .filter((rule) => addresses.length === 0 || addresses.some((ip) => mentions(rule, ip)))
          .map((rule) => remove.rule(rule)),
      ),
    ),
  )
}

/** Whether a rule sends packets to an address, or compares one with it. */
function mentions({ expressions }: FoundRule, ip: Uint8Array): boolean {
  return expressions.some(({ name, data }) => {
    if ((name !== "immediate" && name !== "cmp") || data instanceof Uint8Array) return false
    return String(data.data?.value) === String(ip)
  })
}
