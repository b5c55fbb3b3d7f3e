import { isErrno, randomHex } from "../libc/mod.ts"
import { addVeth, findLink, type Ifindex, type NetlinkSocket } from "../netlink/mod.ts"
import type { Netns } from "../netns/mod.ts"
import { CniError, Code } from "../types/mod.ts"

/** The number of names to try. So many collisions have another cause: two random names collide once in 2^32 times. */
const NAME_ATTEMPTS = 10

/**
 * The number of queues of each end. By default the kernel creates one for each possible CPU of the host, and then waits
 * for RCU twice to disable all but one (veth_init_queues in drivers/net/veth.c).
 */
export const VETH_QUEUES = 1

/** A veth pair to create, with one end on the host and one in a container. */
export interface VethPair {
  sandbox: Netns
  ifName: string
  mtu?: number | undefined
  /** The hardware address of the container's end; the kernel chooses one if undefined. */
  mac?: string | undefined
  /** The bridge to which the host's end is added. */
  master?: Ifindex
  /** The alias of the host's end, which is set at creation. DEL and GC find the pair by it, even if ADD was killed. */
  alias: string
}

/** Returns a random name: "veth" and 8 hex digits. Other programs recognize this form of the Go plugins. */
export function randomVethName(): string {
  return `veth${randomHex(4)}`
}

/**
 * Creates a veth pair in one request, with both ends down. Returns the name of the host's end, which is random. The
 * container's end is created directly in its namespace with its final name. Throws `CniError` with code 11 (try again
 * later), and creates nothing, if the container has got an interface with that name since the caller checked.
 */
export function createVethPair(host: NetlinkSocket, { sandbox, ifName, mtu, mac, master, alias }: VethPair): string {
  for (let attempt = 1; ; attempt++) {
    const name = randomVethName()
    try {
      // An existing link with that name would get the alias.
      if (attempt < NAME_ATTEMPTS && findLink(host, name)) continue
      const peer = { name: ifName, queues: VETH_QUEUES, netnsFd: sandbox.fd, mtu, mac }
      addVeth(host, { name, queues: VETH_QUEUES, mtu, master, alias }, peer)
      return name
    } catch (error) {
      // The caller has checked that the container's name is unused, so most likely the random name is in use.
      const isTaken = isErrno(error, "EEXIST")
      if (isTaken && attempt < NAME_ATTEMPTS) continue
      const code = isTaken ? Code.TryAgainLater : Code.Internal
      throw new CniError(code, `Cannot create interface "${ifName}" in "${sandbox.path}"`, { cause: error })
    }
  }
}
