import { Bus, DbusError } from "../../pkg/dbus/mod.ts"
import { CniError, Code, orCannot } from "../../pkg/types/mod.ts"

const NAME = "org.fedoraproject.FirewallD1"
const ZONES = { destination: NAME, path: "/org/fedoraproject/FirewallD1", interface: `${NAME}.zone` }

type Connection = Pick<Bus, "hasOwner" | "call" | typeof Symbol.dispose>

/** A client of firewalld's zones over the system bus. The rules of a zone apply to packets from the zone's sources. */
export class Firewalld implements Disposable {
  readonly #bus: Connection

  /** `bus` must have firewalld on it, see `find`. */
  constructor(bus: Connection) {
    this.#bus = bus
  }

  /** Connects to firewalld; undefined if it does not run or there is no bus. Throws `CniError` if the bus refuses. */
  static find(findBus: () => Connection | undefined = () => Bus.findSystem()): Firewalld | undefined {
    let bus: Connection | undefined
    try {
      bus = findBus()
      if (bus?.hasOwner(NAME)) return new Firewalld(bus)
      bus?.[Symbol.dispose]()
      return undefined
    } catch (cause) {
      bus?.[Symbol.dispose]()
      throw new CniError(Code.Internal, "Cannot query the system bus for firewalld", { cause })
    }
  }

  /**
   * Adds a source, such as "10.1.0.2/32", to a zone, like `firewall-cmd --zone=ZONE --add-source=SOURCE`. A source that
   * the zone already has is not an error. Throws `CniError`.
   */
  addSource(zone: string, source: string): void {
    try {
      this.#call("addSource", zone, source)
    } catch (error) {
      if (isRefusal(error, "ZONE_ALREADY_SET", "ALREADY_ENABLED")) return // an earlier ADD or the administrator has added it
      throw new CniError(Code.Internal, `Cannot add the address ${source} to zone "${zone}" of firewalld`, {
        cause: error,
      })
    }
  }

  /** Removes a source from a zone. A missing source or zone is not an error. Throws `CniError`. */
  removeSource(zone: string, source: string): void {
    try {
      this.#call("removeSource", zone, source)
    } catch (error) {
      if (isRefusal(error, "UNKNOWN_SOURCE", "NOT_ENABLED", "ZONE_CONFLICT", "INVALID_ZONE")) return
      const what = `Cannot remove the address ${source} from zone "${zone}" of firewalld`
      throw new CniError(Code.Internal, what, { cause: error })
    }
  }

  /** Returns the sources of a zone, like `firewall-cmd --zone=ZONE --list-sources`. Throws `CniError`. */
  listSources(zone: string): string[] {
    const refusal = `Cannot list the sources of zone "${zone}" of firewalld`
    const [sources] = orCannot(refusal, () => this.#call("getSources", zone))
    return Array.isArray(sources) ? sources : []
  }

  /**
   * Calls a method of firewalld. The `DbusError` has only the first line of firewalld's message, because the other
   * lines are the whole rule set that firewalld sent to the kernel.
   */
  #call(member: string, ...args: string[]) {
    try {
      return this.#bus.call({ ...ZONES, member, args })
    } catch (error) {
      if (!(error instanceof DbusError)) throw error
      throw new DbusError(error.message.split("\n", 1).join(), error.errorName)
    }
  }

  [Symbol.dispose](): void {
    this.#bus[Symbol.dispose]()
  }
}

/** Reports whether `addSource` failed to change the kernel's rules, for example after another program's flush. */
export function isCommandFailed(error: unknown): boolean {
  return error instanceof CniError && isRefusal(error.cause, "COMMAND_FAILED")
}

/**
 * Reports whether an error is of one of these `kinds`, such as "ZONE_ALREADY_SET". firewalld's messages begin with the
 * kind.
 */
function isRefusal(error: unknown, ...kinds: string[]): boolean {
  return error instanceof DbusError && kinds.some((kind) => error.message.includes(kind))
}
