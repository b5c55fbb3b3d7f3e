import type { Outcome } from "../../install/mod.ts"
import { chooseVariant, findPrograms } from "../../pkg/iptables/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6, ownerComment } from "../../pkg/types/mod.ts"
import { describedPlugins } from "../../suite/plugins.ts"
import { portAsJson } from "../node/mod.ts"
import { fittedTable, type Screen } from "../screen.ts"
import type { OtherSuite } from "./other-suite.ts"
import type { MigratingPod, Place } from "./pods.ts"

export type Direction = "apply" | "back"

/** The effect of a switch on one pod. */
export interface PodPlan {
  readonly pod: MigratingPod
  /** The pod's state after the switch: "stays as it is", "masquerade and ports move to iptables". */
  readonly after: string
  /** The reason why the pod prevents the switch back, if it does. */
  readonly closes?: string
}

export interface Switch {
  readonly direction: Direction
  readonly binDir: string
  readonly files: readonly Outcome[]
  readonly pods: readonly MigratingPod[]
  /** The plugins that the directory has after the switch back. */
  readonly other: OtherSuite
}

/** Plans the switch. A switch to this suite leaves pods unchanged. A switch back moves their rules to iptables. */
export function planPods({ direction, pods, other }: Switch): PodPlan[] {
  return pods.map((pod) => {
    const closes = whyClosed(pod, other)
    const after = direction === "apply" ? afterApply(pod) : afterBack(pod)
    return { pod, after, ...(closes !== undefined && { closes }) }
  })
}

/** Returns the features whose rules are in nf_tables, where the Go plugins' DEL does not find them. */
function inNftables({ masquerade, portsBy, firewall }: MigratingPod): string[] {
  const isThere = (place: Place | undefined) => place === "nftables" || place === "both"
  return [
    ...(isThere(masquerade) ? ["masquerade"] : []),
    ...(isThere(portsBy) ? ["published ports"] : []),
    ...(isThere(firewall) ? ["firewall rules"] : []),
  ]
}

function afterApply({ plugins, madeBy }: MigratingPod): string {
  const others = plugins.filter((type) => !isOfSuite(type))
  const notes = [
    madeBy === "this suite" ? "stays as it is" : "is unchanged; DEL, CHECK and GC of these plugins handle it",
    ...(plugins.includes("dhcp") ? ["the running dhcp daemon keeps its lease: do not stop it"] : []),
    ...(others.length > 0 ? [`${others.join(", ")} of another suite continues to work`] : []),
  ]
  return notes.join("; ")
}

function afterBack(pod: MigratingPod): string {
  const moving = inNftables(pod)
  const notes = [
    moving.length > 0 ? `${moving.join(", ")}: to iptables` : "stays as it is",
    ...(pod.isGuarded ? ["the check of MACs stays in nf_tables until the pod is deleted"] : []),
    ...(pod.plugins.includes("dhcp") ? ["the running dhcp daemon keeps its lease: do not stop it"] : []),
  ]
  return notes.join("; ")
}

function isOfSuite(type: string): boolean {
  return describedPlugins.some(({ name }) => name === type)
}

/** Returns the reason why the Go plugins could not delete a pod, or undefined if they could. */
function whyClosed(pod: MigratingPod, other: OtherSuite): string | undefined {
  const quote = (types: readonly string[]) => types.map((type) => `"${type}"`).join(", ")
  const ofSuite = pod.plugins.filter(isOfSuite)
  const missing = ofSuite.filter((type) => !other.has(type))
  if (missing.length > 0) return `the other suite has no plugin ${quote(missing)}`
  const { cniVersion } = pod
  const behind = cniVersion === undefined ? [] : ofSuite.filter((type) => !other.speaks(type, cniVersion))
  if (behind.length > 0)
    return `its runtime uses version ${cniVersion}, which the other suite's ${quote(behind)} does not support`
  if (pod.madeBy !== "this suite") return undefined
  if (pod.plugins.includes("flannel"))
    return "flannel of the other suite does not find the record of this suite's flannel"
  if (inNftables(pod).length === 0) return undefined
  if (pod.plugins.length === 0) return "it has rules in nf_tables, but its configuration is not in --cache-dir"
  const family = pod.addresses.some((address) => address.includes(":")) ? AF_INET6 : AF_INET
  return hasIptables(family) ? undefined : 'its rules cannot move: the program "iptables-restore" is missing'
}

function hasIptables(family: typeof AF_INET | typeof AF_INET6): boolean {
  using filter = PacketFilter.find()
  return findPrograms(family, chooseVariant(filter?.socket)) !== undefined
}

