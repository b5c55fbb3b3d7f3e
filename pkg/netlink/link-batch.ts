import { isErrno, randomBytes, unlessErrno } from "../libc/mod.ts"
import { deleteLink, RTM_DELLINK, RTM_NEWLINK } from "./link-changes.ts"
import { linkPayload } from "./link-table.ts"
import type { Link, NamedLink } from "./links.ts"
import { NLM_F_ACK } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** The number of links in a delete request, which blocks other changes of links for some 50 ms. */
const BATCH = 500

/**
 * Deletes links, like `ip link set NAME group GROUP` for each and then `ip link del group GROUP`. The kernel then waits
 * for RCU once, instead of 25 ms for each link. Links that no longer exist are ignored. Throws `NetlinkError`, `ETIME`
 * if the socket's budget ends before the last link.
 */
export function deleteLinks(route: NetlinkSocket, links: readonly NamedLink[]): void {
  route.spend(() => {
    for (let at = 0; at < links.length; at += BATCH) {
      const batch = links.slice(at, at + BATCH)
      route.step(`delete ${links.length - at} links`)
      if (batch.length === 1 || !deleteAtOnce(route, batch)) deleteEach(route, batch)
    }
  })
}

/** Deletes links one by one, also in the namespace of `nsid`, which has no groups. Throws like `deleteLinks`. */
export function deleteEach(route: NetlinkSocket, links: readonly NamedLink[], nsid?: number): void {
  for (const [at, link] of links.entries()) {
    route.step(`delete ${links.length - at} links`)
    // A link may no longer exist: the kernel deletes the links of a deleted namespace with a delay.
    unlessErrno(() => deleteLink(route, link, nsid), "ENODEV")
  }
}

/** Deletes links with one request. Returns false, with all links left, if one cannot be deleted, such as `lo`. */
function deleteAtOnce(route: NetlinkSocket, links: readonly Pick<Link, "index">[]): boolean {
  const group = new DataView(randomBytes(4).buffer).getUint32(0) >>> 1
  const what = `delete ${links.length} links`
  const payloads = links.map(({ index }) => linkPayload.encode({ index }, { group }))
  const last = payloads.length - 1 // the kernel acknowledges the last request after it has executed all others
  const requests = payloads.map((payload, at) => {
    return { type: RTM_NEWLINK, flags: at === last ? NLM_F_ACK : 0, what, payload }
  })
  unlessErrno(() => route.transact(requests), "ENODEV") // ENODEV: a link no longer exists; all others are in the group
  const payload = linkPayload.encode({}, { group })
  try {
    route.execute({ type: RTM_DELLINK, what, payload })
    return true
  } catch (error) {
    if (isErrno(error, "ENODEV")) return true
    if (isErrno(error, "EOPNOTSUPP")) return false
    throw error
  }
}
