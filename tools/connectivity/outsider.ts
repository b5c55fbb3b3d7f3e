import { randomBytes, randomHex } from "../../pkg/libc/mod.ts"
import {
  addAddress,
  addRoute,
  addVeth,
  deleteLink,
  findLink,
  getLink,
  OperState,
  RouteSocket,
  setLink,
} from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { type Family, familyOf } from "../../pkg/types/mod.ts"
import { makeContainerNamespace } from "../namespace.ts"
import { type Patience, until } from "./sockets.ts"

/** A simulated machine outside of the host, with a link to the host. */
export interface Outsider extends Disposable {
  readonly netns: Netns
  addressOf(family: Family): Uint8Array | undefined
}

/**
 * Creates a namespace with a veth pair to the host, test addresses (RFC 2544, and a random unique local network), and a
 * default route to the host. The kernel deletes the pair with the namespace, even if this process is killed. Throws
 * `NetlinkError`.
 */
export async function connectOutsider(families: readonly Family[], patience: Patience): Promise<Outsider> {
  const netns = makeContainerNamespace()
  const name = `cnitest${randomHex(4)}`
  try {
    using host = RouteSocket.open()
    using inside = netns.openRoute()
    addVeth(host, { name }, { name: "eth0", netnsFd: netns.fd })
    const ends = addressPairs().filter(({ outside }) => families.includes(familyOf(outside)))
    for (const { host: ip, prefix } of ends) addAddress(host, getLink(host, name), { ip, prefix, noDad: true })
    setLink(host, getLink(host, name), { up: true })
    const link = getLink(inside, "eth0")
    setLink(inside, link, { up: true })
    for (const { host: gateway, outside: ip, prefix } of ends) {
      addAddress(inside, link, { ip, prefix, noDad: true })
      addRoute(inside, { dst: new Uint8Array(ip.length), prefix: 0, gateway, index: link.index })
    }
    const isUp = (route: RouteSocket, of: string) => findLink(route, of)?.attributes.operState === OperState.Up
    await until(() => (isUp(host, name) && isUp(inside, "eth0")) || undefined, patience) // frames are lost until the link is ready
    return {
      netns,
      addressOf: (family) => ends.find(({ outside }) => familyOf(outside) === family)?.outside,
      [Symbol.dispose]: () => {
        deleteCable(name) // otherwise the kernel deletes the pair some time after the namespace
        netns[Symbol.dispose]()
      },
    }
  } catch (error) {
    deleteCable(name)
    netns[Symbol.dispose]()
    throw error
  }
}

function deleteCable(name: string): void {
  using host = RouteSocket.open()
  const link = findLink(host, name)
  if (link) deleteLink(host, link)
}

function addressPairs() {
  const [a = 0, b = 0, c = 0, ...rest] = randomBytes(10)
  const v4 = (last: number) => Uint8Array.of(198, 18 + (a & 1), b, (c & 0xfc) + last)
  const v6 = (last: number) => Uint8Array.of(0xfd, ...rest, 0, 0, 0, 0, 0, 0, 0, last)
  return [
    { host: v4(1), outside: v4(2), prefix: 30 },
    { host: v6(1), outside: v6(2), prefix: 64 },
  ]
}
