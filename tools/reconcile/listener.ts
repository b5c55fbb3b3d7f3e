import { collectGarbage, monotonicMs } from "../../pkg/engine/mod.ts"
import { isErrno, Poll, processId } from "../../pkg/libc/mod.ts"
import { anyOf, newStop, readyOf, type Stop, sleep } from "../../pkg/loop/mod.ts"
import type { TableCopy } from "../../pkg/nftables/mod.ts"
import { messageOf } from "../../pkg/types/mod.ts"
import { Fights } from "./fights.ts"
import { FirewalldWatch } from "./firewalld-watch.ts"
import { LinkWatch } from "./link-watch.ts"
import { exceptFlags, keyOf, type ListenerOptions, type Looked, look, lossesOf } from "./look.ts"
import { becomeListener, Tally, type Trigger } from "./record.ts"
import { nameOf, type RuleNews, RuleWatch } from "./rule-watch.ts"

/** Losses that follow one another faster are one burst, of this length at most: what is made again amid it is soon gone. */
const QUIET_MS = 20
const BURST_MS = 5000
/** After so long without a loss the next one is answered at once. */
const CALM_MS = 1000
/** Between two looks at everything this many times the first one's time goes by: the listener takes a tenth of a processor at most. */
const REST = 9
/** When to look again after something was restored: an ADD that ran beside it has its record then. */
const AGAIN_MS = 3000
/** After a failure it is tried again later and later, at last once an hour. */
const LONGEST_PAUSE_MS = 3_600_000
/** The pause after a call that the kernel refused, and how many such pauses in a row end the listener. */
const [FAILED_MS, FAILURES] = [100, 20]

/** Losses that are to be answered together. */
interface Burst {
  trigger: Trigger
  /** False while an interface may be on its way out, and what it loses with it. */
  isSure: boolean
  readonly since: number
  last: number
}

/** Listens until the signal says stop. Throws where another listener runs, or what it listens to cannot be opened. */
export async function listen(options: ListenerOptions): Promise<void> {
  using place = becomeListener()
  if (!place) throw new Error("Cannot listen: another listener runs on this host")
  using listener = new Listener(options)
  await listener.run()
}

