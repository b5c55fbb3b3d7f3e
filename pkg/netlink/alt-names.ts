import { linkPayload } from "./link-table.ts"
import type { Link } from "./links.ts"
import { NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h>, since Linux 5.5 */
const RTM_NEWLINKPROP = 108
const RTM_DELLINKPROP = 109

/**
 * Gives a link further names, like `ip link property add dev NAME altname …`. Throws `EEXIST` when a link of the namespace has
 * one of them, and then those before it were given.
 */
export function addAltNames(route: NetlinkSocket, link: Pick<Link, "index" | "name">, altNames: string[]): void {
  changeAltNames(route, link, altNames, RTM_NEWLINKPROP, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND)
}

/** Takes names off a link, like `ip link property del dev NAME altname …`. Throws `EINVAL` when it does not have one. */
export function deleteAltNames(route: NetlinkSocket, link: Pick<Link, "index" | "name">, altNames: string[]): void {
  changeAltNames(route, link, altNames, RTM_DELLINKPROP, 0)
}

function changeAltNames(
  route: NetlinkSocket,
  { index, name }: Pick<Link, "index" | "name">,
  altNames: string[],
  type: number,
  flags: number,
): void {
  const payload = linkPayload.encode({ index }, { altNames })
  const what = `${type === RTM_NEWLINKPROP ? "give" : "take"} names ${altNames.join(", ")} of link "${name}"`
  route.execute({ type, flags, what, payload })
}
