import { refuseRouterAdvertisements as refuse } from "../../../pkg/ip/mod.ts"
import { type Fd, isErrno } from "../../../pkg/libc/mod.ts"
import {
  Budget,
  findLink,
  IFF_RUNNING,
  IFF_UP,
  type Ifindex,
  type Link,
  RouteSocket,
  setLink,
} from "../../../pkg/netlink/mod.ts"
import { NamespaceFile, Netns } from "../../../pkg/netns/mod.ts"
import { AF_INET6 } from "../../../pkg/types/mod.ts"
import type { DhcpConfig } from "../config.ts"
import type { Change, ClientConfig, Lease } from "../protocol/types.ts"
import { applyChange, applyMtu, deleteLearned, findLinkLocal, setDown } from "./interface.ts"
import { deletedError, NoLinkError, namespaceLives, type Place } from "./journal.ts"
import { LinkEvents, Packets } from "./sockets.ts"

/** The interval between checks of a namespace's path while the link is open. */
const CHECK_MS = 2_000

/**
 * A container's link in the kernel: its packets, its events, and the changes that leases make. The first use opens it.
 */
export class KernelLink {
  readonly record: Place
  readonly #now: () => number
  #netns: Netns | undefined
  readonly #packets = new Packets()
  #events: LinkEvents | undefined
  /** Whether `setUp` has set up one end of a veth pair whose carrier the kernel has not processed yet. */
  #awaitsCarrier = false
  readonly #delayed: (readonly [ClientConfig, Uint8Array])[] = []
  isGone = false
  /** The time of the next `check`; undefined while the link is closed. */
  checkAt: number | undefined

  constructor({ namespace, link }: Place, now: () => number, netns?: Netns) {
    this.record = { namespace, link }
    this.#now = now
    if (netns) this.#opened(netns)
  }

  static open(path: string, ifName: string, now: () => number): KernelLink {
    using file = NamespaceFile.open(path)
    const netns = Netns.open(file)
    try {
      using inside = netns.openRoute()
      const found = findLink(inside, ifName)
      if (!found) throw new NoLinkError(`error looking up "${ifName}" in "${path}": Link not found`)
      const { name, index, mac } = found
      return new KernelLink(
        { namespace: { path, identity: file.identity ?? "" }, link: { name, index, mac } },
        now,
        netns,
      )
    } catch (error) {
      netns[Symbol.dispose]()
      throw error
    }
  }

