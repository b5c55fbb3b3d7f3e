import { isOfThisSuite } from "../../install/mod.ts"
import { join } from "../../pkg/libc/mod.ts"
import { isJsonObject, ownerComment } from "../../pkg/types/mod.ts"
import { ipamOf, type NodeAttachment, recordedPlugins } from "../node/mod.ts"
import { affectedBy, type Check, cniCommand, type DoctorInput, type Finding, nameOf, someOf } from "./finding.ts"
import { sh } from "./remedy.ts"

/** Finds missing objects of running containers: host ends, masquerade, rules of published ports, and leases. */
export const checkComplete: Check = (input) =>
  input.attachments
    .filter(({ cached, isAlive }) => cached !== undefined && isAlive === true)
    .flatMap((one) => [
      ...missingLink(one, input),
      ...missingMasquerade(one, input),
      ...missingPorts(one, input),
      ...missingLease(one, input),
    ])

/** Returns the shared properties of findings that a new ADD of the attachment repairs. */
export function about(one: NodeAttachment, input: DoctorInput) {
  return {
    severity: "error" as const,
    network: one.network,
    affected: [affectedBy(one)],
    remedy: cniCommand(input, "reattach", [ownerComment(one)]),
    note: "this re-creates the container's interface with the same addresses, as a restart of the container does; with podman, so does podman network reload --all",
  }
}

/** Returns shared properties of findings about lost rules and limits of the host that this suite's plugins restore. */
export function aboutRules(one: NodeAttachment, input: DoctorInput, type: string) {
  const common = about(one, input)
  if (!isOfThisSuite(input.plugin(type)?.version)) return common
  return {
    ...common,
    remedy: cniCommand(input, "reconcile", [one.network]),
    note: "it restores lost rules and routes of this suite's plugins on the host, and does not touch interfaces",
  }
}

function missingLink(one: NodeAttachment, input: DoctorInput): Finding[] {
  const name = one.result?.interfaces.find(({ name, sandbox }) => !sandbox && /^veth/.test(name))?.name
  if (name === undefined || one.link !== undefined) return []
  return [
    {
      ...about(one, input),
      rule: "missing-host-end",
      cause: `ends of network ${one.network}`,
      what: `"${name}", the host's end of ${nameOf(one)}, does not exist`,
      ofMany: (count) => `the host's ends of ${count} containers of network "${one.network}" do not exist`,
      why: "the container no longer has an interface",
    },
  ]
}

/** Returns the plugins that the runtime's record of the ADD names. Returns none without a record. */
export function pluginsOf({ cached }: NodeAttachment) {
  return recordedPlugins(cached) ?? []
}

/** Describes why a table lacks rules: the table does not exist, or its rules were removed. */
export function describeTable({ filter }: DoctorInput, table: string): string {
  const isThere = filter?.tables?.some(({ family, name }) => `${family} ${name}` === table) ?? true
  return isThere ? `rules were removed from table ${table}` : `table ${table} does not exist`
}

function missingMasquerade(one: NodeAttachment, input: DoctorInput): Finding[] {
  const wanting = pluginsOf(one).find(({ raw }) => raw.ipMasq === true)
  const has = one.rules.some(
    ({ place }) => /cni_masquerade containers$|nat (POSTROUTING|CNI-)/.test(place) || /(?<!cni_)masquerade/.test(place),
  )
  if (!wanting || has) return []
  const family = one.addresses.some((address) => !address.includes(":")) ? "ip" : "ip6"
  const table = `${family} ${wanting.raw.ipMasqBackend === "iptables" ? "nat" : "cni_masquerade"}`
  return [
    {
      ...aboutRules(one, input, wanting.type),
      rule: "missing-masquerade",
      cause: `table ${table}`,
      what: `no masquerade for ${nameOf(one)}, but its network sets "ipMasq": ${describeTable(input, table)}`,
      ofMany: (count) => `${describeTable(input, table)}: no masquerade for ${count} containers`,
      why: "its packets leave with a source address that outside hosts cannot reach; a firewall's reload may have flushed the rules",
      consequenceOf: ["missing-host-end"],
    },
  ]
}

function missingPorts(one: NodeAttachment, input: DoctorInput): Finding[] {
  if (one.unservedPorts.length === 0) return []
  const ports = someOf("port", [...new Set(one.unservedPorts.map((port) => port.replace(/→\d+/, "")))])
  const hasIptables = pluginsOf(one).some(({ type, raw }) => type === "portmap" && raw.backend === "iptables")
  const table = hasIptables ? "ip nat" : "ip cni_hostports"
  return [
    {
      ...aboutRules(one, input, "portmap"),
      rule: "missing-ports",
      affected: [{ ...affectedBy(one), detail: ports }],
      cause: `table ${table}`,
      what: `no rule forwards ${ports} to ${nameOf(one)}: ${describeTable(input, table)}`,
      ofMany: (count) => `${describeTable(input, table)}: no published port is forwarded to ${count} containers`,
      why: "a reload of a firewall, or nft flush ruleset, has removed the rules of published ports",
      consequenceOf: ["missing-host-end"],
    },
  ]
}

function missingLease(one: NodeAttachment, { node }: DoctorInput): Finding[] {
  const plugin = pluginsOf(one).find(({ raw }) => ipamOf(raw)?.type === "host-local")
  if (!plugin || one.sources.includes("lease") || node.unread.some(({ what }) => what === "leases")) return []
  const ipam = plugin.raw.ipam
  const dataDir = isJsonObject(ipam) && typeof ipam.dataDir === "string" ? ipam.dataDir : node.places.dataDir
  const directory = join(dataDir, one.network)
  const files = one.addresses.map((address) => join(directory, address.split("/")[0] ?? ""))
  const { containerId, ifName } = one
  return [
    {
      rule: "missing-lease",
      severity: "error",
      network: one.network,
      cause: directory,
      affected: [{ ...affectedBy(one), detail: one.addresses.join(", ") }],
      what: `${one.addresses.join(", ")} of ${nameOf(one)} is not reserved in host-local's store`,
      ofMany: (count) => `the addresses of ${count} containers are not reserved in host-local's store "${directory}"`,
      why: "the next container may get the same address",
      remedy: sh`mkdir -p ${directory}; printf '%s\\r\\n%s' ${containerId} ${ifName} | tee ${files} > /dev/null`,
      consequenceOf: ["duplicate-address"],
    },
  ]
}

/** Loopback addresses. Every container has them, and containerd records them in its network "cni-loopback". */
const LOOPBACK = /^127\.|^::1$/

/** Finds addresses that several running containers of a network share. */
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
    const names = found.map(nameOf)
    return [
      {
        rule: "duplicate-address",
        severity: "error",
        network,
        affected: found.map(affectedBy),
        what: `${names.join(" and ")} have the same address, ${address}`,
        ofMany: (count) => `${count} containers have the same address, ${address}`,
        why: "each gets some of the other's packets",
        remedy: `delete ${names.slice(1).join(" and ")} with the runtime and create ${names.length > 2 ? "them" : "it"} again; check that no second host-local shares the range`,
      },
    ]
  })
}
