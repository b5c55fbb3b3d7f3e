import { isErrno } from "../../pkg/libc/mod.ts"
import type { Link, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import type { Backup } from "./backup.ts"
import { hasValues, type LinkValues, linkKeys, setValue, valuesOf } from "./link.ts"
import { restoreSysctls } from "./sysctls.ts"
import type { Target } from "./target.ts"

/**
 * Sets everything back to what a backup says: the link first, since a link with a small MTU has no IPv6 sysctls. What
 * does not exist any more needs nothing. Goes through all of it, and throws one `CniError` that names what failed.
 */
export function restore(target: Target, backup: Backup): void {
  const failures = new Failures()
  const link = hasValues(backup) ? target.findLink() : undefined
  if (link) {
    const peer = backup.peerMtu === undefined ? undefined : target.findPeer(link)
    restoreLink(target.inside, link, backup, failures)
    if (peer) restoreLink(target.host, peer, { mtu: backup.peerMtu }, failures)
  }
  const { sysctl } = backup
  if (sysctl) target.sandbox.run(() => restoreSysctls(sysctl, failures))
  failures.throwIfAny()
}

function restoreLink(route: RouteSocket, link: Link, originals: LinkValues, failures: Failures): void {
  const present = valuesOf(link)
  for (const key of linkKeys) {
    if (originals[key] === undefined || originals[key] === present[key]) continue
    failures.attempt(`restore "${key}" of "${link.name}"`, () => {
      try {
        setValue(route, link, key, originals)
      } catch (error) {
        if (!(error instanceof Error && isErrno(error.cause, "ENODEV"))) throw error
      }
    })
  }
}
