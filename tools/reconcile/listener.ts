import { collectGarbage, monotonicMs } from "../../pkg/engine/mod.ts"
import { isErrno, Poll, processId } from "../../pkg/libc/mod.ts"
import { readyOf, sleep } from "../../pkg/loop/mod.ts"
import { messageOf } from "../../pkg/types/mod.ts"
import { BackOff } from "./back-off.ts"
import { FirewalldWatch } from "./firewalld-watch.ts"
import { LinkWatch } from "./link-watch.ts"
import type { PluginRuns } from "./plugins.ts"
import { failuresOf, type Reconciled, reconcileAll } from "./reconcile.ts"
import { becomeListener, type Loss, Tally, type Trigger } from "./record.ts"
import { RuleWatch } from "./rule-watch.ts"

/** The pause before the check that follows a restoration. By then, a concurrent ADD has written its record. */
const AGAIN_MS = 3000
/** The longest pause before the check that follows a failed one. */
const LONGEST_PAUSE_MS = 30_000
/** The pause after a failed system call, in ms, and the number of consecutive failures that ends the listener. */
const [REFUSED_MS, REFUSALS] = [100, 20]

export interface ListenerOptions {
  readonly cacheDir: string
  readonly runs: PluginRuns
  readonly log: (line: string) => void
  readonly signal: AbortSignal
}

/** Listens until the signal aborts. Throws if another listener runs, or if notifications cannot be received. */
export async function listen(options: ListenerOptions): Promise<void> {
  using place = becomeListener()
  if (!place) throw new Error("Cannot listen: another listener runs on this host")
  using listener = new Listener(options)
  await listener.run()
}

/** Starts checks after notifications. Each check restores all lost objects, like `cni reconcile`. */
class Listener implements Disposable {
  readonly #options: ListenerOptions
  readonly #tally: Tally
  readonly #backOff = new BackOff()
  readonly #rules = new RuleWatch()
  readonly #links = new LinkWatch()
  readonly #firewalld: FirewalldWatch
  /** Whether a link certainly lost an object, and is not only about to be deleted. */
  #isLinkLost = false
  #againAt: number | undefined
  #againMs = AGAIN_MS
  /** The number of consecutive failed system calls. */
  #refusals = 0

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#tally = new Tally(processId(), options.log)
    this.#firewalld = new FirewalldWatch(options.log)
    this.#lose("start")
  }

  async run(): Promise<void> {
    const { signal, log } = this.#options
    log("listening")
    this.#tally.write()
    while (!signal.aborted) {
      await (this.#refusals === 0 ? this.#wait() : sleep(REFUSED_MS, signal))
      if (!signal.aborted) this.#attempt([() => this.#hear(), () => this.#act()])
    }
    this.#tally.remove()
  }

  /**
   * Runs all steps, even after a failure. Throws after many consecutive failures, because a new process may succeed.
   */
  #attempt(steps: readonly (() => void)[]): void {
    let reason: string | undefined
    for (const step of steps) {
      try {
        step()
      } catch (error) {
        if (!isErrno(error)) throw error
        reason = messageOf(error)
      }
    }
    this.#refusals = reason === undefined ? 0 : this.#refusals + 1
    if (reason === undefined) return
    if (this.#refusals === REFUSALS) throw new Error(`Cannot listen: ${reason}, ${REFUSALS} times in a row`)
    if (this.#refusals === 1) this.#options.log(`${reason}; checking everything`)
    this.#lose("overrun")
  }

  async #wait(): Promise<void> {
    const { fd, retryAt } = this.#firewalld
    const requests = [this.#rules.fd, this.#links.fd, ...(fd === undefined ? [] : [fd])].map((fd) => {
      return { fd, events: Poll.In }
    })
    const times = [this.#backOff.next()?.at, this.#againAt, retryAt].filter((time) => time !== undefined)
    const timeoutMs = times.length === 0 ? undefined : Math.max(0, Math.ceil(Math.min(...times) - monotonicMs()))
    await readyOf(requests, { timeoutMs, signal: this.#options.signal })
  }

  #lose(trigger: Trigger): void {
    this.#backOff.lose(trigger, monotonicMs())
  }

  #hear(): void {
    const rules = this.#rules.take()
    if (rules.isSuspect) this.#lose("rules")
    const links = this.#links.take()
    this.#isLinkLost ||= links.isSuspect
    if (links.isSuspect || links.isUnsure) this.#lose("links")
    if (links.isSetting) this.#lose("settings")
    if (rules.isOverrun || links.isOverrun) this.#lose("overrun")
    const { retryAt } = this.#firewalld
    if (retryAt !== undefined && retryAt <= monotonicMs() && this.#firewalld.connect()) this.#lose("firewalld")
    // While firewalld loads its rules, it answers no call. A check that starts now waits for its first answers.
    const isStarting = rules.isFirewalld && this.#firewalld.fd !== undefined
    if (this.#firewalld.take() || isStarting) this.#lose("firewalld")
  }

  #act(): void {
    const now = monotonicMs()
    if (this.#againAt !== undefined && this.#againAt <= now) this.#check("again", now)
    const next = this.#backOff.next()
    if (!next || next.at > now) return
    if (next.reason !== "links" || this.#links.isShaken() || this.#isLinkLost)
      this.#check(next.reason as Trigger, next.since)
    else this.#backOff.dismiss(next.reason)
  }

  /** Restores all lost objects. Never throws for an object that cannot be read or restored. */
  #check(trigger: Trigger, since: number): void {
    let reconciled: Reconciled | undefined
    let losses: readonly Loss[]
    try {
      reconciled = reconcileAll({ cacheDir: this.#options.cacheDir }, this.#options.runs)
      losses = failuresOf(reconciled)
    } catch (error) {
      losses = [{ what: "anything", reason: messageOf(error) }]
    }
    const now = monotonicMs()
    this.#backOff.checked(now)
    this.#links.isShaken() // forgets the restored objects
    this.#isLinkLost = false
    const count = reconciled?.outcome.restored.length ?? 0
    if (count > 0) {
      this.#tally.outage(now - since)
      this.#options.log(`restored ${count} things in ${(now - since).toFixed(0)} ms, after a change of ${trigger}`)
    }
    this.#tally.losses = losses
    this.#tally.count(trigger, losses.length > 0 ? "failed" : count > 0 ? "restored" : "complete")
    this.#tally.write()
    this.#againMs = losses.length > 0 ? Math.min(2 * this.#againMs, LONGEST_PAUSE_MS) : AGAIN_MS
    // A check for another reason does not replace this one, because it is too early for a concurrent ADD's record.
    if (losses.length > 0 || count > 0) this.#againAt = now + this.#againMs
    else if (trigger === "again") this.#againAt = undefined
    collectGarbage()
  }

  [Symbol.dispose](): void {
    this.#firewalld[Symbol.dispose]()
    this.#links[Symbol.dispose]()
    this.#rules[Symbol.dispose]()
  }
}
