import { mismatch } from "../../pkg/ip/mod.ts"
import { getLink, IFF_UP, type Link, listAddresses, RouteSocket, setLink } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { definePlugin, runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code, formatCidr, type IpConfig } from "../../pkg/types/mod.ts"

/** Brings up a container's loopback interface, whatever `CNI_IFNAME` says. The kernel gives it its addresses. */
export const loopback = definePlugin<null>({
  name: "loopback",
  config: () => null,

  add(call) {
    using sandbox = Netns.open(call.namespace)
    using inside = sandbox.run(() => RouteSocket.open())
    const lo = getLink(inside, "lo")
    const before = lo.flags & IFF_UP
    setLink(inside, lo, { up: true })
    try {
      const ips = loopbackAddresses(inside, lo)
      if (call.network.prevResult) return call.answer(call.network.prevResult)
      const interfaces = [{ name: lo.name, mac: lo.mac, mtu: lo.mtu, sandbox: call.netns }]
      return call.answer({ interfaces, ips, routes: [], dns: {} })
    } catch (error) {
      if (!before) setLink(inside, lo, { up: false })
      throw error
    }
  },

  check(call) {
    using sandbox = Netns.open(call.namespace)
    using inside = sandbox.run(() => RouteSocket.open())
    const lo = getLink(inside, "lo")
    if ((lo.flags & IFF_UP) === 0) throw mismatch('"lo": loopback interface is down', "up", "down")
  },

  /** Down again, as it was in a new namespace. */
  del(call) {
    using sandbox = Netns.find(call.namespace)
    using inside = sandbox?.run(() => RouteSocket.open())
    if (inside) setLink(inside, getLink(inside, "lo"), { up: false })
  },

  status() {},
  gc() {},
})

/** The first address of each family. Throws when the interface has one that is no loopback address. */
function loopbackAddresses(inside: RouteSocket, lo: Link): IpConfig[] {
  const addresses = listAddresses(inside, lo)
  const foreign = addresses.find(({ ip }) => !isLoopback(ip))
  if (foreign) {
    throw new CniError(
      Code.Internal,
      `Cannot use "lo": loopback interface found with non-loopback address ${formatCidr(foreign)}`,
    )
  }
  const first = [4, 16].flatMap((length) => addresses.find(({ ip }) => ip.length === length) ?? [])
  return first.map((address) => ({ address: formatCidr(address), interface: 0 }))
}

/** 127.0.0.0/8 and ::1. */
function isLoopback(ip: Uint8Array): boolean {
  return ip.length === 4 ? ip[0] === 127 : ip.every((byte, at) => byte === (at === 15 ? 1 : 0))
}

if (import.meta.main) runPlugin(loopback)
