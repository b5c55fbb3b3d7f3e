import { Bus, DbusError } from "../../pkg/dbus/mod.ts"
import { CniError, Code, orCannot } from "../../pkg/types/mod.ts"

const NAME = "org.fedoraproject.FirewallD1"
const ZONES = { destination: NAME, path: "/org/fedoraproject/FirewallD1", interface: `${NAME}.zone` }

/** The part of a bus connection that is used. */
type Connection = Pick<Bus, "hasOwner" | "call" | typeof Symbol.dispose>

/**
 * The zones of firewalld, over the system bus: packets from an address that is a source of a zone get the zone's
 * treatment.
 */
export class Firewalld implements Disposable {
  readonly #bus: Connection

  /** For a bus with firewalld on it. */
  constructor(bus: Connection) {
    this.#bus = bus
  }

  /**
   * Returns undefined if firewalld does not run, or there is no bus. Throws `CniError` if the bus refuses the
   * connection.
   */
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
   * Adds a source, "10.1.0.2/32", to a zone, like `firewall-cmd --zone=ZONE --add-source=SOURCE`. Throws `CniError`.
   */
  addSource(zone: string, source: string): void {
    try {
      this.#call("addSource", zone, source)
    } catch (error) {
      if (isRefusal(error, "ZONE_ALREADY_SET", "ALREADY_ENABLED")) return // by an earlier ADD, or by the administrator
      throw new CniError(Code.Internal, `Cannot add the address ${source} to zone "${zone}" of firewalld`, {
        cause: error,
      })
    }
  }

  /** Reverses `addSource`. A missing source or zone is not an error. Throws `CniError`. */
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
   * Throws `DbusError` with the first line of firewalld's message; the other lines are the whole rule set that it sent
   * to the kernel.
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

/**
 * Whether firewalld could not change the kernel's rules, for example after a flush by others: the error of one of its
 * methods.
 */
export function isCommandFailed(error: unknown): boolean {
  return error instanceof CniError && isRefusal(error.cause, "COMMAND_FAILED")
}

/** firewalld's errors begin with their kind: "ZONE_ALREADY_SET: '10.1.0.2/32' already bound to 'trusted'". */
function isRefusal(error: unknown, ...kinds: string[]): boolean {
  return error instanceof DbusError && kinds.some((kind) => error.message.includes(kind))
}
