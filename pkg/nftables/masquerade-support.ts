import { isErrno } from "../libc/mod.ts"
import { masqueradeLayout } from "./masquerade-layout.ts"
import { hasMasqueradeRule } from "./masquerade-state.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { add, create } from "./rule-set.ts"
import { commit } from "./transaction.ts"

/**
 * Whether this kernel can do what `addMasquerade` needs for a family: nf_tables, NAT, and sets of concatenated intervals
 * (Linux 5.6). Where no masquerade is in place yet it makes one, like `nft --check`, in a transaction that ends with what
 * must be refused, so that nothing comes of it. Throws `EPERM` without CAP_NET_ADMIN.
 */
export function canMasquerade(socket: Netfilter, family: "ip" | "ip6"): boolean {
  const layout = masqueradeLayout(family)
  try {
    if (hasMasqueradeRule(socket, layout)) return true
    const { table, chain, containers, networks, rule } = layout
    commit(socket, [
      add.table(table),
      add.chain(chain),
      add.set(containers),
      add.set(networks),
      add.rule(rule),
      create.table(table),
    ])
  } catch (error) {
    if (isErrno(error, "EEXIST")) return true // all but the last was agreed to
    if (isErrno(error, "EPERM")) throw error
  }
  return false
}
