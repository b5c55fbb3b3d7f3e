import { AF_INET, familyOf, parseCidr } from "../../pkg/types/mod.ts"
import { chainsAt, comparesWith, type FilterView, isUnconditional, verdictOf } from "../node/mod.ts"
import { valuesOf } from "./filters.ts"
import { bridgeOf, bridgesOf, type Check, type Finding, type Patient, routedLinks } from "./finding.ts"
import { isGateway } from "./links.ts"

/** A table of which this share is used is nearly full. */
const NEARLY_FULL = 0.8

/** Forwarding between interfaces, which ADD switches on and others switch off again. */
export const checkForwarding: Check = (patient) => {
  const isolated = new Set(
    patient.members.filter((member) => bridgeOf(member) && !isGateway(member)).map(({ network }) => network),
  )
  const used = patient.attachments.filter(
    ({ link, isAlive, network }) => link && link.nsid === undefined && isAlive !== false && !isolated.has(network),
  )
  const families = new Set(used.flatMap(({ addresses }) => addresses.map(familyOfText)))
  const found: Finding[] = []
  for (const [family, path] of [
    [4, "net/ipv4/ip_forward"],
    [6, "net/ipv6/conf/all/forwarding"],
  ] as const) {
    if (!families.has(family) || patient.sysctl(path) !== "0") continue
    found.push({
      rule: "forwarding-off",
      severity: "error",
      what: `${path} is 0, and ${used.length} containers are attached`,
      why: "the kernel drops what containers send beyond their own network, and what comes for them",
      remedy: `sysctl -w ${path.replaceAll("/", ".")}=1, and find what switches it off: /etc/sysctl.d, a firewall's start`,
    })
  }
  if (patient.sysctl("net/ipv4/ip_forward") === "0") return found
  for (const link of routedLinks(patient)) {
    if (patient.sysctl(`net/ipv4/conf/${link}/forwarding`) !== "0") continue
    found.push({
      rule: "forwarding-off-link",
      severity: "error",
      what: `net/ipv4/conf/${link}/forwarding is 0, and net/ipv4/ip_forward is 1`,
      why: `the kernel forwards nothing that comes in by ${link}`,
      remedy: `sysctl -w net.ipv4.conf.${link}.forwarding=1`,
    })
  }
  return found
}

function familyOfText(address: string): 4 | 6 {
  return address.includes(":") ? 6 : 4
}

/** Strict reverse path filtering; what counts is the larger of the value for all and the interface's. */
export const checkReversePath: Check = (patient) => {
  const all = Number(patient.sysctl("net/ipv4/conf/all/rp_filter") ?? 0)
  return routedLinks(patient).flatMap((link): Finding[] => {
    const value = Math.max(all, Number(patient.sysctl(`net/ipv4/conf/${link}/rp_filter`) ?? 0))
    if (value !== 1) return []
    return [
      {
        rule: "rp-filter-strict",
        severity: "warning",
        what: `rp_filter of ${link} is strict (1)`,
        why: "packets of containers with several interfaces, or whose answers go another way, are dropped without a trace",
        remedy: `sysctl -w net.ipv4.conf.${all === 1 ? "all" : link}.rp_filter=2 (loose)`,
      },
    ]
  })
}

/** Whether frames between containers of one bridge go through the rules for forwarded packets. */
export const checkBridgeFiltering: Check = (patient) => {
  const called = patient.sysctl("net/bridge/bridge-nf-call-iptables")
  const found: Finding[] = []
  const isUsed = patient.attachments.length > 0 && bridgesOf(patient).length > 0
  if (isUsed && patient.attachments.some(({ pod }) => pod !== undefined) && called !== "1") {
    found.push({
      rule: "br-netfilter-off",
      severity: "warning",
      what: called === undefined ? "the module br_netfilter is not loaded" : "net/bridge/bridge-nf-call-iptables is 0",
      why: "a pod does not reach a Service whose answer comes from a pod of the same node",
      remedy: "modprobe br_netfilter; sysctl -w net.bridge.bridge-nf-call-iptables=1",
    })
  }
  if (isUsed && called === "1" && dropsForwarded(patient)) {
    found.push({
      rule: "bridge-nf-call-iptables",
      severity: "warning",
      what: "net/bridge/bridge-nf-call-iptables is 1, and a chain at hook forward drops packets",
      why: "frames between containers of one bridge go through that chain too, and may be dropped",
      remedy:
        "let the bridges' packets through there, or sysctl -w net.bridge.bridge-nf-call-iptables=0 without Kubernetes",
    })
  }
  return found
}

/** A chain with a rule that accepts what comes from or goes to containers, as docker's and ufw's users write it, drops none of it. */
function dropsForwarded(patient: Patient): boolean {
  const { filter } = patient
  const values = valuesOf(patient)
  const bases =
    filter?.bases.filter(
      ({ hook, type, table }) => hook === "forward" && type === "filter" && table.family !== "bridge",
    ) ?? []
  return bases.some((base) => {
    const chains = filter ? chainsAt(filter, base) : []
    const rules = (filter?.rules ?? []).filter(
      ({ chain }) =>
        chain.table.name === base.table.name && chain.table.family === base.table.family && chains.includes(chain.name),
    )
    const isAccepting = (rule: FilterView["rules"][number]) =>
      verdictOf(rule) === "accept" && (isUnconditional(rule) || comparesWith(rule, values))
    if (rules.some(isAccepting)) return false
    return base.policy === "drop" || rules.some((rule) => verdictOf(rule) === "drop" && isUnconditional(rule))
  })
}

/** The table of connections: when it is full, new ones are dropped. */
export const checkConntrack: Check = (patient) => {
  const [count, most] = ["count", "max"].map((name) => Number(patient.sysctl(`net/netfilter/nf_conntrack_${name}`)))
  if (!count || !most || count < NEARLY_FULL * most) return []
  const isFull = count >= most
  return [
    {
      rule: "conntrack-full",
      severity: isFull ? "error" : "warning",
      what: `${count} of ${most} connections are tracked (${Math.round((100 * count) / most)} %)`,
      why: `${isFull ? "the kernel drops" : "when it is full the kernel drops"} new connections of the host and of all containers`,
      remedy: `sysctl -w net.netfilter.nf_conntrack_max=${2 * most}; conntrack -L shows which connections they are`,
    },
  ]
}

/** IPv6 switched off where containers have IPv6 addresses. */
export const checkIpv6: Check = (patient) => {
  const bridges = new Set(bridgesOf(patient))
  return patient.attachments.flatMap(({ addresses, link, network }): Finding[] => {
    const hasIpv6 = addresses.some((address) => {
      const cidr = parseCidr(address.includes("/") ? address : `${address}/128`)
      return cidr !== undefined && familyOf(cidr.ip) !== AF_INET
    })
    const master = patient.node.links.find(({ index, nsid }) => nsid === undefined && index === link?.master)
    if (!hasIpv6 || !master || !bridges.has(master.name)) return []
    if (patient.sysctl(`net/ipv6/conf/${master.name}/disable_ipv6`) !== "1") return []
    return [
      {
        rule: "ipv6-disabled",
        severity: "error",
        network,
        what: `net/ipv6/conf/${master.name}/disable_ipv6 is 1, and containers on it have IPv6 addresses`,
        why: "their gateway has no IPv6 address and does not answer",
        remedy: `sysctl -w net.ipv6.conf.${master.name}.disable_ipv6=0, then attach the containers anew`,
      },
    ]
  })
}
