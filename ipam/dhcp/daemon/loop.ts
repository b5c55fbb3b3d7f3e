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
import type { Service } from "./service.ts"
import { Sessions } from "./sessions.ts"
import type { Tenant } from "./tenant.ts"
import { Timers } from "./timers.ts"

/** More than a frame of any link, and than most that a plugin sends. */
const BUFFER = 65_536
/** How often it is looked for what only refers to itself. */
const COLLECT_MS = 60_000
/** How long a lease is left alone after something unforeseen. */
const PAUSE_MS = 10_000

/** What the daemon waits for besides its leases and sessions. */
interface Sources {
  readonly signals: Fd
  /** The socket that it listens on. */
  readonly server: Fd
  /** Changes of the host's links. */
  readonly hostEvents: Fd
  readonly timer: BootTimer
}

/** The one loop of the daemon: waits for whatever comes, and has the lease or the call that it is about go on. */
class Loop {
  readonly #service: Service
  readonly #sessions: Sessions
  readonly #log: (line: string) => void
  readonly #timers = new Timers<Tenant>()
  /** For when each lease is in the timers. */
  readonly #scheduled = new Map<Tenant, number>()
  /** The leases with something open. */
  readonly #active = new Set<Tenant>()
  readonly #buffer = new Uint8Array(BUFFER)
  readonly #sender = new NetlinkSender()
  #collectAt = 0

  constructor(service: Service, log: (line: string) => void) {
    this.#service = service
    this.#log = log
    this.#sessions = new Sessions(service, log, (tenant) => this.#touch(tenant))
    for (const tenant of service.tenants.values()) this.#touch(tenant)
  }

  /** Waits once, and does what there is to do then. False when the process is to end. */
  turn({ signals, server, hostEvents, timer }: Sources): boolean {
    const byDescriptor = this.#activeDescriptors()
    const own = [signals, server, hostEvents, timer.fd]
    const requests: PollRequest[] = [...own, ...byDescriptor.keys()].map((fd) => ({ fd, events: Poll.In }))
    requests.push(...this.#sessions.requests)
    timer.set(this.#timers.next)
    const ready = pollAll(requests, undefined)
    if (ready[0] !== 0) return false
    if (ready[1] !== 0) this.#sessions.accept(server)
    if (ready[2] !== 0) this.#lookAfterLinks(hostEvents)
    for (const [at, { fd }] of requests.entries()) {
      if (at < own.length || ready[at] === 0) continue
      const tenant = byDescriptor.get(fd)
      if (tenant) this.#attend(tenant, () => tenant.onReadable(this.#buffer))
      else this.#sessions.serve(fd, this.#buffer)
    }
    this.#attendTimers()
    this.#collect()
    return true
  }

  #activeDescriptors(): Map<Fd, Tenant> {
    const found = new Map<Fd, Tenant>()
    for (const tenant of this.#active) {
      const { descriptors } = tenant
      if (descriptors.length === 0) this.#active.delete(tenant)
      for (const fd of descriptors) found.set(fd, tenant)
    }
    return found
  }

  #attendTimers(): void {
    const now = bootMs()
    for (let tenant = this.#timers.take(now); tenant; tenant = this.#timers.take(now)) {
      this.#scheduled.delete(tenant)
      const { due } = tenant
      if (this.#service.tenants.get(tenant.key) !== tenant) continue // given back
      const current = tenant
      if (due !== undefined && due <= now) this.#attend(current, () => this.#service.onTime(current))
      else this.#touch(current)
    }
  }

  /** Has something done for a lease. What goes wrong with one is no matter of the others'. */
  #attend(tenant: Tenant, act: () => void): void {
    try {
      act()
      this.#touch(tenant)
    } catch (error) {
      this.#log(
        `dhcp daemon: ${tenant.key}: ${error instanceof Error ? `${error.message}\n${error.stack}` : String(error)}`,
      )
      tenant.close("of an error in the daemon, which is in its log")
      this.#schedule(tenant, bootMs() + PAUSE_MS)
    }
  }

  #touch(tenant: Tenant): void {
    this.#service.forgetIfOver(tenant)
    if (this.#service.tenants.get(tenant.key) !== tenant) return
    if (tenant.descriptors.length > 0) this.#active.add(tenant)
    if (tenant.due !== undefined) this.#schedule(tenant, Math.max(tenant.due, bootMs() + 1))
  }

  #schedule(tenant: Tenant, due: number): void {
    const scheduled = this.#scheduled.get(tenant)
    if (scheduled !== undefined && scheduled <= due) return // it comes up, and is looked at then
    this.#scheduled.set(tenant, due)
    this.#timers.add(due, tenant)
  }

  /** A link of the host has gone: a container's end may have gone with it, and nothing may keep its namespace. */
  #lookAfterLinks(hostEvents: Fd): void {
    try {
      for (;;) receive(hostEvents, this.#buffer, MSG_DONTWAIT, this.#sender)
    } catch (error) {
      if (!isErrno(error, "EAGAIN", "ENOBUFS")) throw error
    }
    for (const tenant of this.#active) this.#attend(tenant, () => tenant.look())
  }

  #collect(): void {
    const now = bootMs()
    if (now < this.#collectAt) return
    collectGarbage()
    this.#collectAt = now + COLLECT_MS
  }
}

/** Serves until SIGTERM or SIGINT. */
export function runLoop(service: Service, server: Fd, log: (line: string) => void): void {
  using signals = watchSignals(Signal.Terminate, Signal.Interrupt)
  using hostEvents = new FileDescriptor(openNetlink(NETLINK_ROUTE, RouteGroup.Link))
  using timer = BootTimer.open()
  const loop = new Loop(service, log)
  while (loop.turn({ signals: signals.fd, server, hostEvents: hostEvents.fd, timer }));
}
