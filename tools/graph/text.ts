import type { Counters } from "../node/mod.ts"
import type { Fault, Member, Segment, Uplink } from "./model.ts"

/** Returns a size such as "3.1 MB", in powers of 1000. */
export function bytesText(bytes: bigint): string {
  let value = Number(bytes)
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (value < 1000 || unit === "TB")
      return `${unit === "B" || value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`
    value /= 1000
  }
  return ""
}

/** Returns the received and sent bytes: "↓ 3.1 MB  ↑ 12 kB". */
export function countersText({ received, sent }: Counters): string {
  return `↓ ${bytesText(received.bytes)}  ↑ ${bytesText(sent.bytes)}`
}

/** Returns a line for each of doctor's findings, for the beginning of an object's details. */
export function faultLines(faults: readonly Fault[] = []): string[] {
  return faults.map(({ rule, severity, text }) => `${severity.toUpperCase()} ${rule}: ${text}`)
}

/** Returns the names of doctor's findings without duplicates. */
export function faultNames(faults: readonly Fault[] = []): string {
  return [...new Set(faults.map(({ rule }) => rule))].join(", ")
}

export function memberDetails(one: Member): string {
  const lines = [
    `${one.network}/${one.containerId}/${one.ifName}`,
    ...faultLines(one.faults),
    ...(one.title === one.containerId ? [] : [`pod: ${one.title}`]),
    ...(one.namespace === undefined ? [] : [`namespace of Kubernetes: ${one.namespace}`]),
    ...(one.orphan.length > 0 ? [`orphan: ${one.orphan.join(", ")}`] : []),
    ...(one.fault === undefined ? [] : [`not connected: ${one.fault}`]),
    `namespace: ${one.isAlive === undefined ? "unknown" : one.isAlive ? "alive" : "gone"}`,
    `addresses: ${one.addresses.join(", ") || "none"}`,
    ...(one.ports.length > 0 ? [`published ports: ${one.ports.join(", ")}`] : []),
    `masquerade: ${one.masquerades ? "yes" : "no"}`,
    ...(one.hostEnd === undefined ? [] : [`host's end: ${one.hostEnd}, MTU ${one.mtu}`]),
    ...(one.vlanId === undefined ? [] : [`VLAN ${one.vlanId}`]),
    ...packetLines(one.counters),
    ...(one.config === undefined ? [] : ["", JSON.stringify(one.config, undefined, 2)]),
  ]
  return lines.join("\n")
}

export function segmentDetails(one: Segment): string {
  return [
    `${one.caption}: ${one.title}${one.isThere ? "" : ", not there"}`,
    ...faultLines(one.faults),
    `networks: ${one.networks.join(", ")}`,
    `${one.members.length} interfaces, ${one.ports} published ports, masquerade ${one.masquerades ? "yes" : "no"}`,
    ...(one.mtu === undefined ? [] : [`MTU ${one.mtu}, ${one.isUp ? "up" : "down"}`]),
    ...(one.addresses.length > 0 ? [`addresses: ${one.addresses.join(", ")}`] : []),
    ...packetLines(one.counters),
  ].join("\n")
}

export function uplinkDetails(one: Uplink): string {
  return [
    `${one.name}: ${one.kind}, MTU ${one.mtu}, ${one.isUp ? "up" : "down"}`,
    ...faultLines(one.faults),
    `addresses: ${one.addresses.join(", ") || "none"}`,
    ...one.routes.map((route) => `route: ${route}`),
    ...packetLines(one.counters),
  ].join("\n")
}

function packetLines(counters: Counters | undefined): string[] {
  if (counters === undefined) return []
  return (["received", "sent"] as const).map((way) => {
    const { packets, bytes, dropped } = counters[way]
    return `${way}: ${packets} packets, ${bytesText(bytes)}${dropped > 0n ? `, ${dropped} dropped` : ""}`
  })
}
