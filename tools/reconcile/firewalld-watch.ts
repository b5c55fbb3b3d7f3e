import { Bus, DbusError } from "../../pkg/dbus/mod.ts"
import { monotonicMs } from "../../pkg/engine/mod.ts"
import { type Fd, isErrno } from "../../pkg/libc/mod.ts"

const FIREWALLD = "org.fedoraproject.FirewallD1"
const DAEMON = "org.freedesktop.DBus"
const RULES = [
  `type='signal',sender='${FIREWALLD}',interface='${FIREWALLD}',member='Reloaded'`,
  `type='signal',sender='${DAEMON}',interface='${DAEMON}',member='NameOwnerChanged',arg0='${FIREWALLD}'`,
]
/** The timeout of D-Bus in milliseconds, which can block the listener as long. */
const PATIENCE_MS = 2000
/** The first and the longest pause before a new connection to D-Bus. The pause grows with each attempt. */
const [FIRST_MS, MOST_MS] = [1000, 64_000]

/** Receives notifications over the system bus when firewalld reloads or starts. */
export class FirewalldWatch implements Disposable {
  #bus: Bus | undefined
  /** The unique bus name of firewalld's connection. Other users can send the same signals, but not from this name. */
  #owner: string | undefined
  #pauseMs = FIRST_MS
  /** The time of the next attempt to connect, as `monotonicMs`. Undefined if no bus exists. */
  retryAt: number | undefined
  readonly #log: (line: string) => void

  constructor(log: (line: string) => void) {
    this.#log = log
    this.connect()
  }

  get fd(): Fd | undefined {
    return this.#bus?.fd
  }

  /** Connects to the bus if necessary and possible. Returns whether it has just connected. */
  connect(): boolean {
    if (this.#bus) return false
    this.retryAt = undefined
    let bus: Bus | undefined
    try {
      bus = Bus.findSystem(PATIENCE_MS)
      for (const rule of RULES) bus?.subscribe(rule)
      this.#owner = bus?.findOwner(FIREWALLD)
      this.#bus = bus
      if (bus) this.#pauseMs = FIRST_MS
      return bus !== undefined
    } catch (error) {
      bus?.[Symbol.dispose]()
      this.#lose(error)
      return false
    }
  }

  /** Processes the received messages. Returns whether firewalld restarted or reloaded. */
  take(): boolean {
    try {
      let isNew = false
      for (const { sender, member, body } of this.#bus?.takeSignals() ?? []) {
        const [name, , owner] = body
        if (sender === DAEMON && member === "NameOwnerChanged" && name === FIREWALLD) {
          this.#owner = String(owner)
          isNew ||= owner !== ""
        } else if (sender === this.#owner && member === "Reloaded") isNew = true
      }
      return isNew
    } catch (error) {
      this.#bus?.[Symbol.dispose]()
      this.#bus = undefined
      this.#lose(error)
      return false
    }
  }

  #lose(error: unknown): void {
    if (!(error instanceof DbusError) && !isErrno(error)) throw error
    this.#log(`${error.message}; trying the bus again in ${this.#pauseMs / 1000} s`)
    this.retryAt = monotonicMs() + this.#pauseMs
    this.#pauseMs = Math.min(2 * this.#pauseMs, MOST_MS)
  }

  [Symbol.dispose](): void {
    this.#bus?.[Symbol.dispose]()
  }
}
