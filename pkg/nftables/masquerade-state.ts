import type { MasqueradeLayout } from "./masquerade-layout.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { type FoundElements, findElements, listComments } from "./read.ts"

/** The elements of a layout that were looked for. Undefined where there is no such set. */
export interface MasqueradeElements {
  containers: FoundElements | undefined
  networks: FoundElements | undefined
}

/** Reads the elements, or those that have one of `needles` in their bytes. Throws `NetlinkError`. */
export function findMasquerade(
  socket: Pick<Netfilter, "dump">,
  { containers, networks }: MasqueradeLayout,
  needles?: readonly Uint8Array[],
): MasqueradeElements {
  return {
    containers: findElements(socket, containers, needles),
    networks: findElements(socket, networks, needles),
  }
}

/** Whether our rule, and no other, is in the chain: the kernel keeps chain and sets for as long as a rule needs them. */
export function hasMasqueradeRule(socket: Pick<Netfilter, "dump">, { chain, rule }: MasqueradeLayout): boolean {
  const comments = listComments(socket, chain)
  return comments.length === 1 && comments[0] === rule.comment
}
