import { isJsonObject } from "../../pkg/types/mod.ts"
import type { NodeAttachment } from "../node/mod.ts"
import { aboutRules, describeTable, pluginsOf } from "./attachments.ts"
import { type Check, type DoctorInput, type Finding, nameOf } from "./finding.ts"

/** Finds deleted rules that isolate or limit running containers: MAC checks, policies, rate limits. */
export const checkLostRules: Check = (input) => {
  if (input.filter === undefined) return []
  return input.attachments
    .filter(({ cached, isAlive }) => cached !== undefined && isAlive === true)
    .flatMap((one) => [...missingSpoofCheck(one, input), ...missingPolicy(one, input), ...missingLimit(one, input)])
}

/** Finds a missing MAC check. Returns none if MAC checks of the reference suite exist: they name no attachment. */
function missingSpoofCheck(one: NodeAttachment, input: DoctorInput): Finding[] {
  const table = "bridge cni_spoofcheck"
  const isAsked = pluginsOf(one).some(({ type, raw }) => type === "bridge" && raw.macspoofchk === true)
  const ofOthers = input.filter?.rules.some(
    ({ chain }) => chain.table.family === "bridge" && /^cni-br-/.test(chain.name),
  )
  if (!isAsked || ofOthers || one.rules.some(({ place }) => place.startsWith(`${table} `))) return []
  return [
    {
      ...aboutRules(one, input, "bridge"),
      rule: "missing-spoof-check",
      cause: `table ${table}`,
      what: `the source MACs of ${nameOf(one)} are not checked, but its network sets "macspoofchk": ${describeTable(input, table)}`,
      ofMany: (count) => `${describeTable(input, table)}: the source MACs of ${count} containers are not checked`,
      why: "the container can send frames with the MACs of others, and receive their frames",
      consequenceOf: ["missing-host-end", "bridge-missing", "not-in-bridge"],
    },
  ]
}

/** Finds a missing policy of the backend nftables. Ignores other backends, because their rules name no attachment. */
function missingPolicy(one: NodeAttachment, input: DoctorInput): Finding[] {
  const table = "inet cni_firewall"
  const firewall = pluginsOf(one).find(({ type }) => type === "firewall")?.raw
  const policy = firewall?.ingressPolicy
  const { backend = "nftables" } = firewall ?? {}
  const ofOthers = input.filter?.rules.some(
    ({ chain }) => chain.table.name === "firewalld" || /^CNI-ISOLATION/.test(chain.name),
  )
  if ((policy !== "same-bridge" && policy !== "isolated") || backend !== "nftables" || ofOthers) return []
  if (one.rules.some(({ place }) => place.startsWith(`${table} `))) return []
  return [
    {
      ...aboutRules(one, input, "firewall"),
      rule: "missing-policy",
      cause: `table ${table}`,
      what: `"ingressPolicy": "${policy}" is not in force for ${nameOf(one)}: ${describeTable(input, table)}`,
      ofMany: (count) => `${describeTable(input, table)}: "ingressPolicy" is not in force for ${count} containers`,
      why: "containers can reach each other although the policy separates them",
      consequenceOf: ["missing-host-end"],
    },
  ]
}

/**
 * Finds missing rate limits. A qdisc of the host's end limits traffic to the container. For traffic from the container,
 * a filter of the host's end redirects all packets to an ifb, whose qdisc limits them.
 */
function missingLimit(one: NodeAttachment, input: DoctorInput): Finding[] {
  const bandwidth = pluginsOf(one).find(({ type }) => type === "bandwidth")?.raw
  const asked = one.cached?.capabilityArgs.bandwidth ?? bandwidth
  const end = one.link
  if (bandwidth === undefined || bandwidth.shapeIn === "container") return []
  if (!isJsonObject(asked) || end?.kind !== "veth" || end.nsid !== undefined) return []
  const hasQueue = end.qdisc === undefined || !/^no/.test(end.qdisc) // the kinds "noqueue" and "noop"
  const hasRedirect =
    input.traffic?.some(({ link, effect }) => link.name === end.name && effect === "redirects") ?? true
  const lost = [...(hasQueue ? [] : ["ingressRate"]), ...(hasRedirect ? [] : ["egressRate"])]
  return lost.flatMap((key): Finding[] => {
    if (!(Number(asked[key]) > 0)) return []
    const way = key === "ingressRate" ? "to" : "from"
    return [
      {
        ...aboutRules(one, input, "bandwidth"),
        severity: "warning",
        rule: "missing-limit",
        cause: `limits of network ${one.network} ${key}`,
        what: `"${end.name}", the host's end of ${nameOf(one)}, does not limit traffic ${way} the container, but its network sets "${key}" to ${asked[key]}`,
        ofMany: (count) =>
          `the host's ends of ${count} containers do not limit traffic ${way} them, but their network sets "${key}"`,
        why: "the container can use the full bandwidth of the host's links",
        consequenceOf: ["tc-filter"],
      },
    ]
  })
}
