import type { Netns } from "../../pkg/netns/mod.ts"
import { AF_INET, formatIp, isLinkLocal } from "../../pkg/types/mod.ts"
import { type Destination, formatPlace, has } from "../packets/mod.ts"
import type { Container } from "./containers.ts"
import { askServer } from "./dns.ts"
import { pathMtu, ping } from "./echo.ts"
import { hasRoute, linkOf, type Scene } from "./scene.ts"
import { connectTcp, type Failure, type Place } from "./sockets.ts"

export interface Outcome {
  readonly outcome: "ok" | "failed" | "skipped"
  /** The reason why the probe failed or was skipped. After a success, a measurement if the probe makes one. */
  readonly reason?: string
}

/** The sender of a probe: a container, the host, or a machine outside of it. */
export type Sender = Container | "host" | { readonly source: Uint8Array }

export interface Plan {
  readonly from: Sender
  readonly to: Destination
  readonly run: () => Promise<Outcome>
}

/** A kind of probe. `plan` returns the probe to run for a test, or the reason why it is skipped. */
export interface Probe {
  readonly name: string
  /** Probes of stage 2 run after the others, because they fill the path with long packets. */
  readonly stage: 1 | 2
  readonly plan: (scene: Scene) => Plan | string
}

/** All kinds of probes, in the order of the report. */
export const probes: readonly Probe[] = [
  { name: "pod to pod", stage: 1, plan: toPod },
  { name: "pod to gateway", stage: 1, plan: toGateway },
  { name: "pod to host", stage: 1, plan: toHost },
  { name: "pod to outside", stage: 1, plan: toOutside },
  { name: "port from outside", stage: 1, plan: fromOutside },
  { name: "port from host", stage: 1, plan: (scene) => toPort(scene, "host", scene.host) },
  { name: "port from pod", stage: 1, plan: (scene) => toPort(scene, scene.a, scene.a.netns) },
  { name: "hairpin", stage: 1, plan: (scene) => toPort(scene, scene.b, scene.b.netns) },
  { name: "dns", stage: 1, plan: toServers },
  { name: "mtu to pod", stage: 2, plan: mtuToPod },
  { name: "mtu to outside", stage: 2, plan: mtuToOutside },
]

function judged(failure: Failure): Outcome {
  return failure === undefined ? { outcome: "ok" } : { outcome: "failed", reason: failure }
}

function toPod({ a, peer, secret, patience, isolated }: Scene): Plan | string {
  if (isolated !== undefined) return isolated
  if (!peer) return "the other container has no address of this family"
  return tcpPlan(a, peer, async () => judged(await connectTcp(a.netns, peer, patience, secret)))
}

function tcpPlan(from: Sender, place: Place, run: Plan["run"]): Plan {
  return { from, to: { ...place, protocol: "tcp" }, run }
}

function pingPlan({ a, patience }: Scene, ip: Uint8Array): Plan {
  return { from: a, to: echoTo(ip), run: async () => judged(await ping(a.netns, ip, patience)) }
}

function echoTo(ip: Uint8Array): Destination {
  return { ip, port: 0, protocol: "icmp" }
}

function toGateway(scene: Scene): Plan | string {
  const { a, gateway } = scene
  if (!gateway) return "the result names no gateway"
  const plan = pingPlan(scene, gateway)
  const run = async (): Promise<Outcome> => {
    const found = await plan.run()
    if (found.outcome === "ok" || a.result.routes.length > 0) return found
    return { outcome: "skipped", reason: `${found.reason}, and no route of the result uses the gateway` }
  }
  return { ...plan, run }
}

function toHost(scene: Scene): Plan | string {
  const { a, hostAddress } = scene
  if (!hostAddress) return "the host has no address of this family"
  if (!hasRoute(a, hostAddress)) return noRoute(hostAddress)
  const kind = linkOf(a)?.kind ?? ""
  const isNear = a.result.ips.some(({ address }) => has(address, hostAddress))
  if (isNear && (kind === "macvlan" || kind === "ipvlan"))
    return `${formatIp(hostAddress)} is on the network of a ${kind}, and the kernel passes no packets between a ${kind} and its own host`
  return pingPlan(scene, hostAddress)
}

function noRoute(ip: Uint8Array): string {
  return `the network gives its containers no route to ${formatIp(ip)}`
}

/** Returns the destination outside that the user requested, or else the host's default gateway. */
function outsideOf({ a, outside, hostGateway }: Scene): Place | string {
  const place = outside ?? (hostGateway && { ip: hostGateway, port: 0 })
  if (!place) return "the host has no default route: use --outside ADDRESS[:PORT]"
  if (isLinkLocal(place.ip) || (place.ip[0] === 169 && place.ip[1] === 254))
    return `${formatIp(place.ip)} is reachable only from its own link: use --outside ADDRESS[:PORT]`
  return hasRoute(a, place.ip) ? place : noRoute(place.ip)
}

