import { dlopen } from "bun:ffi"
import { CLONE_NEWNET } from "../../pkg/libc/mod.ts"
import { getLink, setLink } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"

/**
 * Makes a network namespace, like `unshare --net`, with `lo` up. It is held by a descriptor alone: it ends with this process, also
 * with one that is killed, and its links and the addresses on their other ends go with it. Throws `EPERM` without CAP_SYS_ADMIN.
 */
export function makeNamespace(): Netns {
  using home = Netns.own()
  const made = home.run(() => {
    unshare()
    return Netns.own()
  })
  using inside = made.openRoute()
  setLink(inside, getLink(inside, "lo"), { up: true })
  return made
}

/** The path by which other processes open a namespace that this one holds. */
export function heldPath(netns: Netns): string {
  return `/proc/${process.pid}/fd/${netns.fd}`
}

/** The call that no plugin needs. Of its errors only one is to be expected. */
function unshare(): void {
  const { symbols } = dlopen("libc.so.6", { unshare: { args: ["i32"], returns: "i32" } })
  if (symbols.unshare(CLONE_NEWNET) === 0) return
  throw new Error("Cannot make a network namespace: it needs root, with CAP_SYS_ADMIN")
}
