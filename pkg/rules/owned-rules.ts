import { unlessErrno } from "../libc/mod.ts"
import { type Link, listLinks, type NetlinkSocket, RouteSocket } from "../netlink/mod.ts"
import { openNetfilter } from "../nftables/mod.ts"
import { CniError, Code, isCniError, messageOf, type Owner, ownerComment } from "../types/mod.ts"
import { Failures, type Undo } from "../undo/mod.ts"
import type { BackendName, Backends, Filter, ForeignRules, RuleBackend } from "./backend.ts"
import { isForeign, moveToIptables, type RestorableRules, type RestoreOptions, restoreRules } from "./restore.ts"

/** The words for a feature in errors. */
export interface Feature<Spec> {
  /** The name of the rules: "masquerade", "port mappings". */
  readonly rules: string
  /** Returns the action of ADD: "masquerade 10.1.0.2/16", or "masquerade" without a spec. */
  does(spec?: Spec): string
  /** What the kernel needs for the feature in nf_tables. */
  readonly needs: string
  /** The configuration key that selects the backend. Undefined if there is no such key. */
  readonly key?: string
}

const NO_PROGRAM = 'the program "iptables-restore" is missing (Debian\'s package is called "iptables")'

/**
 * The rules of one feature, each with its owner. They are in nf_tables, or in iptables if the configuration selects it
 * or the kernel requires it. They are removed from both.
 *
 * @example
 * const rules = new OwnedRules(feature, filter, { nftables: filter && new InNftables(filter), iptables: new InIptables(filter) })
 * rules.add({ owner, addresses }, config.ipMasqBackend, undo)
 */
export class OwnedRules<Spec extends { readonly owner: Owner }, Hints = unknown, Made = void> {
  readonly #feature: Feature<Spec>
  readonly #filter: Pick<Filter, "forgetTables"> | undefined
  readonly #backends: Backends<Spec, Hints, Made>

  constructor(
    feature: Feature<Spec>,
    filter: Pick<Filter, "forgetTables"> | undefined,
    backends: Backends<Spec, Hints, Made>,
  ) {
    this.#feature = feature
    this.#filter = filter
    this.#backends = backends
  }

  /**
   * Adds the rules with the backend `asked`. Without `asked`, adds them with nf_tables, or with iptables if nf_tables
   * fails. If both fail, the error has both reasons. A repeated call changes nothing. `log` receives a line if the
   * table was missing although other containers are attached. If it throws `CniError`, `undo` removes the added rules.
   */
  add(spec: Spec, asked: BackendName | undefined, undo: Undo, log?: (line: string) => void): Made {
    this.#filter?.forgetTables()
    const { nftables, iptables } = this.#backends
    if (iptables && asked === "iptables") return this.#addByIptables(iptables, spec, undo)
    try {
      let isNewTable = false
      const place = this.#requireNftables(spec)
      const onMissingRules = () => {
        isNewTable = !place.mayHold()
      }
      const made = place.add(spec, undo, onMissingRules)
      if (isNewTable) this.#reportNewTable(spec.owner, log)
      return made
    } catch (error) {
      const isLacking = !nftables || !canUse(nftables, spec)
      const failure = this.#toCniError(error, spec, isLacking ? `nftables: ${this.#feature.needs}` : "nftables")
      if (asked || !iptables || !isLacking) throw failure
      return this.#addByIptables(iptables, spec, undo, failure)
    }
  }