export function describeSteps({ direction, binDir, files, pods }: Switch): string[] {
  const named = (...did: Outcome["did"][]) => files.filter((one) => did.includes(one.did)).map(({ name }) => name)
  const step = (names: readonly string[], text: (names: string) => string) =>
    names.length === 0 ? [] : [text(names.join(", "))]
  const left = step(named("left"), (names) => `leave in ${binDir}, because other programs have replaced them: ${names}`)
  const kept = `${binDir}/.cni-install`
  if (direction === "apply") {
    const adopted = [...bridgesOf(pods), ...storesOf(pods)]
    return [
      ...step(named("adopted"), (names) => `replace in ${binDir}, and keep the old files in ${kept}: ${names}`),
      ...step(named("replaced"), (names) => `replace a former version of these plugins in ${binDir}: ${names}`),
      ...step(named("created"), (names) => `add to ${binDir}:  ${names}`),
      ...adopted.map((what) => `continue to use ${what}, unchanged`),
    ]
  }
  const moving = pods.filter((pod) => inNftables(pod).length > 0)
  return [
    ...(moving.length > 0 ? [`move the rules of ${countOf(moving.length, "pod")} from nf_tables to iptables`] : []),
    ...step(named("restored"), (names) => `restore in ${binDir}:  ${names}`),
    ...step(named("removed"), (names) => `remove from ${binDir}: ${names}`),
    ...left,
    "remove objects that no pod needs: tables of nf_tables, notes, labels",
  ]
}

function countOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`
}

/** Returns texts such as "bridge cni0 with 15 pods". */
function bridgesOf(pods: readonly MigratingPod[]): string[] {
  const groups = Map.groupBy(
    pods.filter(({ bridge }) => bridge !== undefined),
    ({ bridge }) => bridge,
  )
  return [...groups].map(([bridge, ports]) => `bridge ${bridge} with ${countOf(ports.length, "pod")}`)
}

/** Returns texts such as "the store /var/lib/cni/networks/pods with addresses of 15 pods". */
function storesOf(pods: readonly MigratingPod[]): string[] {
  const all = pods.flatMap(({ stores }) => stores)
  return [...Map.groupBy(all, (directory) => directory)].map(
    ([directory, holders]) => `the store ${directory} with addresses of ${countOf(holders.length, "pod")}`,
  )
}

const COLUMNS = [
  { head: "NETWORK", falls: 2 },
  { head: "POD", isWhole: true },
  { head: "INTERFACE", falls: 3 },
  { head: "MADE BY", falls: 1 },
  "HAS",
  "AFTER",
] as const

/** Returns a table with a row for each pod: its objects and, unless `isDone`, its state after the switch. */
export function podTable(plans: readonly PodPlan[], isDone: boolean, screen: Screen): string {
  const rows = plans.map(({ pod, after, closes }) => [
    ...[pod.network, pod.title, pod.ifName, pod.madeBy, belongings(pod).join(", ") || "-"],
    closes === undefined ? after : { text: `makes the migration irreversible: ${closes}`, tone: "warning" as const },
  ])
  return fittedTable(isDone ? COLUMNS.slice(0, -1) : COLUMNS, rows, screen)
}

/** Returns the pod's objects in words: "bridge cni0", "masquerade (iptables)", "ports 8080→80/tcp (nftables)". */
function belongings({ bridge, masquerade, ports, portsBy, firewall, isGuarded, stores }: MigratingPod): string[] {
  const by = (place: Place | undefined) =>
    place === undefined ? "no rules" : place.replace("both", "iptables and nftables")
  return [
    ...(bridge === undefined ? [] : [`bridge ${bridge}`]),
    ...(masquerade === undefined ? [] : [`masquerade (${by(masquerade)})`]),
    ...(ports.length === 0 ? [] : [`ports ${ports.join(" ")} (${by(portsBy)})`]),
    ...(firewall === undefined ? [] : [`firewall (${by(firewall)})`]),
    ...(isGuarded ? ["check of MACs"] : []),
    ...stores.map((directory) => `address in ${directory}`),
  ]
}

export function podAsJson({ pod, after, closes }: PodPlan) {
  const { network, containerId, ifName, ports, ...rest } = pod
  return {
    attachment: ownerComment(pod),
    network,
    containerId,
    ifName,
    ...rest,
    ports: ports.map(portAsJson),
    after,
    ...(closes !== undefined && { closes }),
  }
}
