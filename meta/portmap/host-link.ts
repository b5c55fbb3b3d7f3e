import { mismatch } from "../../pkg/ip/mod.ts"
import { findLink, linkTowards, type NetlinkSocket } from "../../pkg/netlink/mod.ts"
import { findSysctl, tryWriteSysctl, writeSysctl } from "../../pkg/sysctl/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { Mapping } from "./mapping.ts"

/** The host's interface towards a container. */
export interface HostLink {
  name: string
  /** Whether it outlives the container, as a bridge does and one end of a pair does not. */
  isShared: boolean
}

const LOOPBACK = 127

/** Whether something of this is reached as 127.0.0.1 at the host. */
export function needsLocalnet(mappings: readonly Mapping[]): boolean {
  return mappings.some(({ hostIp }) => hostIp === undefined || hostIp[0] === LOOPBACK)
}

/** Finds the interface by the route to the container; undefined when there is no route. Throws `NetlinkError`. */
export function findHostLink(host: NetlinkSocket, ip: Uint8Array): HostLink | undefined {
  const index = linkTowards(host, ip)
  const link = index === undefined ? undefined : findLink(host, index)
  if (!link || link.name === "lo") return undefined
  return { name: link.name, isShared: link.kind !== "veth" && link.kind !== "tun" }
}

/** Whether packets from and to 127.0.0.0/8 may pass the interface. */
export function isLocalnetOn(link: string): boolean {
  return isLocalnetOnLink("all") || isLocalnetOnLink(link)
}

/** Whether it is on for this interface, be it on for all or not; for one that has gone it is off. */
export function isLocalnetOnLink(link: string): boolean {
  return findSysctl(settingOf(link)) === "1"
}

/** Switches it on, like `sysctl -w net.ipv4.conf.LINK.route_localnet=1`. Throws `CniError`. */
export function switchLocalnetOn(link: string): void {
  try {
    writeSysctl(settingOf(link), "1")
  } catch (cause) {
    const what = `Cannot let 127.0.0.1 reach the container: "${settingOf(link)}" cannot be set`
    throw new CniError(Code.Internal, what, { cause, details: 'with "snat": false it is not needed' })
  }
}

/** Switches it as it was before, unless the interface has gone. */
export function switchLocalnet(link: string, isOn: boolean): void {
  tryWriteSysctl(settingOf(link), isOn ? "1" : "0")
}

function settingOf(link: string): string {
  return `net/ipv4/conf/${link}/route_localnet`
}

/** Looks whether it is on. Throws `CniError`. */
export function checkLocalnet(link: string): void {
  if (!isLocalnetOn(link)) throw mismatch(`sysctl "${settingOf(link)}"`, "1", "0")
}
