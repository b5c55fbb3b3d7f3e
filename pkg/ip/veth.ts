import { isErrno, randomHex } from "../libc/mod.ts"
import { addVeth, findLink, type Ifindex, type NetlinkSocket } from "../netlink/mod.ts"
import type { Netns } from "../netns/mod.ts"
import { CniError, Code } from "../types/mod.ts"

/** Two random names are equal once in 2^32 times; this many collisions in a row have another cause. */
const NAME_ATTEMPTS = 10

/**
 * The number of queues of each end. By default the kernel creates as many as the host can have CPUs, and then waits for
 * RCU twice to disable all but one (veth_init_queues in drivers/net/veth.c).
 */
export const VETH_QUEUES = 1

/** A veth pair between the host and a container. */
export interface VethPair {
  /** The namespace of the container's end, and its name there. */
  sandbox: Netns
  ifName: string
  mtu?: number | undefined
  /** The hardware address of the container's end; chosen by the kernel if undefined. */
  mac?: string | undefined
  /** The bridge that the host's end joins. */
  master?: Ifindex
  /** The alias of the host's end, set at creation: DEL and GC find the pair by it, even after a killed ADD. */
  alias: string
}

/** Returns a name for the host's end: "veth" and 8 random hex digits, as upstream. Other programs match it. */
export function randomVethName(): string {
  return `veth${randomHex(4)}`
}

/**
 * Creates a veth pair in one request, both ends down. The host's end gets a random name, which is returned; the
 * container's end is created directly in its namespace under its final name. Throws `CniError` with code 11 (try again
 * later) if the container has got an interface of that name since the check; nothing was created then.
 */
export function createVethPair(host: NetlinkSocket, { sandbox, ifName, mtu, mac, master, alias }: VethPair): string {
  for (let attempt = 1; ; attempt++) {
    const name = randomVethName()
    try {
      if (attempt < NAME_ATTEMPTS && findLink(host, name)) continue // a link of that name would get the alias
      const peer = { name: ifName, queues: VETH_QUEUES, netnsFd: sandbox.fd, mtu, mac }
      addVeth(host, { name, queues: VETH_QUEUES, mtu, master, alias }, peer)
      return name
    } catch (error) {
      // The caller has checked that the container's name is free, so the random name is most likely taken.
      const isTaken = isErrno(error, "EEXIST")
      if (isTaken && attempt < NAME_ATTEMPTS) continue
      const code = isTaken ? Code.TryAgainLater : Code.Internal
      throw new CniError(code, `Cannot create interface "${ifName}" in "${sandbox.path}"`, { cause: error })
    }
  }
}
