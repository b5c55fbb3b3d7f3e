import type { Change } from "../../integration/lab/mod.ts"

/** The documented changes that stay on the host after the last DEL of a network. */
const documented = [
  { what: "the bridge demo0 with its gateway address", section: /./, line: /\bdemo0\b/ },
  { what: "forwarding, switched on", section: /^sysctls$/, line: /\b(ip_forward|forwarding) = [01]$/ },
  // An element or a rule with an address is a container's.
  { what: "empty nftables maps", section: /^nftables$/, line: /^(?!.* element )(?!.*\b10\.22\.0\.)/ },
  // A lease is a file whose name is an address.
  { what: "host-local's books, without a lease", section: /^\/var\/lib\/cni$/, line: /^(?!.*\/[0-9a-f.:]+ = )/ },
] as const

/** Splits changes into those that are documented to stay, and leaks. */
export function judgeRemains(changes: readonly Change[]): { stays: string[]; leaked: Change[] } {
  const reason = ({ section, line }: Change) =>
    documented.find((known) => known.section.test(section) && known.line.test(line))?.what
  const stays = new Set(changes.map(reason).filter((what) => what !== undefined))
  return { stays: [...stays], leaked: changes.filter((change) => reason(change) === undefined) }
}
