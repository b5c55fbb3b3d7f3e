import { listLinks, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"

/**
 * Whether a container is provably gone: nothing is left at the path of its namespace, and no interface of the host has its
 * name as alias, as those of our plugins have. A doubt counts as no.
 */
export function isGone(ownerComment: string, netns: string): boolean {
  if (netns === "" || !isNowhere(netns)) return false
  using host = RouteSocket.open()
  return !listLinks(host).some(({ attributes }) => attributes.alias === ownerComment)
}

function isNowhere(path: string): boolean {
  try {
    using found = Netns.find(path)
    return found === undefined
  } catch {
    return false // something else lies there
  }
}
