import { isErrno, processId, unshareNetworkNamespace } from "../pkg/libc/mod.ts"
import { getLink, setLink } from "../pkg/netlink/mod.ts"
import { Netns } from "../pkg/netns/mod.ts"

/**
 * Creates a network namespace, like `unshare --net`. Only a descriptor holds it, so it ends with this process, even if
 * the process is killed. Its links and the addresses on their other ends are then deleted too. Throws `EPERM` without
 * CAP_SYS_ADMIN.
 */
export function makeNamespace(): Netns {
  using home = Netns.own()
  return home.run(() => {
    unshare()
    return Netns.own()
  })
}

/** Creates such a namespace with `lo` up, like a runtime's container. */
export function makeContainerNamespace(): Netns {
  const made = makeNamespace()
  using inside = made.openRoute()
  setLink(inside, getLink(inside, "lo"), { up: true })
  return made
}

/** Returns a path with which other processes open a namespace that this process holds. */
export function heldPath(netns: Netns): string {
  return `/proc/${processId()}/fd/${netns.fd}`
}

function unshare(): void {
  try {
    unshareNetworkNamespace()
  } catch (error) {
    if (!isErrno(error, "EPERM")) throw error
    throw new Error("Cannot create a network namespace: this needs root, with CAP_SYS_ADMIN")
  }
}
