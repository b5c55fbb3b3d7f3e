import { isErrno } from "../libc/mod.ts"
import { masqueradeLayout } from "./masquerade-layout.ts"
import { skeleton } from "./masquerade-plan.ts"
import { hasMasqueradeRules } from "./masquerade-state.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { create } from "./rule-set.ts"
import { commit } from "./transaction.ts"

/**
 * Whether this kernel can do what `addMasquerade` needs for a family: nf_tables with NAT. Where no masquerade is in place
 * yet it makes one, like `nft --check`, in a transaction that ends with what must be refused, so that nothing comes of it.
 * Throws `EPERM` without CAP_NET_ADMIN, and what is no answer of the kernel's.
 */
export function canMasquerade(socket: Netfilter, family: "ip" | "ip6"): boolean {
  const layout = masqueradeLayout(family)
  try {
    if (hasMasqueradeRules(socket, layout, [])) return true
    commit(socket, [...skeleton(layout, [8]), create.table(layout.table)])
  } catch (error) {
    if (isErrno(error, "EEXIST")) return true // all but the last was agreed to
    // No refusal of the kernel's: memory, say, has run out.
    if (isErrno(error, "EPERM") || !isErrno(error)) throw error
  }
  return false
}