function toOutside(scene: Scene): Plan | string {
  const { a, outside, host, patience } = scene
  const place = outsideOf(scene)
  if (typeof place === "string") return place
  if (place.port > 0) return tcpPlan(a, place, async () => judged(await connectTcp(a.netns, place, patience)))
  const run = async () => {
    const answers = [a.netns, host].map((from) => ping(from, place.ip, patience))
    const [failure, ofHost] = await Promise.all(answers)
    return comparedWithHost(failure, ofHost, !outside)
  }
  return { from: a, to: echoTo(place.ip), run }
}

/**
 * Compares a failure with the same probe from the host. If the address does not answer the host either, the network is
 * not at fault, unless the user requested that address.
 */
function comparedWithHost(failure: Failure, ofHost: Failure, isGuess: boolean): Outcome {
  if (failure === undefined || ofHost === undefined) return judged(failure)
  if (!isGuess) return judged(`${failure}; the host got no answer either (${ofHost})`)
  return { outcome: "skipped", reason: `the host got no answer either (${ofHost})` }
}

function toPort({ published, a, b, secret, patience, hostAddress }: Scene, from: Sender, netns: Netns | undefined) {
  if (!b.published) return "no TCP port of the container is published"
  if (!hostAddress || !published) return "the host has no address of this family"
  if (!netns) return "cannot connect a namespace to the host"
  if (from === a && !hasRoute(a, hostAddress)) return noRoute(hostAddress)
  return tcpPlan(from, published, async () => judged(await connectTcp(netns, published, patience, secret)))
}

function fromOutside(scene: Scene): Plan | string {
  const { outsider, family } = scene
  const source = outsider?.addressOf(family)
  return toPort(scene, source ? { source } : "host", source && outsider?.netns)
}

function toServers(scene: Scene): Plan | string {
  const { a, host, servers, name, patience } = scene
  const [first] = servers
  if (!first) return "neither the result nor the host's resolv.conf names a server that a container can reach"
  const asked = servers.filter((ip) => hasRoute(a, ip))
  if (asked.length === 0) return noRoute(first)
  const isGuess = (a.result.dns.nameservers ?? []).length === 0
  const ask = async (ip: Uint8Array) => {
    const answers = [a.netns, host].map((from) => askServer(from, ip, name, patience))
    const [failure, ofHost] = await Promise.all(answers)
    if (failure === undefined) return judged(failure)
    const found = comparedWithHost(failure, ofHost, isGuess)
    return { ...found, reason: `${formatIp(ip)}: ${found.reason}` }
  }
  const run = async () => {
    const all = await Promise.all(asked.map(ask))
    return (
      all.find(({ outcome }) => outcome === "failed") ??
      all.find(({ outcome }) => outcome === "skipped") ??
      judged(undefined)
    )
  }
  return { from: a, to: { ip: asked[0] ?? first, port: 53, protocol: "udp" }, run }
}

function mtuToPod({ a, peer, patience, isolated }: Scene): Plan | string {
  if (isolated !== undefined) return isolated
  if (!peer) return "the other container has no address of this family"
  return mtuPlan(a, peer.ip, patience)
}

function mtuToOutside(scene: Scene): Plan | string {
  const place = outsideOf(scene)
  return typeof place === "string" ? place : mtuPlan(scene.a, place.ip, scene.patience)
}

function mtuPlan(a: Container, ip: Uint8Array, patience: Scene["patience"]): Plan {
  const run = async (): Promise<Outcome> => {
    const mtu = linkOf(a)?.mtu
    if (mtu === undefined) return judged(`the container has no interface "${a.ifName}"`)
    if ((await ping(a.netns, ip, patience)) !== undefined)
      return { outcome: "skipped", reason: "no echo request is answered, with any length" }
    const found = await pathMtu(a.netns, ip, mtu, patience)
    if (found === undefined) return judged("no packet with DF is answered")
    if (found.mtu === mtu) return { outcome: "ok", reason: `${mtu} bytes` }
    if (found.isReported) return { outcome: "ok", reason: `${found.mtu} bytes of ${mtu}, reported to the sender` }
    return judged(
      `packets of more than ${found.mtu} bytes are lost without a report to the sender: the MTU of "${a.ifName}" is ${mtu}`,
    )
  }
  return { from: a, to: echoTo(ip), run }
}

export function placeText({ to: { ip, port } }: Plan): string {
  return formatPlace(ip, port)
}

export function familyName({ family }: Pick<Scene, "family">): "ipv4" | "ipv6" {
  return family === AF_INET ? "ipv4" : "ipv6"
}
