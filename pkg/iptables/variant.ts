import { isErrno } from "../libc/mod.ts"
import type { NetlinkSocket } from "../netlink/mod.ts"
import { add, commit, create } from "../nftables/mod.ts"
import type { Variant } from "./programs.ts"

/**
 * Which kind of iptables works on this kernel: the one that the administrator has chosen, wherever nf_tables has NAT for
 * IP, else the legacy one. Asks for a NAT chain in a transaction that ends with what must be refused, so that nothing
 * comes of it. `socket` is undefined on a kernel without nf_tables.
 */
export function chooseVariant(socket: NetlinkSocket | undefined): Variant {
  if (!socket) return "legacy"
  const table = { family: "ip", name: "cni_probe" } as const
  const base = { type: "nat", hook: "postrouting", priority: 100, policy: "accept" } as const
  try {
    commit(socket, [add.table(table), add.chain({ table, name: "postrouting", base }), create.table(table)])
  } catch (error) {
    if (isErrno(error, "EEXIST")) return "default" // all but the last was agreed to
    if (isErrno(error, "EPERM")) throw error
  }
  return "legacy"
}
