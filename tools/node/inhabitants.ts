import { readDirectory, readlink, unlessErrno } from "../../pkg/libc/mod.ts"
import { findNsid, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import type { NodeLink } from "./links.ts"

/** Returns a process in the namespace of a link's peer, or `undefined` if no such process is visible. */
export type FindInhabitant = (link: Pick<NodeLink, "nsid" | "peerNsid">) => number | undefined

/** Creates a `FindInhabitant`. Its first call reads all processes. It never throws. */
export function inhabitants(): FindInhabitant {
  let processes: ReadonlyMap<number, number> | undefined
  return ({ nsid, peerNsid }) => {
    const asked = nsid ?? peerNsid
    if (asked === undefined) return undefined
    processes ??= processesByNsid()
    return processes.get(asked)
  }
}

/** Returns one process of each namespace that has an nsid on the host. */
function processesByNsid(): Map<number, number> {
  const found = new Map<number, number>()
  try {
    using host = RouteSocket.open()
    const seen = new Set<string>()
    for (const pid of readDirectory("/proc").filter((entry) => /^\d+$/.test(entry))) {
      const path = `/proc/${pid}/ns/net`
      const name = unlessErrno(() => readlink(path), "ENOENT", "EACCES", "ESRCH")
      if (name === undefined || seen.has(name)) continue
      seen.add(name)
      const nsid = nsidOf(path, host)
      if (nsid !== undefined) found.set(nsid, Number(pid))
    }
  } catch {
    // Without permission to read processes, a namespace without a path counts as deleted, as in runtimes.
  }
  return found
}

function nsidOf(path: string, host: RouteSocket): number | undefined {
  try {
    using netns = Netns.find(path)
    return netns && findNsid(host, netns.fd)
  } catch {
    return undefined // the process ended
  }
}
