import { isErrno, processId, unshareNetworkNamespace } from "../pkg/libc/mod.ts"
import { getLink, setLink } from "../pkg/netlink/mod.ts"
import { Netns } from "../pkg/netns/mod.ts"

/**
 * Makes a network namespace, like `unshare --net`. It is held by a descriptor alone: it ends with this process, also
 * with one that is killed, and its links and the addresses on their other ends go with it. Throws `EPERM` without CAP_SYS_ADMIN.
 */
export function makeNamespace(): Netns {
  using home = Netns.own()
  return home.run(() => {
    unshare()
    return Netns.own()
  })
}

/** The same, with `lo` up, as in the container of a runtime. */
export function makeContainerNamespace(): Netns {
  const made = makeNamespace()
  using inside = made.openRoute()
  setLink(inside, getLink(inside, "lo"), { up: true })
  return made
}

/** The path by which other processes open a namespace that this one holds. */
export function heldPath(netns: Netns): string {
  return `/proc/${processId()}/fd/${netns.fd}`
}

function unshare(): void {
  try {
    unshareNetworkNamespace()
  } catch (error) {
    if (!isErrno(error, "EPERM")) throw error
    throw new Error("Cannot make a network namespace: it needs root, with CAP_SYS_ADMIN")
  }
}
