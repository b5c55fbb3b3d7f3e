import { monotonicMs } from "../engine/mod.ts"
import { FLIGHT_FILE, type FlightLine, FlightRecorder, type FlightTrace } from "../flight/mod.ts"
import type { Builtin, Environment, Reply } from "../invoke/mod.ts"
import { randomHex } from "../libc/mod.ts"
import type { Call, Plugin } from "./plugin.ts"
import type { CallIo } from "./serve.ts"

/** The format "00-TRACE-SPAN-FLAGS" of W3C Trace Context. */
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/

/** The record of a running call, if the recorder is on. Wraps the plugin, its input and output to collect data. */
export class Flight {
  readonly #recorder: FlightRecorder
  readonly #env: Environment
  readonly #plugin: string
  readonly #time: string
  readonly #clock: () => number
  readonly #startMs: number
  /** The time at which the plugin was first called. */
  #pluginMs: number | undefined
  #ipamMs: number | undefined
  #network: string | undefined
  #changes: readonly string[] | undefined
  #result = ""

  private constructor(recorder: FlightRecorder, plugin: string, env: Environment, clock: () => number) {
    this.#recorder = recorder
    this.#plugin = plugin
    this.#env = env
    this.#clock = clock
    this.#startMs = clock()
    this.#time = new Date().toISOString()
  }

  /** Starts a record if the recorder is on. Returns undefined if it is off, and for VERSION. Never throws. */
  static begin(plugin: string, env: Environment, file = FLIGHT_FILE, clock = monotonicMs): Flight | undefined {
    const verb = env.CNI_COMMAND ?? ""
    if (verb === "" || verb === "VERSION") return undefined
    const recorder = FlightRecorder.find(file)
    return recorder && new Flight(recorder, plugin, env, clock)
  }

  /** Returns the plugin with functions that record the network, the changes of the host, and the start of each call. */
  watch<C>(plugin: Plugin<C>): Plugin<C> {
    return {
      ...plugin,
      config: (network, call) => {
        this.#network = network.name
        this.#pluginMs = this.#clock()
        return plugin.config(network, call)
      },
      add: (call, config) => {
        const answer: Call["answer"] = (result, undo) => {
          const changes = undo?.changes
          const answered = call.answer(result, undo)
          this.#changes = changes
          return answered
        }
        return plugin.add({ ...call, answer }, config)
      },
    }
  }

  /** Returns `io` with functions that record the result, and the time of plugins in this process (stage "ipam"). */
  watchIo(io: CallIo): CallIo {
    return {
      ...io,
      write: (text) => {
        io.write?.(text)
        this.#result = text
      },
      builtinsOn: (namespace) => {
        const builtins = Object.entries(io.builtinsOn?.(namespace) ?? {})
        return Object.fromEntries(builtins.map(([name, builtin]) => [name, this.#timed(builtin)]))
      },
    }
  }

  #timed(builtin: Builtin): Builtin {
    return (call) => {
      const startMs = this.#clock()
      try {
        return builtin(call)
      } finally {
        this.#ipamMs = (this.#ipamMs ?? 0) + this.#clock() - startMs
      }
    }
  }

  /** Writes the record, after the answer. Never throws, because the call has already been answered. */
  end({ stdout, exitCode }: Reply): void {
    try {
      const endMs = this.#clock()
      const pluginMs = this.#pluginMs ?? endMs
      const stages = { input: round(pluginMs - this.#startMs), plugin: round(endMs - pluginMs) }
      const ipam = this.#ipamMs === undefined ? {} : { ipam: round(this.#ipamMs) }
      const { CNI_COMMAND: verb = "", CNI_CONTAINERID: container, CNI_IFNAME: ifName, CNI_NETNS: netns } = this.#env
      this.#recorder.record({
        time: this.#time,
        plugin: this.#plugin,
        verb,
        network: this.#network,
        container: container || undefined,
        interface: ifName || undefined,
        netns: netns || undefined,
        ms: round(endMs - this.#startMs),
        stages: { ...stages, ...ipam },
        exitCode,
        ...(exitCode === 0 ? { ips: addressesIn(this.#result), changes: this.#changes } : errorIn(stdout)),
        trace: this.#trace(),
      })
    } catch {
      // A lost line must not fail the call.
    } finally {
      this.#recorder[Symbol.dispose]()
    }
  }

  #trace(): FlightTrace | undefined {
    const [, id, parent] = TRACEPARENT.exec(this.#env.TRACEPARENT ?? "") ?? []
    return id === undefined || parent === undefined ? undefined : { id, parent, span: randomHex(8) }
  }
}

/** Rounds milliseconds to microseconds, the resolution of the clock. */
function round(ms: number): number {
  return Math.round(ms * 1000) / 1000
}

/** Returns the addresses in a result of any version. Up to 0.2.0 a result has one address per family. */
function addressesIn(text: string): string[] | undefined {
  if (text === "") return undefined
  const { ips, ip4, ip6 } = JSON.parse(text) as { ips?: { address: string }[]; ip4?: Ip; ip6?: Ip }
  return ips?.map(({ address }) => address) ?? [ip4, ip6].flatMap((each) => each?.ip ?? [])
}

interface Ip {
  ip: string
}

function errorIn(stdout: string): Pick<FlightLine, "code" | "error"> {
  const { code, msg, details } = JSON.parse(stdout) as { code?: number; msg?: string; details?: string }
  return { code, error: [msg, details].filter((part) => part).join("; ") }
}
