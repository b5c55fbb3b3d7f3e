import { describeInterface, findSandbox } from "../../pkg/attachment/mod.ts"
import { mismatch } from "../../pkg/ip/mod.ts"
import { getLink, IFF_UP, type Link, listAddresses, type RouteSocket, setLink } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { type Answered, type Call, defineRestorable, type InsideCall, runPlugin } from "../../pkg/skel/mod.ts"
import { AF_INET, AF_INET6, CniError, Code, familyOf, formatCidr, type IpConfig, isWhole } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"

/** Brings up a container's loopback interface, which is "lo" for every `CNI_IFNAME`. The kernel adds the addresses. */
export const loopback = defineRestorable<null>({
  name: "loopback",
  config: () => null,
  add: addLoopback,
  check: checkLoopback,
  del: deleteLoopback,
  status() {},
  gc() {},
  restoreInside: restoreLoopback,
})

function addLoopback(call: Call): Answered {
  using sandbox = Netns.open(call.namespace)
  using inside = sandbox.openRoute()
  using undo = new Undo(call.log)
  const { lo, ips } = bringUp(inside, undo)
  const interfaces = [{ ...describeInterface(lo), sandbox: call.netns }]
  return call.answer(call.network.prevResult ?? { interfaces, ips, routes: [], dns: {} }, undo)
}

function restoreLoopback(call: InsideCall, _config: null, isDry: boolean): string | undefined {
  using sandbox = Netns.open(call.namespace)
  using inside = sandbox.openRoute()
  if (isWhole(() => requireUp(inside))) return undefined
  using undo = new Undo(call.log)
  if (!isDry) bringUp(inside, undo)
  undo.keep()
  return '"lo" in the container'
}

/** Brings up the loopback interface of a namespace. Returns its first address of each family. Throws `CniError`. */
export function bringUp(inside: RouteSocket, undo: Undo): { lo: Link; ips: IpConfig[] } {
  const lo = getLink(inside, "lo")
  setLink(inside, lo, { up: true })
  if ((lo.flags & IFF_UP) === 0) undo.defer('bring up "lo"', () => setLink(inside, lo, { up: false }))
  return { lo, ips: loopbackAddresses(inside, lo) }
}

function checkLoopback(call: Call): void {
  using sandbox = Netns.open(call.namespace)
  using inside = sandbox.openRoute()
  requireUp(inside)
}

/** Throws `CniError` if the loopback interface of a namespace is down. */
export function requireUp(inside: RouteSocket): void {
  if ((getLink(inside, "lo").flags & IFF_UP) === 0) throw mismatch('"lo": loopback interface is down', "up", "down")
}

/** Sets `lo` down, as in a new namespace. */
function deleteLoopback(call: Call): void {
  using sandbox = findSandbox(call)
  using inside = sandbox?.openRoute()
  if (inside) setLink(inside, getLink(inside, "lo"), { up: false })
}

/** Returns the first address of each family. Throws `CniError` if an address is not a loopback address. */
function loopbackAddresses(inside: RouteSocket, lo: Link): IpConfig[] {
  const addresses = listAddresses(inside, lo)
  const foreign = addresses.find(({ ip }) => !isLoopback(ip))
  if (foreign) {
    throw new CniError(
      Code.Internal,
      `Cannot use "lo": loopback interface found with non-loopback address ${formatCidr(foreign)}`,
    )
  }
  const first = [AF_INET, AF_INET6].flatMap((family) => addresses.find(({ ip }) => familyOf(ip) === family) ?? [])
  return first.map((address) => ({ address: formatCidr(address), interface: 0 }))
}

/** Reports whether an address is ::1 or in 127.0.0.0/8. */
function isLoopback(ip: Uint8Array): boolean {
  return ip.length === 4 ? ip[0] === 127 : ip.every((byte, at) => byte === (at === 15 ? 1 : 0))
}

if (import.meta.main) runPlugin(loopback)
