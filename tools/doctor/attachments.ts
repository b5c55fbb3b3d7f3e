import { cacheFile, parseNetworkList } from "../../pkg/libcni/mod.ts"
import { ipamOf, type NodeAttachment } from "../node/mod.ts"
import { affectedBy, type Check, type Finding, nameOf, type Patient } from "./finding.ts"
import { isDeletable, planDeletion } from "./fix.ts"

const GONE = "its container is gone, and no DEL came"

/** Finds leases, records, links and rules of containers that no longer exist. */
export const checkOrphans: Check = (patient) =>
  patient.attachments.filter(({ orphan }) => orphan.length > 0).flatMap((one) => orphanFindings(one, patient))

function orphanFindings(one: NodeAttachment, patient: Patient): Finding[] {
  const isFixable = isProvablyGone(one) && isDeletable(planDeletion(one, patient))
  const about = { network: one.network, severity: "warning" as const, isFixable, affected: [affectedBy(one)] }
  const found: Finding[] = []
  const has = (text: string) => one.orphan.some((reason) => reason.startsWith(text))
  const remedy = orphanRemedy(one, patient, isFixable)
  if (has("lease")) {
    const what = `host-local keeps ${one.addresses.join(", ")} for ${nameOf(one)}: ${reasonsOf(one, "lease")}`
    found.push({ ...about, rule: "stale-lease", what, why: `${GONE}; the address is lost to the pool`, remedy })
  }
  if (has("cache")) {
    const what = `the runtime's cache has ${nameOf(one)}, and there is no namespace "${one.netns}"`
    found.push({ ...about, rule: "stale-cache", what, why: GONE, remedy })
  }
  if (has("rules")) {
    const places = [...new Set(one.rules.map(({ place }) => place))].join(", ")
    const what = `rules for ${nameOf(one)} in ${places}: ${reasonsOf(one, "rules")}`
    const why = "packets of the address's next holder, or to a port of the host, go the wrong way"
    found.push({ ...about, rule: "orphaned-rules", what, why, remedy })
  }
  if (has("link")) {
    const what = `interface "${one.link?.name}" is that of ${nameOf(one)}, which no cache entry knows`
    const why = "the runtime will not delete it; it keeps its address and its port of the bridge"
    found.push({ ...about, rule: "orphaned-link", what, why, remedy })
  }
  return found
}

/** `cni gc` needs the network's file; the record of a runtime, such as that of "cni-loopback", has none. */
function orphanRemedy(one: NodeAttachment, { node }: Patient, isFixable: boolean): string {
  const hasFile = node.networks.some(({ network }) => network?.name === one.network)
  if (isFixable) return `cni doctor --fix deletes it${hasFile ? `; so does cni gc ${one.network} --auto` : ""}`
  if (one.sources.join() === "cache")
    return `delete ${cacheFile(one.cached?.cacheDir ?? node.places.cacheDir, one)}: it has no configuration that a DEL could be run with`
  if (hasFile) return `if no container uses it: cni gc ${one.network} --auto`
  return `if no container uses it: write a configuration of network "${one.network}", and run cni gc`
}

function reasonsOf({ orphan }: NodeAttachment, beginning: string): string {
  return orphan.filter((reason) => reason.startsWith(beginning)).join(", ")
}

/**
 * Whether nothing can be using what is left: no link on the host leads to the container, and either the namespace that was
 * noted is not there, or nothing but rules names it, and they note no namespace.
 */
export function isProvablyGone({ isAlive, link, sources, netns }: NodeAttachment): boolean {
  if (link !== undefined) return false
  if (isAlive === false) return true
  return netns === undefined && sources.every((source) => source === "rule")
}

/** Finds what other programs removed of living containers' attachments. */
export const checkComplete: Check = (patient) =>
  patient.attachments
    .filter(({ cached, isAlive }) => cached !== undefined && isAlive === true)
    .flatMap((one) => [
      ...missingLink(one),
      ...missingMasquerade(one),
      ...missingPorts(one),
      ...missingLease(one, patient),
    ])

const AGAIN = "restart the container, or have it attached again (podman network reload, a new pod)"

function missingLink(one: NodeAttachment): Finding[] {
  const name = one.result?.interfaces.find(({ name, sandbox }) => !sandbox && /^veth/.test(name))?.name
  if (name === undefined || one.link !== undefined) return []
  return [
    {
      rule: "missing-host-end",
      severity: "error",
      network: one.network,
      what: `"${name}", the host's end of ${nameOf(one)}, is not there`,
      why: "the container has no interface any more",
      remedy: AGAIN,
    },
  ]
}

function pluginsOf({ cached }: NodeAttachment) {
  try {
    return cached ? parseNetworkList(cached.config).plugins : []
  } catch {
    return []
  }
}

function missingMasquerade(one: NodeAttachment): Finding[] {
  const wants = pluginsOf(one).some(({ raw }) => raw.ipMasq === true)
  const has = one.rules.some(({ place }) => /masquerade|nat (POSTROUTING|CNI-)/.test(place))
  if (!wants || has) return []
  return [
    {
      rule: "missing-masquerade",
      severity: "error",
      network: one.network,
      what: `there is no masquerade for ${nameOf(one)}, and its network has "ipMasq"`,
      why: "what it sends leaves with an address that no host outside can answer; a reload of a firewall may have flushed it",
      remedy: AGAIN,
    },
  ]
}

function missingPorts(one: NodeAttachment): Finding[] {
  if (one.unservedPorts.length === 0) return []
  const ports = one.unservedPorts.map((port) => port.replace(/→\d+/, "")).join(", ")
  return [
    {
      rule: "missing-ports",
      severity: "error",
      network: one.network,
      what: `ports ${ports} do not lead to ${nameOf(one)}: their rules are not there`,
      why: "a reload of a firewall, or nft flush ruleset, has removed them",
      remedy: AGAIN,
    },
  ]
}

function missingLease(one: NodeAttachment, { node }: Patient): Finding[] {
  const usesStore = pluginsOf(one).some(({ raw }) => ipamOf(raw)?.type === "host-local")
  if (!usesStore || one.sources.includes("lease") || node.unread.some(({ what }) => what === "leases")) return []
  return [
    {
      rule: "missing-lease",
      severity: "error",
      network: one.network,
      what: `${one.addresses.join(", ")} of ${nameOf(one)} is not reserved in host-local's store`,
      why: "the next container may get the same address",
      remedy: AGAIN,
    },
  ]
}

/** Every container has these, and runtimes note them: containerd's network is "cni-loopback". */
const LOOPBACK = /^127\.|^::1$/

/** One address, two containers that live. */
export const checkDuplicates: Check = ({ attachments }) => {
  const holders = new Map<string, NodeAttachment[]>()
  for (const one of attachments.filter(({ isAlive }) => isAlive !== false)) {
    for (const address of new Set(one.addresses.map((each) => each.split("/")[0] ?? ""))) {
      if (LOOPBACK.test(address)) continue
      holders.getOrInsert(`${one.network} ${address}`, []).push(one)
    }
  }
  return [...holders].flatMap(([key, found]): Finding[] => {
    if (found.length < 2) return []
    const [network = "", address] = key.split(" ")
    return [
      {
        rule: "duplicate-address",
        severity: "error",
        network,
        what: `${found.map(nameOf).join(" and ")} have the same address, ${address}`,
        why: "each gets some of the other's packets",
        remedy: "delete one of them and start it again; see that no second host-local shares the range",
      },
    ]
  })
}
