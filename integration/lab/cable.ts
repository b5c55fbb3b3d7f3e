import type { Namespace } from "./namespace.ts"
import { scaleTimeout, waitFor, waitLimitMs } from "./wait-for.ts"

/** One end of a cable: the namespace, the name of the interface, and its addresses with prefix lengths. */
export interface CableEnd {
  readonly namespace: Namespace
  readonly link: string
  readonly addresses?: readonly string[]
}

/**
 * Connects two namespaces with a veth pair and brings both ends up. Waits until both ends answer on their IPv6
 * addresses, because a new interface misses neighbor solicitations during its first second.
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
      await waitFor(() => pingOnce(from.namespace, bare), `${to.namespace.name} to answer on ${bare}`)
    }
  }
}

/**
 * Reports whether an IPv4 or IPv6 address answers an echo request from the namespace. Retries for a minute, because
 * busy machines are slow and the kernel drops packets on a new link until it detects the carrier. For addresses that
 * must not answer, use `pingOnce`.
 */
export function ping(from: Namespace, address: string): Promise<boolean> {
  const patiently = ["-c", "1", "-w", String(scaleTimeout(waitLimitMs) / 1000)] // one request per second until the first answer
  return waitFor(() => isAnswered(from, [...patiently, address]), `${address} to answer`).catch(() => false)
}

/** Reports whether an address answers one echo request from the namespace within a second. */
export function pingOnce(from: Namespace, address: string): Promise<boolean> {
  return isAnswered(from, ["-c", "1", "-W", "1", address])
}

async function isAnswered(from: Namespace, args: readonly string[]): Promise<boolean> {
  const { exitCode } = await from.tryExec("ping", ["-n", "-q", ...args])
  return exitCode === 0
}

/** Returns the addresses that answer echo requests. Retries the expected addresses, and asks all others once. */
export async function answering(
  from: Namespace,
  addresses: readonly string[],
  expected: readonly string[],
): Promise<string[]> {
  const early = await Promise.all(expected.map((address) => ping(from, address)))
  const others = addresses.filter((address) => !expected.includes(address))
  const late = await Promise.all(others.map((address) => pingOnce(from, address)))
  const answers = [...expected.filter((_, at) => early[at]), ...others.filter((_, at) => late[at])]
  return addresses.filter((address) => answers.includes(address))
}
