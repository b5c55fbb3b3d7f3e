import type { Namespace } from "./namespace.ts"

/** One end of a cable: the link's name inside a namespace, and its addresses with prefix lengths. */
export interface CableEnd {
  readonly namespace: Namespace
  readonly link: string
  readonly addresses?: readonly string[]
}

/** Connects two namespaces with a veth pair, both ends up, like a cable between two machines. */
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
}
