import { refuseRouterAdvertisements } from "../../../pkg/ip/mod.ts"
import { type Fd, isErrno, PacketSocket, stat } from "../../../pkg/libc/mod.ts"
import {
  Budget,
  deleteAddress,
  deleteRoute,
  findLink,
  IFA_F_DADFAILED,
  IFA_F_TENTATIVE,
  IFF_RUNNING,
  IFF_UP,
  type Ifindex,
  type Link,
  type ListedRoute,
  listAddresses,
  listRoutes,
  RouteSocket,
  setLink,
} from "../../../pkg/netlink/mod.ts"
import { NamespaceFile, Netns } from "../../../pkg/netns/mod.ts"
import { AF_INET6, type Family, formatIp } from "../../../pkg/types/mod.ts"
import { type ClientConfig, socketFilter } from "../protocol/mod.ts"
import type { LinkRecord, NamespaceRecord } from "./journal.ts"
import { LinkEvents } from "./link-events.ts"

/** <linux/if_addr.h>, <linux/rtnetlink.h> */
const IFA_F_PERMANENT = 0x80
const RTPROT_RA = 9

/** Whether a namespace is still at its path. A path that cannot be looked at counts as if it were. */
export function namespaceLives({ path, identity }: NamespaceRecord): boolean {
  try {
    const { device, inode } = stat(path)
    return identity === `${device}:${inode}`
  } catch (error) {
    return !isErrno(error, "ENOENT", "ENOTDIR", "ESRCH")
  }
}

/**
 * A container's link, for as long as packets are exchanged on it: what is open here keeps the namespace alive, so nothing of it
 * is kept between two exchanges.
 */
export class Place implements Disposable {
  readonly namespace: NamespaceRecord
  readonly link: LinkRecord
  readonly #netns: Netns
  readonly #packets = new Map<Family, PacketSocket>()
  #events: LinkEvents | undefined
  /** One end of a pair was brought up, and the kernel has not dealt with its carrier yet. */
  #isRaising = false

  private constructor(netns: Netns, namespace: NamespaceRecord, link: LinkRecord) {
    this.#netns = netns
    this.namespace = namespace
    this.link = link
  }

  /** Opens a link by the path of its namespace and its name. Throws `CniError`, or `NoLinkError` when it is not there. */
  static open(path: string, ifName: string): Place {
    using file = NamespaceFile.open(path)
    const netns = Netns.open(file)
    try {
      const link = netns.run(() => {
        using inside = RouteSocket.open()
        return findLink(inside, ifName)
      })
      if (!link) throw new NoLinkError(`error looking up "${ifName}" in "${path}": Link not found`)
      return new Place(netns, { path, identity: file.identity ?? "" }, recordOf(link))
    } catch (error) {
      netns[Symbol.dispose]()
      throw error
    }
  }

  /** Opens again what a record is about; undefined when the namespace or the link has gone, or is another by now. */
  static find({ namespace, link }: { namespace: NamespaceRecord; link: LinkRecord }): Place | undefined {
    using file = NamespaceFile.open(namespace.path)
    if (file.identity !== namespace.identity) return undefined
    const netns = Netns.find(file)
    if (!netns) return undefined
    const place = new Place(netns, namespace, link)
    try {
      if (place.isThere) return place
    } catch (error) {
      place[Symbol.dispose]()
      throw error
    }
    place[Symbol.dispose]()
    return undefined
  }

