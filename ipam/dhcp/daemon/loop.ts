import { collectGarbage } from "../../../pkg/engine/mod.ts"
import {
  BootTimer,
  bootMs,
  type Fd,
  FileDescriptor,
  isErrno,
  MSG_DONTWAIT,
  NetlinkSender,
  openNetlink,
  Poll,
  type PollRequest,
  pollAll,
  receive,
  Signal,
  watchSignals,
} from "../../../pkg/libc/mod.ts"
import { NETLINK_ROUTE, RouteGroup } from "../../../pkg/netlink/mod.ts"
import { Deadlines, earliest } from "./deadlines.ts"
import type { Holder } from "./holder.ts"
import type { Service } from "./service.ts"
import { Sessions } from "./sessions.ts"

/** The size of the buffer in bytes. It exceeds the frames of every link, and most calls of plugins. */
const BUFFER = 65_536
/** The interval between collections of reference cycles. */
const COLLECT_MS = 60_000
/** The pause of a holder after an unexpected error. */
const PAUSE_MS = 10_000

interface Sources {
  readonly signals: Fd
  readonly server: Fd
  readonly hostEvents: Fd
  readonly timer: BootTimer
}

/** The event loop of the daemon. It passes ready descriptors and deadlines to the holders and sessions. */
class Loop {
  readonly #service: Service
  readonly #sessions: Sessions
  readonly #log: (line: string) => void
  readonly #deadlines = new Deadlines<Holder>()
  /** The earliest deadline of each holder in the heap. */
  readonly #scheduled = new Map<Holder, number>()
  /** Holders with open descriptors. */
  readonly #active = new Set<Holder>()
  readonly #buffer = new Uint8Array(BUFFER)
  readonly #sender = new NetlinkSender()
  #collectAt = 0

  constructor(service: Service, log: (line: string) => void) {
    this.#service = service
    this.#log = log
    this.#sessions = new Sessions(service, log, (holder) => this.#touch(holder))
    for (const holder of service.holders.values()) this.#touch(holder)
  }

  /** Polls once, and serves the ready descriptors. Returns false after SIGTERM or SIGINT. */
  turn({ signals, server, hostEvents, timer }: Sources): boolean {
    const byDescriptor = this.#activeDescriptors()
    const { acceptsAt } = this.#sessions
    const accepts = acceptsAt === undefined || acceptsAt <= bootMs()
    const own = [signals, hostEvents, timer.fd, ...(accepts ? [server] : [])]
    const requests: PollRequest[] = [...own, ...byDescriptor.keys()].map((fd) => ({ fd, events: Poll.In }))
    requests.push(...this.#sessions.requests)
    timer.set(earliest([this.#deadlines.next, accepts ? undefined : acceptsAt]))
    const ready = pollAll(requests, undefined)
    if (ready[0] !== 0) return false
    if (ready[1] !== 0) this.#checkNamespaces(hostEvents)
    if (accepts && ready[3] !== 0) this.#sessions.accept(server)
    for (const [at, { fd }] of requests.entries()) {
      if (at < own.length || ready[at] === 0) continue
      const holder = byDescriptor.get(fd)
      if (holder) this.#attend(holder, () => holder.onReadable(this.#buffer))
      else this.#sessions.serve(fd, this.#buffer)
    }
    this.#attendDeadlines()
    this.#collect()
    return true
  }

  #activeDescriptors(): Map<Fd, Holder> {
    const found = new Map<Fd, Holder>()
    for (const holder of this.#active) {
      const { descriptors } = holder.link
      if (descriptors.length === 0) this.#active.delete(holder)
      for (const fd of descriptors) found.set(fd, holder)
    }
    return found
  }

  #attendDeadlines(): void {
    const now = bootMs()
    for (let holder = this.#deadlines.take(now); holder; holder = this.#deadlines.take(now)) {
      this.#scheduled.delete(holder)
      const { due } = holder
      if (this.#service.holders.get(holder.key) !== holder) continue // released
      const current = holder
      if (due !== undefined && due <= now) this.#attend(current, () => this.#service.onTime(current))
      else this.#touch(current)
    }
  }

  /** Calls `act` for a holder. An error closes only this holder, for a while. */
  #attend(holder: Holder, act: () => void): void {
    try {
      act()
      this.#touch(holder)
    } catch (error) {
      this.#log(
        `dhcp daemon: ${holder.key}: ${error instanceof Error ? `${error.message}\n${error.stack}` : String(error)}`,
      )
      holder.close("an error in the daemon; see its log")
      this.#schedule(holder, bootMs() + PAUSE_MS)
    }
  }

  #touch(holder: Holder): void {
    this.#service.forgetIfOver(holder)
    if (this.#service.holders.get(holder.key) !== holder) return
    if (holder.link.descriptors.length > 0) this.#active.add(holder)
    if (holder.due !== undefined) this.#schedule(holder, Math.max(holder.due, bootMs() + 1))
  }

  #schedule(holder: Holder, due: number): void {
    const scheduled = this.#scheduled.get(holder)
    if (scheduled !== undefined && scheduled <= due) return // then the holder's `due` is read again
    this.#scheduled.set(holder, due)
    this.#deadlines.add(due, holder)
  }

  /** Closes the namespaces of deleted containers, after the host's links have changed. */
  #checkNamespaces(hostEvents: Fd): void {
    try {
      for (;;) receive(hostEvents, this.#buffer, MSG_DONTWAIT, this.#sender)
    } catch (error) {
      if (!isErrno(error, "EAGAIN", "ENOBUFS")) throw error
    }
    for (const holder of this.#active) this.#attend(holder, () => holder.checkNamespace())
  }

  #collect(): void {
    const now = bootMs()
    if (now < this.#collectAt) return
    collectGarbage()
    this.#collectAt = now + COLLECT_MS
  }
}

/** Serves calls and leases until SIGTERM or SIGINT. */
export function runLoop(service: Service, server: Fd, log: (line: string) => void): void {
  using signals = watchSignals(Signal.Terminate, Signal.Interrupt)
  using hostEvents = new FileDescriptor(openNetlink(NETLINK_ROUTE, RouteGroup.Link))
  using timer = new BootTimer()
  const loop = new Loop(service, log)
  while (loop.turn({ signals: signals.fd, server, hostEvents: hostEvents.fd, timer }));
}
