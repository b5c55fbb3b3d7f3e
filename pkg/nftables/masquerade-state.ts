import type { NetlinkSocket } from "../netlink/mod.ts"
import type { MasqueradeLayout } from "./masquerade-layout.ts"
import { listElements, listRules } from "./read.ts"
import type { Element } from "./rule-set.ts"

/** What the kernel has of a layout. */
export interface MasqueradeState {
  /** Whether the rule is in its place, and with it table, chain and sets. */
  isComplete: boolean
  /** Undefined where there is no such set. */
  containers: Element[] | undefined
  networks: Element[] | undefined
}

/** Reads all of it; wrap in `atomically` for a picture of one moment. Throws `NetlinkError`. */
export function readMasquerade(socket: NetlinkSocket, layout: MasqueradeLayout): MasqueradeState {
  return {
    isComplete: hasMasqueradeRule(socket, layout),
    containers: listElements(socket, layout.containers),
    networks: listElements(socket, layout.networks),
  }
}

/** Whether our rule, and no other, is in the chain: the kernel keeps chain and sets for as long as a rule needs them. */
export function hasMasqueradeRule(socket: NetlinkSocket, { chain, rule }: MasqueradeLayout): boolean {
  const [only, ...more] = listRules(socket, chain)
  return only?.comment === rule.comment && more.length === 0
}