class Listener implements Disposable {
  readonly #options: ListenerOptions
  readonly #tally: Tally
  readonly #fights = new Fights()
  readonly #rules: RuleWatch
  readonly #links: LinkWatch
  readonly #firewalld: FirewalldWatch
  /** Tables that are gone, as they were, by their names. */
  readonly #lost = new Map<string, TableCopy>()
  #lostBurst: Burst | undefined
  /** Whether flows may have begun without these tables since the last look. */
  #hasRestored = false
  #restoredAt = Number.NEGATIVE_INFINITY
  #generation = 0 as RuleNews["generation"]
  #burst: Burst | undefined
  /** Before this no look begins. */
  #restUntil = 0
  #againAt: number | undefined
  #pauseMs = AGAIN_MS
  #look: Promise<void> | undefined
  /** firewalld has begun anew: its sources are gone until they are made again, so that nothing is waited for. */
  #isFirewalldNew = false
  #firewalldLook: Promise<void> | undefined
  /** So often in a row something could not be heard or done. */
  #failures = 0
  /** Ends the wait for what happens. */
  #wake: Stop = newStop()

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#tally = new Tally(processId(), options.log)
    this.#rules = new RuleWatch(options.cacheDir)
    this.#links = new LinkWatch()
    this.#firewalld = new FirewalldWatch(options.log)
    this.#suspect("start")
  }

  async run(): Promise<void> {
    const { signal, log } = this.#options
    log("listening")
    this.#tally.write()
    while (!signal.aborted) {
      await (this.#failures === 0 ? this.#wait() : sleep(FAILED_MS, signal))
      this.#goOn([() => this.#hear(), () => this.#act()])
    }
    await Promise.all([this.#look, this.#firewalldLook])
    this.#tally.remove()
  }

  /** Takes these steps, each also when the one before has failed. Throws after too many failures in a row: a new process may do better. */
  #goOn(steps: readonly (() => void)[]): void {
    let reason: string | undefined
    for (const step of steps) {
      try {
        step()
      } catch (error) {
        if (!isErrno(error)) throw error
        reason = messageOf(error)
      }
    }
    this.#failures = reason === undefined ? 0 : this.#failures + 1
    if (reason === undefined) return
    if (this.#failures === FAILURES) throw new Error(`Cannot listen: ${reason}, ${FAILURES} times in a row`)
    if (this.#failures === 1) this.#options.log(`${reason}; everything is looked at`)
    this.#suspect("overrun")
  }

  async #wait(): Promise<void> {
    const { fd } = this.#firewalld
    const requests = [this.#rules.fd, this.#links.fd, ...(fd === undefined ? [] : [fd])].map((fd) => {
      return { fd, events: Poll.In }
    })
    const dueAt = this.#dueAt()
    const timeoutMs = dueAt === undefined ? undefined : Math.max(0, Math.ceil(dueAt - monotonicMs()))
    this.#wake = newStop()
    using until = anyOf(this.#wake.signal, this.#options.signal)
    await readyOf(requests, { timeoutMs, signal: until.signal })
  }

  /** When something is to be done though nothing is heard; undefined at rest. */
  #dueAt(): number | undefined {
    const afterLook = this.#look ? [] : [this.#burst && Math.max(endOf(this.#burst), this.#restUntil), this.#againAt]
    const times = [this.#lostBurst && endOf(this.#lostBurst), ...afterLook, this.#firewalld.retryAt]
    const known = times.filter((time) => time !== undefined)
    return known.length === 0 ? undefined : Math.min(...known)
  }

  #hear(): void {
    const news = this.#rules.take()
    if (news.lost.length > 0) {
      const now = monotonicMs()
      for (const table of news.lost) this.#lost.set(nameOf(table), table)
      this.#generation = news.generation
      this.#lostBurst ??= { trigger: "rules", isSure: true, since: now, last: now }
      this.#lostBurst.last = now
      this.#suspect("rules")
    }
    if (news.isOverrun) this.#suspect("overrun")
    else if (news.isSuspect) this.#suspect("rules")
    const links = this.#links.take()
    if (links.isOverrun) this.#suspect("overrun")
    if (links.isSetting) this.#suspect("settings")
    if (links.isSuspect || links.isUnsure) this.#suspect("links", links.isSuspect)
    const { retryAt } = this.#firewalld
    const isDue = news.isFirewalld || (retryAt !== undefined && retryAt <= monotonicMs())
    if (isDue && this.#firewalld.connect()) this.#suspect("firewalld")
    // While it loads its rules it answers nothing: a look that has begun by then gets the first answers.
    if (news.isFirewalld && this.#firewalld.fd !== undefined) this.#isFirewalldNew = true
    if (!this.#firewalld.take()) return
    this.#isFirewalldNew ||= this.#firewalldLook === undefined
    this.#suspect("firewalld")
  }

  #suspect(trigger: Trigger, isSure = true): void {
    const now = monotonicMs()
    this.#burst ??= { trigger, isSure, since: now, last: now }
    if (isSure && !this.#burst.isSure) this.#burst.trigger = trigger
    this.#burst.isSure ||= isSure
    this.#burst.last = now
  }

  #act(): void {
    const now = monotonicMs()
    // The first loss is answered at once: only what follows it closely waits.
    const isFirst = now - this.#restoredAt > CALM_MS
    if (this.#lostBurst && (isFirst || endOf(this.#lostBurst) <= now)) this.#restoreTables(this.#lostBurst)
    if (this.#isFirewalldNew && !this.#firewalldLook) {
      this.#isFirewalldNew = false
      this.#firewalldLook = this.#lookAtFirewalld(now).finally(() => {
        this.#firewalldLook = undefined
        this.#wake.abort()
      })
    }
    if (this.#look || now < this.#restUntil) return
    if (this.#againAt !== undefined && this.#againAt <= now) {
      this.#againAt = undefined
      this.#suspect("again")
    }
    if (!this.#burst || endOf(this.#burst) > now) return
    const { trigger, since, isSure } = this.#burst
    this.#burst = undefined
    if (!this.#links.isShaken() && !isSure) return
    this.#look = this.#lookAtAll(trigger, since).finally(() => {
      this.#look = undefined
      this.#wake.abort()
    })
  }

  #restoreTables({ since }: Burst): void {
    const now = monotonicMs()
    const lost = new Map(this.#lost)
    this.#lost.clear()
    this.#lostBurst = undefined
    // What is gone together comes back together: some of the tables alone would let some of the traffic through.
    if ([...lost.keys()].every((name) => this.#fights.isOver(name, now))) {
      for (const name of lost.keys()) this.#fights.leave(name, now)
      return
    }
    const restored = this.#rules.restore([...lost.values()], this.#generation)
    if (restored.length === 0) return
    this.#restoredAt = monotonicMs()
    this.#hasRestored = true
    for (const table of restored) this.#fights.note(nameOf(table), this.#restoredAt)
    this.#tally.outage(this.#restoredAt - since)
    this.#tally.count("rules", "restored")
    this.#tally.write()
    this.#options.log(`restored in ${(this.#restoredAt - since).toFixed(1)} ms: ${restored.map(nameOf).join(", ")}`)
  }

  /** Has `cni reconcile` look at what the plugin firewall has in firewalld, also beside a look at everything. Never throws. */
  async #lookAtFirewalld(since: number): Promise<void> {
    let looked: Looked | undefined
    try {
      looked = await look(this.#options, ["--only", "firewall", ...exceptFlags(this.#fights.over(since))])
    } catch {} // the look at everything that follows tells it
    const now = monotonicMs()
    const { restored = [], failed = [] } = looked ?? {}
    for (const item of restored) this.#fights.note(keyOf(item), now, since)
    if (restored.length > 0) this.#tally.outage(now - since)
    const isFailed = !looked || failed.length > 0
    this.#tally.count("firewalld", isFailed ? "failed" : restored.length > 0 ? "restored" : "complete")
    this.#tally.write()
    if (restored.length > 0)
      this.#options.log(
        `restored ${restored.length} things in ${(now - since).toFixed(0)} ms, in a firewalld that has begun anew`,
      )
  }

  /** Has `cni reconcile` look at everything, in a process of its own, whose memory goes with it. Never throws. */
  async #lookAtAll(trigger: Trigger, since: number): Promise<void> {
    const began = monotonicMs()
    const over = this.#fights.over(began)
    const flows = this.#hasRestored ? ["--flows"] : []
    this.#hasRestored = false
    let looked: Looked | undefined
    let reason = ""
    try {
      looked = await look(this.#options, [...flows, ...exceptFlags(over)])
    } catch (error) {
      reason = messageOf(error)
    }
    const now = monotonicMs()
    this.#restUntil = now + REST * (now - began)
    const { restored = [], left = [], failed = [], unread = [] } = looked ?? {}
    for (const item of restored) this.#fights.note(keyOf(item), now, began)
    for (const item of left) this.#fights.leave(keyOf(item), now)
    if (restored.length > 0) this.#tally.outage(now - since)
    this.#tally.losses = looked ? lossesOf(looked, over) : [{ what: "everything", reason }]
    const isFailed = !looked || failed.length + unread.length > 0
    this.#tally.count(
      trigger,
      isFailed ? "failed" : left.length > 0 ? "left" : restored.length > 0 ? "restored" : "complete",
    )
    this.#tally.write()
    if (restored.length > 0)
      this.#options.log(
        `restored ${restored.length} things in ${(now - since).toFixed(0)} ms, after a change of ${trigger}`,
      )
    this.#pauseMs = isFailed ? Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS) : AGAIN_MS
    const nextTry = this.#fights.nextTry(now)
    const again = restored.length > 0 || isFailed ? now + this.#pauseMs : undefined
    const times = [nextTry, again].filter((time) => time !== undefined)
    this.#againAt = times.length === 0 ? undefined : Math.min(...times)
    collectGarbage()
  }

  [Symbol.dispose](): void {
    this.#firewalld[Symbol.dispose]()
    this.#links[Symbol.dispose]()
    this.#rules[Symbol.dispose]()
  }
}

function endOf({ since, last }: Burst): number {
  return Math.min(last + QUIET_MS, since + BURST_MS)
}
