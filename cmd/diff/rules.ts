import type { Attachment, NetworkPlugin } from "../../pkg/libcni/mod.ts"
import { member, ownerComment } from "../../pkg/types/mod.ts"
import { type OwnedRule, readOwnedRules } from "../node/mod.ts"
import type { Difference } from "./compare.ts"

/** Keys that have rules made for each container, and where these are. */
const makers: readonly (readonly [key: string, what: string, place: RegExp])[] = [
  ["ipMasq", "masquerade", /cni_masquerade|cni_plugins_masquerade|nat (CNI-|POSTROUTING)/],
  ["macspoofchk", "check of source MACs", /spoofcheck|cni_plugins_spoofcheck|nat-PREROUTING/],
]

/**
 * Rules that a configuration asks for and that nothing is there of: a plugin's CHECK may have ended before it looked at them.
 * Throws `EPERM` without CAP_NET_ADMIN.
 */
export function compareRules(plugins: readonly NetworkPlugin[], network: string, attachment: Attachment): Difference[] {
  const wanted = makers.filter(([key]) => plugins.some(({ raw }) => member(raw, key) === true))
  if (wanted.length === 0) return []
  const { containerId, ifName } = attachment
  const comment = ownerComment({ network, containerId, ifName })
  const isOwn = ({ owner }: OwnedRule) => owner === comment || owner.includes(`id: "${containerId}"`) // upstream's comment
  const own = readOwnedRules().owned.filter(isOwn)
  return wanted
    .filter(([, , place]) => !own.some((rule) => place.test(rule.place)))
    .map(([, what]) => ({ what: `${what} of ${comment}`, expected: "rules", found: "nothing" }))
}
