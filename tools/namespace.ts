import { isErrno, processId, unshareNetworkNamespace } from "../pkg/libc/mod.ts"
import { getLink, setLink } from "../pkg/netlink/mod.ts"
import { Netns } from "../pkg/netns/mod.ts"

/**
 * Creates a network namespace, like `unshare --net`. Only a descriptor of this process refers to it, so the kernel
 * deletes it with its links when the process ends, even if it is killed. Throws `EPERM` without CAP_SYS_ADMIN.
 */
export function makeNamespace(): Netns {
  using home = Netns.own()
  return home.run(() => {
    unshare()
    return Netns.own()
  })
}

/** Creates a namespace like `makeNamespace`, with `lo` up as in a runtime's container. */
export function makeContainerNamespace(): Netns {
  const made = makeNamespace()
  using inside = made.openRoute()
  setLink(inside, getLink(inside, "lo"), { up: true })
  return made
}

/** Returns a path that other processes can open, for a namespace that only this process refers to. */
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
