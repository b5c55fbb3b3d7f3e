import type { Namespace } from "./namespace.ts"
import { waitFor } from "./wait-for.ts"

/** One end of a cable: the link's name inside a namespace, and its addresses with prefix lengths. */
export interface CableEnd {
  readonly namespace: Namespace
  readonly link: string
  readonly addresses?: readonly string[]
}

/**
 * Connects two namespaces with a veth pair, both ends up, like a cable between two machines. It waits until both ends
 * answer on their IPv6 addresses: a new interface misses the first second's neighbour solicitations.
 */
export async function connect(a: CableEnd, b: CableEnd): Promise<void> {
  const peer = ["peer", "name", b.link, "netns", b.namespace.name]
  await a.namespace.exec("ip", ["link", "add", a.link, "type", "veth", ...peer])
  for (const { namespace, link, addresses = [] } of [a, b]) {
    for (const address of addresses) {
      // Without duplicate address detection an IPv6 address is usable at once.
      await namespace.exec("ip", ["address", "add", address, "dev", link, ...(address.includes(":") ? ["nodad"] : [])])
    }
    await namespace.exec("ip", ["link", "set", link, "up"])
  }
  for (const [from, to] of [
    [a, b],
    [b, a],
  ] as const) {
    for (const address of (to.addresses ?? []).filter((each) => each.includes(":"))) {
      const bare = address.replace(/\/.*/, "")
      await waitFor(() => ping(from.namespace, bare), `${to.namespace.name} to answer on ${bare}`, 20_000)
    }
  }
}

/** Whether one echo request from inside the namespace to an IPv4 or IPv6 address is answered within `deadlineMs`. */
export async function ping(from: Namespace, address: string, deadlineMs = 1000): Promise<boolean> {
  const seconds = String(Math.ceil(deadlineMs / 1000))
  const { exitCode } = await from.tryExec("ping", ["-n", "-q", "-c", "1", "-W", seconds, address])
  return exitCode === 0
}
