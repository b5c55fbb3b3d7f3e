import { formatCidr, networkOf, parseCidr } from "../../pkg/types/mod.ts"
import { itemsAt, memberOf, nodeAt, textAt } from "./document.ts"
import type { Findings } from "./findings.ts"
import type { Entry } from "./network.ts"

/** Reports known keys in positions where plugins do not read them. */
export function checkNoEffect(entry: Entry, findings: Findings): void {
  checkUnusedIpam(entry, findings)
  checkArgs(entry, findings)
  checkRoutes(entry, findings)
}

function checkUnusedIpam({ source, node, known }: Entry, findings: Findings): void {
  if (known?.name !== "loopback" && known?.kind !== "chained") return
  if ((textAt(node, ["ipam", "type"]) ?? "") === "") return
  const message = `"ipam" has no effect: "${known.name}" runs no IPAM plugin`
  findings.add(source, memberOf(node, "ipam")?.keyNode, "no-effect", message, { hint: "remove it" })
}

/** Keys for requests in `args.cni`, as the CNI conventions define them. */
const requests = ["ips", "mac"]

function checkArgs({ source, node, known }: Entry, findings: Findings): void {
  if (known === undefined) return
  for (const key of requests) {
    const member = memberOf(nodeAt(node, ["args"]), key)
    if (member === undefined) continue
    findings.add(source, member.keyNode, "no-effect", `"args.${key}" has no effect: plugins read "args.cni.${key}"`, {
      hint: `write "args": { "cni": { "${key}": … } }`,
    })
  }
}

function checkRoutes({ source, node, ipam }: Entry, findings: Findings): void {
  if (ipam === undefined) return
  for (const route of itemsAt(node, ["ipam", "routes"])) {
    const written = textAt(route, ["dst"]) ?? ""
    const dst = parseCidr(written)
    if (dst === undefined) continue
    const network = { ip: networkOf(dst), prefix: dst.prefix }
    if (network.ip.every((byte, index) => byte === dst.ip[index])) continue
    const message = `the route's destination ${written} has host bits set: the network address is ${formatCidr(network)}`
    findings.add(source, nodeAt(route, ["dst"]), "route-host-bits", message)
  }
}
