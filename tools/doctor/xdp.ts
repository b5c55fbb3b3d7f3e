import type { NodeLink } from "../node/mod.ts"
import { affectedBy, type Check, containerLinks, type Finding } from "./finding.ts"
import { ofOthers, sh } from "./remedy.ts"

/**
 * Finds XDP programs at host ends and bridges, because their drops cannot be predicted. Ignores uplinks, to which
 * network plugins based on eBPF attach programs.
 */
export const checkXdp: Check = (input) => {
  const names = new Set(containerLinks(input))
  const own = input.node.links.filter(({ nsid, name }) => nsid === undefined && names.has(name))
  return own.flatMap((link): Finding[] => {
    const { name, xdp } = link
    if (!xdp) return []
    const isConcerned = ({ nsid, index, master }: NodeLink) =>
      nsid === undefined && (index === link.index || master === link.index)
    const concerned = input.attachments.filter((one) => one.link && isConcerned(one.link))
    return [
      {
        rule: "xdp-program",
        severity: "warning",
        cause: link.kind === "bridge" ? `bridge ${name}` : "ends",
        affected: concerned.map(affectedBy),
        what: `an XDP program (id ${xdp.id}) is attached to "${name}"`,
        ofMany: (count) =>
          `XDP programs are attached to interfaces of ${count} containers, such as id ${xdp.id} at "${name}"`,
        why: "it processes each incoming packet before all rules, and no rule shows the packets that it drops",
        remedy: ofOthers("it may be intended; if not, detach it", sh`bpftool prog show id ${xdp.id}`),
      },
    ]
  })
}
