import { isOn, itemsAt, memberOf, nodeAt, textAt } from "./document.ts"
import type { Findings } from "./findings.ts"
import type { Entry, LintNetwork } from "./network.ts"

/** Reports networks for which ADD succeeds, although the containers have no connectivity. */
export function checkReach({ entries }: LintNetwork, findings: Findings): void {
  for (const [index, entry] of entries.entries()) {
    const before = entries.slice(0, index)
    checkAddresses(entry, findings)
    checkDefaultRoute(entry, findings)
    checkSourceRouting(entry, before, findings)
    checkPublishedPorts(entry, before, findings)
    checkVlan(entry, findings)
  }
}

const needAddresses = ["isDefaultGateway", "isGateway", "ipMasq"]

/** Reports a bridge without an IPAM plugin but with keys that need addresses. */
function checkAddresses({ source, node, known }: Entry, findings: Findings): void {
  const key = needAddresses.find((each) => isOn(node, [each]))
  if (known?.name !== "bridge" || key === undefined || (textAt(node, ["ipam", "type"]) ?? "") !== "") return
  const message = `"${key}" has no effect: "ipam" names no plugin, so containers get no addresses`
  findings.add(source, memberOf(node, key)?.keyNode, "no-addresses", message, {
    hint: 'write "ipam": { "type": "host-local", … }',
  })
}

/** Reports masquerade without a route to other networks. Ignores dhcp, because a DHCP server may send a route. */
function checkDefaultRoute({ source, node, known, ipam }: Entry, findings: Findings): void {
  const isMasqueraded = (known?.name === "bridge" || known?.name === "ptp") && isOn(node, ["ipMasq"])
  const isFixed = ipam?.name === "host-local" || ipam?.name === "static"
  if (!isMasqueraded || !isFixed || (known.name === "bridge" && isOn(node, ["isDefaultGateway"]))) return
  if (itemsAt(node, ["ipam", "routes"]).length > 0) return
  const message = '"ipMasq" is for traffic to other networks, but containers have no route to other networks'
  const routes = '"routes": [{ "dst": "0.0.0.0/0" }] in "ipam"'
  findings.add(source, memberOf(node, "ipMasq")?.keyNode, "no-default-route", message, {
    hint: known.name === "bridge" ? `write "isDefaultGateway": true, or ${routes}` : `write ${routes}`,
  })
}

/** Reports sbr without a gateway for its table: static returns a gateway only if configured, and host-local always. */
function checkSourceRouting({ source, node, known }: Entry, before: readonly Entry[], findings: Findings): void {
  if (known?.name !== "sbr" || itemsAt(node, ["gateways"]).length > 0 || nodeAt(node, ["table"]) !== undefined) return
  const maker = before.find(({ ipam }) => ipam?.name === "static")
  if (maker === undefined) return
  const isRequested = isOn(maker.node, ["capabilities", "ips"]) // requested addresses replace the configured ones
  const hasGateway = itemsAt(maker.node, ["ipam", "addresses"]).some((each) => textAt(each, ["gateway"]))
  const isDefault = (dst: string | undefined) => dst !== undefined && /\/0$/.test(dst)
  const hasRoute = itemsAt(maker.node, ["ipam", "routes"]).some((route) => isDefault(textAt(route, ["dst"])))
  if ((hasGateway && !isRequested) || hasRoute) return
  const message = 'static returns no gateway, so the table of "sbr" gets no default route'
  findings.add(source, nodeAt(node, ["type"]), "no-gateway", message, {
    hint: 'add the gateway to "gateways" of sbr',
  })
}

/** Reports portmap with macvlan or ipvlan: no packets pass between a host and such interfaces on its link. */
function checkPublishedPorts({ source, node, known }: Entry, before: readonly Entry[], findings: Findings): void {
  if (known?.name !== "portmap") return
  const maker = before.find((each) => ["macvlan", "ipvlan"].includes(each.known?.name ?? ""))
  if (maker === undefined) return
  const message = `published ports never answer: the host cannot reach a container of "${maker.type}"`
  findings.add(source, nodeAt(node, ["type"]), "unreachable-ports", message, {
    hint: "connect to the container's own address, or publish ports of a bridge or ptp network",
  })
}

/** Reports vlan, which allows only one container: the kernel allows one interface for each VLAN and master. */
function checkVlan({ source, node, known }: Entry, findings: Findings): void {
  if (known?.name !== "vlan" || isOn(node, ["linkInContainer"])) return
  const message = "each node can have only one container of this network: a master has one interface per VLAN"
  findings.add(source, nodeAt(node, ["type"]), "one-per-node", message, {
    severity: severityOf(source),
    hint: 'use bridge with "vlan", or macvlan on a VLAN interface of the host',
  })
}

/** Returns the severity: a NetworkAttachmentDefinition is for all nodes, but a file may be for one node. */
function severityOf({ attachment }: Entry["source"]) {
  return attachment === undefined ? "info" : "warning"
}

/** Reports host-local on a link of several nodes: each knows only its own reservations, so addresses collide. */
export function checkSharedRange({ source, node, known, ipam }: Entry, findings: Findings): void {
  const isShared = ipam?.name === "host-local" && known?.isOnLan === true
  if (!isShared || isOn(node, ["linkInContainer"])) return
  const written = nodeAt(node, ["ipam"])
  const sets = [written, ...itemsAt(written, ["ranges"]).flatMap((set) => (set.kind === "list" ? set.items : []))]
  const range = sets.find((each) => textAt(each, ["subnet"]) !== undefined)
  if (range === undefined) return
  const isPart = ["rangeStart", "rangeEnd"].some((key) => textAt(range, [key]) !== undefined)
  if (isPart && source.attachment === undefined) return // the file may be for one node
  const message = `host-local tracks only its own node: each node assigns the same addresses of ${textAt(range, ["subnet"])}`
  findings.add(source, nodeAt(range, ["subnet"]), "shared-range", message, {
    severity: severityOf(source),
    hint: 'use an IPAM plugin for all nodes (whereabouts, dhcp), or give each node its own "rangeStart" and "rangeEnd" in a file',
  })
}