  #opened(netns: Netns): Netns {
    this.checkAt = this.#now() + CHECK_MS
    this.#netns = netns
    return netns
  }

  /** Returns the open namespace, or undefined if it or the link was deleted. */
  #open(): Netns | undefined {
    if (this.#netns || this.isGone) return this.#netns
    const { namespace } = this.record
    using file = NamespaceFile.open(namespace.path)
    const netns = file.identity === namespace.identity ? Netns.find(file) : undefined
    if (netns) this.#opened(netns)
    if (!netns || !this.#isThere) this.#onDeleted()
    return this.#netns
  }

  /** Opens the link and closes it again. Returns whether the link exists. */
  exists(): boolean {
    const exists = namespaceLives(this.record.namespace) && this.#open() !== undefined
    this.close()
    return exists
  }

  /** Closes the link permanently if its namespace is no longer at its path. */
  check(): void {
    if (this.checkAt !== undefined) this.checkAt = this.#now() + CHECK_MS
    if (!namespaceLives(this.record.namespace)) this.#onDeleted()
  }

  #onDeleted(): void {
    this.isGone = true
    this.close()
  }

  /** Closes all descriptors; the next use opens the link again. */
  close(): void {
    this.#packets.close()
    this.#delayed.length = 0
    this.unwatch()
    this.#netns?.[Symbol.dispose]()
    this.#netns = this.checkAt = undefined
  }

  get #isThere(): boolean {
    if (this.#awaitsCarrier) return true // from Linux 6.8 on RTM_GETLINK processes the carrier of this end only
    return this.mac !== undefined
  }

  /** The current hardware address; undefined if the link was deleted. */
  get mac(): string | undefined {
    return this.#inside((inside) => findLink(inside, this.#index)?.mac)
  }

  get #index(): Ifindex {
    return this.record.link.index as Ifindex
  }

  /**
   * Calls `act` with a socket in the namespace. Returns undefined if the link was deleted. The socket limits the length
   * of lists, so that a container with many objects does not delay other holders.
   */
  #inside<T>(act: (inside: RouteSocket) => T): T | undefined {
    const netns = this.#open()
    if (!netns) return undefined
    using inside = netns.run(() => RouteSocket.open(new Budget()))
    return act(inside)
  }

  /** Calls `act` with the current state of the link. Throws `NoLinkError`. */
  #onLink<T>(act: (inside: RouteSocket, link: Link) => T): T | undefined {
    return this.#inside((inside) => {
      const link = findLink(inside, this.#index)
      if (!link) throw deletedError(this.record)
      return act(inside, link)
    })
  }

  /** Sets the link up. Returns whether it was down. Throws `NetlinkError`. */
  setUp(): boolean | undefined {
    return this.#onLink((inside, link) => {
      if ((link.flags & IFF_UP) !== 0) return false
      this.watch()
      this.#awaitsCarrier = link.kind === "veth"
      setLink(inside, link, { up: true })
      return true
    })
  }

  setDown(): void {
    this.#onLink(setDown)
  }

  /** Applies a change of a lease to the interface. Throws `CniError`. */
  apply(change: Change, config: DhcpConfig): void {
    this.#onLink((inside, link) => applyChange({ inside, link, config }, change))
  }

  /** Sets the link's MTU to that of a lease. Throws `NetlinkError`. */
  applyMtu(lease: Lease, config: DhcpConfig): void {
    this.#onLink((inside, link) => applyMtu({ inside, link, config }, lease))
  }

  /**
   * Disables the kernel's processing of router advertisements, like `sysctl -w net.ipv6.conf.NAME.accept_ra=0`. The
   * DHCPv6 client processes them instead. Throws `NetlinkError`.
   */
  refuseRouterAdvertisements(): void {
    this.#open()?.run(() => refuse(this.record.link.name))
    this.#onLink(deleteLearned)
  }

  /**
   * Whether the link passes frames. After `setUp` of one end of a veth pair, this is false until the kernel reports the
   * carrier in an event, although the flags say "running" earlier: until then, the bridge at the other end drops
   * frames.
   */
  get passesFrames(): boolean {
    if (this.#awaitsCarrier) return false
    return this.#inside((inside) => ((findLink(inside, this.#index)?.flags ?? 0) & IFF_RUNNING) !== 0) ?? false
  }

  /** The link-local address; undefined until duplicate address detection has finished. */
  get linkLocal(): string | undefined {
    return this.#onLink(findLinkLocal)
  }

  /**
   * Subscribes to changes of the namespace's links and IPv6 addresses. A descriptor becomes readable with each change.
   */
  watch(): void {
    this.#events ??= this.#open()?.run(() => LinkEvents.subscribe())
  }

  /** Reads the pending events. Returns whether this object is subscribed to events. */
  readEvents(into: Uint8Array): boolean {
    if (this.#events?.read(into, this.#index)) this.#awaitsCarrier = false
    return this.#events !== undefined
  }

  unwatch(): void {
    this.#events?.[Symbol.dispose]()
    this.#events = undefined
    this.#awaitsCarrier = false
  }

  get descriptors(): readonly Fd[] {
    return this.#events ? [...this.#packets.descriptors, this.#events.fd] : this.#packets.descriptors
  }

  /**
   * Sends a frame and opens the socket for the server's answers. If the link is down and `maySetUp` is set, sets the
   * link up and returns false; `sendDelayed` then sends the frame. A frame that the kernel refuses counts as lost.
   * Throws `SyscallError`.
   */
  send(config: ClientConfig, frame: Uint8Array, maySetUp: boolean): boolean {
    const netns = this.#open()
    if (!netns) return true
    const isSent = () => netns.run(() => this.#packets.send(this.#index, config, frame))
    if (isSent()) return true
    if (maySetUp && config.family !== AF_INET6 && this.setUp()) {
      this.#delayed.push([config, frame])
      return false
    }
    isSent() // a socket reports once that its link was down, even if the link is up again
    return true
  }

  sendDelayed(): void {
    for (const [config, frame] of this.#delayed.splice(0)) this.send(config, frame, false)
  }

  /** Receives the next frame for a client, or returns undefined if none exists or the link is closed. */
  receive(config: ClientConfig, buffer: Uint8Array): Uint8Array | undefined {
    try {
      return this.#packets.receive(config, buffer)
    } catch (error) {
      if (!isErrno(error, "ENETDOWN", "ENXIO")) throw error
      if (!this.#isThere) this.#onDeleted() // otherwise the link is down: the next frame sets it up, or is lost
      return undefined
    }
  }
}