  /** Logs a new table if aliases of the host's veth ends show other attached containers. Never throws. */
  #reportNewTable({ containerId }: Owner, log: ((line: string) => void) | undefined): void {
    if (!log) return
    try {
      using route = RouteSocket.open()
      const isOther = ({ attributes: { alias = "" } }: Link) => {
        const [, id, ...more] = alias.split("/")
        return more.length === 1 && id !== containerId
      }
      if (listLinks(route, isOther, { kind: "veth" }).length === 0) return
      const { rules } = this.#feature
      log(`The node had no ${rules} although containers are attached: if a flush removed them, run "cni reconcile"`)
    } catch (error) {
      log(`Cannot list attached containers: ${messageOf(error)}`)
    }
  }

  /** Adds the rules with iptables. `before` is the error of nf_tables, if that was tried first. */
  #addByIptables(iptables: RuleBackend<Spec, Hints, Made>, spec: Spec, undo: Undo, before?: CniError): Made {
    try {
      return iptables.add(spec, undo, () => {})
    } catch (cause) {
      const error = this.#toCniError(cause, spec, "iptables")
      if (!before) throw error
      throw new CniError(error.code, error.message, {
        details: `${error.details ?? ""}; nftables failed first: ${before}`,
      })
    }
  }

  #toCniError(cause: unknown, spec: Spec, by: string): CniError {
    return isCniError(cause)
      ? cause
      : new CniError(Code.Internal, `Cannot ${this.#feature.does(spec)} by ${by}`, { cause })
  }

  #requireNftables(spec: Spec): RuleBackend<Spec, Hints, Made> {
    const { nftables } = this.#backends
    if (nftables) return nftables
    const { does, key } = this.#feature
    throw new CniError(Code.Internal, `Cannot ${does(spec)} by nftables: the kernel has no nf_tables`, {
      details: `load the module "nf_tables"${key === undefined ? "" : `, or set "${key}" to "iptables"`}`,
    })
  }

  /**
   * Checks that the rules are as `add` left them, with the backend that ADD would use. Also searches the other
   * backends, because containers outlive changes of configuration and suite. Returns the backend that has the rules, or
   * undefined for rules of the Go suite. Throws `CniError` with the expected and the found state of the first backend.
   */
  check(spec: Spec, asked?: BackendName): BackendName | undefined {
    const { nftables, iptables, otherSuite } = this.#backends
    const places: BackendName[] = iptables ? ["nftables", "iptables"] : ["nftables"]
    if (asked === "iptables" || (!asked && !nftables)) places.reverse()
    let first: CniError | undefined
    for (const place of places) {
      try {
        const backend = place === "iptables" && iptables ? iptables : this.#requireNftables(spec)
        backend.check(spec)
        return place
      } catch (cause) {
        const what = `Cannot check the ${this.#feature.rules} of ${ownerComment(spec.owner)}`
        first ??= isCniError(cause) ? cause : new CniError(Code.Internal, what, { cause })
      }
    }
    if (!isForeign(otherSuite, spec)) throw first
    return undefined
  }

  /**
   * Removes an attachment's rules from all backends, even if one of them fails. Missing rules are not an error. Adds
   * errors to `failures`, or throws them at the end as one `CniError`.
   */
  remove(owner: Owner, hints: Hints, failures?: Failures): void {
    this.#removeFromAll("", `of ${ownerComment(owner)}`, (place) => place.remove(owner, hints), failures)
  }

  /** Like `remove`, for all attachments to a network except the valid ones. */
  gc(network: string, valid: readonly Owner[], failures?: Failures): void {
    this.#filter?.forgetTables()
    this.#removeFromAll("stale ", `of network "${network}"`, (place) => place.gc?.(network, valid), failures)
  }

  /**
   * Removes rules from all backends, first from iptables. A guard in nf_tables may be for the rules of both, so whether
   * it is removed depends on the remaining rules.
   */
  #removeFromAll(
    which: string,
    whose: string,
    act: (place: ForeignRules<Spec, Hints>) => void,
    given: Failures | undefined,
  ): void {
    const { nftables, iptables, otherSuite } = this.#backends
    const rules = `${which}${this.#feature.rules} ${whose}`
    const failures = given ?? new Failures()
    const removeFrom = (place: ForeignRules<Spec, Hints> | undefined, what: string) => {
      failures.attempt(what, () => {
        try {
          if (place?.mayHold()) act(place)
        } catch (cause) {
          throw new CniError(isCniError(cause) ? cause.code : Code.Internal, `Cannot ${what}`, { cause })
        }
      })
    }
    removeFrom(iptables, `remove the ${rules} by iptables`)
    removeFrom(nftables, `remove the ${rules} by nftables`)
    removeFrom(otherSuite, `remove the other suite's ${rules}`)
    if (!given) failures.throwIfAny()
  }

  /**
   * Restores missing rules of many attachments, in nf_tables with one transaction. Rules in another backend than ADD
   * would use now, as `check` finds them, count as existing. Passes failures to `refuse`. With `toIptables`, moves the
   * rules of these attachments to iptables instead. With `flushFlows`, flushes the conntrack flows of attachments that
   * began while the rules were missing, because the kernel treats later packets of a flow like the first one.
   */
  restore(
    wanted: readonly RestorableRules<Spec>[],
    options: RestoreOptions,
    flushFlows: (specs: readonly Spec[]) => void = () => {},
  ): void {
    this.#filter?.forgetTables()
    if (options.toIptables) {
      moveToIptables(this.#backends, wanted, options, () => this.#filter?.forgetTables())
      return
    }
    const restored: Spec[] = []
    const noted = wanted.map((one) => {
      const made = () => {
        restored.push(one.spec)
        one.made()
      }
      return { ...one, made }
    })
    restoreRules(this, this.#backends, noted, options)
    const begun = options.flows ? wanted.map(({ spec }) => spec) : restored
    if (options.isDry || begun.length === 0) return
    try {
      flushFlows(begun)
    } catch (error) {
      options.log(`Cannot flush the flows that began without ${this.#feature.rules}: ${messageOf(error)}`)
    }
  }

  /** For STATUS: throws code 50 with the reason if this node cannot add the rules. Runs no program. */
  requireUsable(asked?: BackendName): void {
    const { nftables, iptables } = this.#backends
    if (asked !== "iptables" && nftables?.isUsable()) return
    if (asked !== "nftables" && iptables?.isUsable()) return
    const { does, needs } = this.#feature
    const by = iptables ? (asked ?? "nftables or iptables") : "nftables"
    const details = { nftables: needs, iptables: NO_PROGRAM, "nftables or iptables": `${needs}; ${NO_PROGRAM}` }[by]
    throw new CniError(Code.PluginNotAvailable, `Cannot ${does()} by ${by}`, { details })
  }
}

/**
 * Calls `act` with a netfilter socket for conntrack: the filter's socket, or a new one without nf_tables. Does nothing
 * if the kernel does not support conntrack over netlink. Throws `NetlinkError`.
 */
export function onFlows(filter: Pick<Filter, "socket"> | undefined, act: (socket: NetlinkSocket) => void): void {
  const actOnce = () => {
    using own = filter ? undefined : openNetfilter()
    const socket = filter?.socket ?? own
    if (socket) act(socket)
  }
  unlessErrno(actOnce, "EINVAL", "EOPNOTSUPP", "EPROTONOSUPPORT", "EAFNOSUPPORT")
}

/** Reports whether a backend is usable. Returns true if the test itself fails, because `add` reports a better error. */
function canUse<Spec>(backend: Pick<RuleBackend<Spec>, "isUsable">, spec: Spec): boolean {
  try {
    return backend.isUsable(spec)
  } catch {
    return true
  }
}
