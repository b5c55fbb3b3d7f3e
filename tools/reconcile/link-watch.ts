import { monotonicMs } from "../../pkg/engine/mod.ts"
import { SOL_SOCKET, setSocketOption, unlessErrno } from "../../pkg/libc/mod.ts"
import {
  attrs,
  IFF_UP,
  i32,
  linkPayload,
  listLinks,
  type Message,
  NETLINK_ROUTE,
  NetlinkSocket,
  RouteSocket,
  readRoute,
  u32,
} from "../../pkg/netlink/mod.ts"

/** Message types, <linux/rtnetlink.h>. */
const [NEWLINK, DELLINK, DELADDR, DELROUTE, DELQDISC, NEWNETCONF] = [16, 17, 21, 25, 37, 80]
/**
 * Multicast groups, as bits: links, qdiscs, addresses and routes of both families, and settings of both families
 * (`RTNLGRP_IPV4_NETCONF` and `_IPV6_NETCONF`).
 */
const GROUPS = 0x1 | 0x8 | 0x10 | 0x40 | 0x100 | 0x400 | (1 << 23) | (1 << 24)
const SO_RCVBUFFORCE = 33
const ROOM_BYTES = 1 << 20
const AF_BRIDGE = 7
const MAIN_TABLE = 254
/** `NETCONFA_IFINDEX_ALL`, <linux/netconf.h> */
const ALL = -1
/** The time after an interface's creation in which plugins set it up. */
const SET_UP_MS = 5000

/** `NETCONFA_*` */
const settings = attrs({ index: [1, i32], forwarding: [2, i32] })

/** The last known state of an interface. */
interface Known {
  readonly isBridge: boolean
  readonly isUp: boolean
  readonly master: number
  readonly mac: string
  readonly since: number
}

/** The changes of the host's interfaces, addresses, routes and settings. */
export interface LinkNews {
  readonly isSuspect: boolean
  /** Whether an interface lost a dependent object. If a DEL is deleting the interface, `isShaken` is later false. */
  readonly isUnsure: boolean
  /** Whether a setting below /proc/sys changed to a harmful value. */
  readonly isSetting: boolean
  readonly isOverrun: boolean
}

/**
 * Watches the host's interfaces and their dependent objects. A deleted object is a loss if its interface remains. A DEL
 * deletes the interface too, so it causes no loss.
 */
export class LinkWatch implements Disposable {
  readonly #events = new NetlinkSocket(NETLINK_ROUTE, GROUPS)
  readonly #links = new Map<number, Known>()
  /** The indexes of interfaces that lost an object. If such an interface still exists later, that is a loss. */
  readonly #shaken = new Set<number>()
  #isUnsure = false
  /** Whether an error prevented the processing of received notifications. */
  #isBehind = false

  /** Opens the socket for notifications, and reads the current state. Throws `SyscallError` and `NetlinkError`. */
  constructor() {
    unlessErrno(() => setSocketOption(this.#events.fd, SOL_SOCKET, SO_RCVBUFFORCE, ROOM_BYTES), "EPERM")
    this.#look()
  }

  get fd() {
    return this.#events.fd
  }

  #look(): void {
    using route = RouteSocket.open()
    this.#links.clear()
    listLinks(route, ({ index, kind, flags, mac, attributes: { master } }) => {
      if (isOfInterest(kind)) this.#links.set(index, knownOf({ kind, flags, master, mac, since: 0 }))
      return false
    })
  }

  /** Processes notifications. After an error, the next call lists links. Throws `SyscallError` and `NetlinkError`. */
  take(): LinkNews {
    let [isSuspect, isSetting, isOverrun] = [false, false, this.#isBehind]
    this.#isBehind = true
    this.#isUnsure = false
    for (let messages = this.#events.takeEvents(); messages; messages = this.#events.takeEvents()) {
      isOverrun ||= messages.length === 0
      for (const message of messages) {
        if (message.type === NEWNETCONF) isSetting ||= this.#isOff(message)
        else isSuspect ||= this.#hear(message)
      }
    }
    if (isOverrun) this.#look()
    this.#isBehind = false
    isSuspect ||= isOverrun
    return { isSuspect, isUnsure: this.#isUnsure && this.#shaken.size > 0, isSetting, isOverrun }
  }

  /** Reports whether an existing interface lost a dependent object. Call this after a quiet period. */
  isShaken(): boolean {
    const isThere = [...this.#shaken].some((index) => this.#links.has(index))
    this.#shaken.clear()
    return isThere
  }

  #shake(index: number): void {
    this.#shaken.add(index)
    this.#isUnsure = true
  }

  #hear(message: Message): boolean {
    const { type, payload } = message
    if (type === NEWLINK || type === DELLINK) return this.#hearOfLink(message)
    if (type === DELADDR || type === DELQDISC) this.#shake(u32.get(payload, 4))
    if (type === DELROUTE && payload[4] === MAIN_TABLE) this.#shake(readRoute(message).index ?? 0)
    for (const index of this.#shaken) if (!this.#links.has(index)) this.#shaken.delete(index)
    return false
  }

  #hearOfLink({ type, payload }: Message): boolean {
    const { header, attributes } = linkPayload.decode(payload)
    const known = this.#links.get(header.index)
    if (header.family === AF_BRIDGE) {
      // A notification about a port's settings lacks the former values, so each counts as a possible loss, unless ADD
      // may still be setting up the port.
      const isOld = known !== undefined && (type === DELLINK || monotonicMs() - known.since > SET_UP_MS)
      if (isOld) this.#shake(header.index)
      return false
    }
    if (type === DELLINK) {
      this.#links.delete(header.index)
      return known?.isBridge === true
    }
    const kind = attributes.linkInfo?.kind ?? ""
    if (!known && !isOfInterest(kind)) return false
    const { master, mac = "" } = attributes
    const now = knownOf({ kind, flags: header.flags, master, mac, since: known?.since ?? monotonicMs() })
    this.#links.set(header.index, now)
    if (!known) return false
    if (known.isUp && !now.isUp) this.#shake(header.index)
    if (known.master !== 0 && known.master !== now.master) this.#shake(header.index)
    return now.isBridge && known.mac !== now.mac
  }

  /** Reports whether a notification says that forwarding was disabled, on all interfaces or on a bridge. */
  #isOff({ payload }: Message): boolean {
    const { index = 0, forwarding } = settings.read(payload, 4, payload.length)
    return forwarding === 0 && (index === ALL || this.#links.get(index)?.isBridge === true)
  }

  [Symbol.dispose](): void {
    this.#events[Symbol.dispose]()
  }
}

/** Reports whether plugins create links of this kind on the host. */
function isOfInterest(kind: string): boolean {
  return kind === "bridge" || kind === "veth" || kind === "ifb" || kind === "vlan"
}

type Seen = Pick<Known, "mac" | "since"> & { kind: string; flags: number; master: number | undefined }

function knownOf({ kind, flags, master = 0, mac, since }: Seen): Known {
  return { isBridge: kind === "bridge", isUp: (flags & IFF_UP) !== 0, master, mac, since }
}
