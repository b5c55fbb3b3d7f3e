import { isErrno } from "../../../pkg/libc/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { add, commit, create } from "../../../pkg/nftables/mod.ts"
import type { Family } from "../mapping.ts"
import { layoutOf } from "./layout.ts"
import { skeleton } from "./plan.ts"
import { isComplete } from "./state.ts"

/**
 * Whether this kernel can do what `addHostports` needs for a family: nf_tables with NAT and `fib`. Where nothing is mapped
 * yet it makes all of it, like `nft --check`, in a transaction that ends with what must be refused, so that nothing comes
 * of it. Throws `EPERM` without CAP_NET_ADMIN.
 */
export function canMapPorts(socket: NetlinkSocket, family: Family): boolean {
  const layout = layoutOf(family)
  try {
    if (isComplete(socket, layout, undefined)) return true
    commit(socket, [...skeleton(layout), add.rule(layout.hairpinRule(24)), create.table(layout.table)])
  } catch (error) {
    if (isErrno(error, "EEXIST")) return true // all but the last was agreed to
    if (isErrno(error, "EPERM")) throw error
  }
  return false
}