  /** Whether the link is still in the namespace. */
  get isThere(): boolean {
    if (this.#isRaising) return true // RTM_GETLINK would have the kernel deal with the carrier of this end alone, from Linux 6.8 on
    const found = this.work((inside) => findLink(inside, this.link.index as Ifindex))
    return found !== undefined && found.mac === this.link.mac
  }

  /** Does something inside the namespace, with a socket there. What it lists has its time: others wait for the daemon meanwhile. */
  work<T>(act: (inside: RouteSocket) => T): T {
    using inside = this.#netns.run(() => RouteSocket.open(new Budget()))
    return act(inside)
  }

  /** The link as it is now. Throws `NoLinkError`. */
  requireLink(inside: RouteSocket): Link {
    const link = findLink(inside, this.link.index as Ifindex)
    if (link) return link
    throw new NoLinkError(`"${this.link.name}" in "${this.namespace.path}" has gone`)
  }

  /** Brings the link up if it is down, and returns whether it was. Throws `NetlinkError`. */
  raise(): boolean {
    return this.work((inside) => {
      const link = this.requireLink(inside)
      if ((link.flags & IFF_UP) !== 0) return false
      this.heedEvents()
      this.#isRaising = link.kind === "veth"
      setLink(inside, link, { up: true })
      return true
    })
  }

  /**
   * Leaves the advertisements of routers to the client of DHCPv6, like `sysctl -w net.ipv6.conf.NAME.accept_ra=0`: routes and addresses that the
   * kernel has made of some already would be in the way of those of the lease. Throws `NetlinkError`.
   */
  refuseRouterAdvertisements(): void {
    this.#netns.run(() => refuseRouterAdvertisements(this.link.name))
    this.work((inside) => {
      const link = this.requireLink(inside)
      const isLearnt = ({ protocol, index }: ListedRoute) => protocol === RTPROT_RA && index === link.index
      for (const route of listRoutes(inside, AF_INET6, { isWanted: isLearnt })) deleteRoute(inside, route)
      for (const address of listAddresses(inside, link, AF_INET6)) {
        if (address.scope === 0 && (address.flags & IFA_F_PERMANENT) === 0) deleteAddress(inside, link, address)
      }
    })
  }

  /**
   * Whether frames pass. Where a pair was brought up, what the kernel reports of its carrier is awaited first: the bridge at the other
   * end drops frames until the kernel has dealt with the carrier there, too, which it does in one go. The flags say "running" before.
   */
  get hasCarrier(): boolean {
    if (this.#isRaising) return false
    return this.work((inside) => ((findLink(inside, this.link.index as Ifindex)?.flags ?? 0) & IFF_RUNNING) !== 0)
  }

  /** The link's own IPv6 address, once the kernel has made sure that no other has it; undefined before that. */
  get linkLocal(): string | undefined {
    return this.work((inside) => {
      const own = listAddresses(inside, this.requireLink(inside), AF_INET6)
      const isUsable = (flags: number) => (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) === 0
      const found = own.find(({ ip, flags }) => ip[0] === 0xfe && ((ip[1] ?? 0) & 0xc0) === 0x80 && isUsable(flags))
      return found && formatIp(found.ip)
    })
  }

  /** From now on there is a descriptor that is readable when a link or an IPv6 address of the namespace has changed. */
  heedEvents(): void {
    this.#events ??= this.#netns.run(() => LinkEvents.subscribe())
  }

  /** Reads the events that have come. */
  readEvents(into: Uint8Array): void {
    if (this.#events?.read(into, this.link.index as Ifindex)) this.#isRaising = false
  }

  /** Waits for no events any more. */
  ignoreEvents(): void {
    this.#events?.[Symbol.dispose]()
    this.#events = undefined
    this.#isRaising = false
  }

  /** The frames of the link that a client may want, from the first call on. Throws `SyscallError`. */
  #packetsOf({ family, probeMs }: ClientConfig): PacketSocket {
    const open = this.#packets.get(family)
    if (open) return open
    const socket = this.#netns.run(() => PacketSocket.open(this.link.index, socketFilter(family, probeMs > 0)))
    this.#packets.set(family, socket)
    return socket
  }

  /**
   * Sends a frame. A link that was taken down with its lease is brought up where `mayRaise` says so: false then, and the frame is to be
   * sent once frames pass. A socket also says once that its link was down when it is up again. Throws `SyscallError`.
   */
  send(config: ClientConfig, frame: Uint8Array, mayRaise: boolean): boolean {
    const socket = this.#packetsOf(config)
    try {
      socket.send(frame)
    } catch (error) {
      if (!isErrno(error, "ENETDOWN")) throw error
      if (mayRaise && config.family !== AF_INET6 && this.raise()) return false
      socket.send(frame)
    }
    return true
  }

  /** What is open to be waited for. */
  get descriptors(): Fd[] {
    const fds = [...this.#packets.values()].map(({ fd }) => fd)
    return this.#events ? [...fds, this.#events.fd] : fds
  }

  /** Whether events are waited for. */
  get heedsEvents(): boolean {
    return this.#events !== undefined
  }

  /** The sockets that are open, of each family. */
  get open(): [Family, PacketSocket][] {
    return [...this.#packets]
  }

  [Symbol.dispose](): void {
    for (const socket of this.#packets.values()) socket[Symbol.dispose]()
    this.#packets.clear()
    this.ignoreEvents()
    this.#netns[Symbol.dispose]()
  }
}

/** There is no such link. */
export class NoLinkError extends Error {
  override readonly name = "NoLinkError"
}

function recordOf({ name, index, mac }: Link): LinkRecord {
  return { name, index, mac }
}
