import { isErrno, randomHex } from "../libc/mod.ts"
import { addVeth, findLink, type Ifindex, type NetlinkSocket } from "../netlink/mod.ts"
import type { Netns } from "../netns/mod.ts"
import { CniError, Code } from "../types/mod.ts"

/** Random names clash once in four thousand million times; this many clashes in a row are something else. */
const NAME_ATTEMPTS = 10

/**
 * Of each end. Left alone, the kernel makes as many as the host can have CPUs, and then waits for RCU twice to take all but
 * one out of use (veth_init_queues in drivers/net/veth.c).
 */
export const VETH_QUEUES = 1

/** A veth pair between the host and a container. */
export interface VethPair {
  /** The namespace of the container's end, and its name there. */
  sandbox: Netns
  ifName: string
  mtu?: number | undefined
  /** The container end's hardware address; the kernel's choice when undefined. */
  mac?: string | undefined
  /** The bridge that the host's end joins. */
  master?: Ifindex
  /** The alias of the host's end, set when it is made: DEL and GC find the pair by it, also after a killed ADD. */
  alias: string
}

/** A name for the host's end, "veth" and 8 random hex digits, as upstream has it: other programs match on it. */
export function randomVethName(): string {
  return `veth${randomHex(4)}`
}

/**
 * Creates a veth pair in one request, both ends down: the host's with a random name, which it returns, the container's
 * directly in its namespace and under its final name. Throws `CniError` with code 11 (try again later) when an
 * interface of that name was made in the container since the check; nothing was made then.
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
      // The caller has seen that the container's name is free: what exists is most likely our random name.
      const isTaken = isErrno(error, "EEXIST")
      if (isTaken && attempt < NAME_ATTEMPTS) continue
      const code = isTaken ? Code.TryAgainLater : Code.Internal
      throw new CniError(code, `Cannot create interface "${ifName}" in "${sandbox.path}"`, { cause: error })
    }
  }
}
