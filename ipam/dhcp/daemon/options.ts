import { AF_INET, AF_INET6 } from "../../../pkg/types/mod.ts"
import { CLIENT_IDENTIFIER, clientIdOf, DEFAULT_SOCKET, type DhcpConfig, ownClientId } from "../config.ts"
import { makeDuid, usualRequests6 } from "../protocol/message6.ts"
import type { ClientConfig } from "../protocol/types.ts"
import { keyOf, type Subject } from "./journal.ts"

/** The default directory of leases, which the command line may replace. */
export const DEFAULT_STATE = "/var/lib/cni/dhcp"

export interface DaemonOptions {
  readonly socketPath: string
  readonly pidFile: string
  /** The prefix for the paths of the socket, of the directory of leases, and of every namespace. */
  readonly hostPrefix: string
  readonly stateDirectory: string
  readonly broadcast: boolean
  readonly timeoutMs: number
  readonly resendMaxMs: number
  readonly resendTimeoutMs: number
}

export class UsageError extends Error {
  override readonly name = "UsageError"
}

const flags = {
  socketpath: { kind: "text", help: "listen on this Unix socket" },
  pidfile: { kind: "text", help: "write the process' number into this file; an absolute path" },
  hostprefix: { kind: "text", help: "prefix for the paths of the socket, namespaces and leases" },
  statedir: { kind: "text", help: "keep leases in this directory" },
  broadcast: { kind: "switch", help: "ask servers to broadcast their answers" },
  timeout: { kind: "duration", help: "wait this long for the first answer" },
  resendmax: { kind: "duration", help: "wait at most this long between two attempts" },
  resendtimeout: { kind: "duration", help: "give up ADD after this time" },
} as const

const defaults = {
  socketpath: DEFAULT_SOCKET,
  statedir: DEFAULT_STATE,
  timeout: 10_000,
  resendmax: 62_000,
  resendtimeout: 208_000,
} as const

/** Parses the arguments of `dhcp daemon` like Go's package flag: "-x value", "-x=value", "--x". Throws `UsageError`. */
export function parseOptions(args: readonly string[]): DaemonOptions {
  const texts: Record<string, string> = {}
  const times: Record<string, number> = {}
  let broadcast = false
  for (let at = 0; at < args.length; at++) {
    const [, name = "", value] = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(args[at] ?? "") ?? []
    const flag = Object.hasOwn(flags, name) ? flags[name as keyof typeof flags] : undefined
    if (!flag) throw new UsageError(name === "" ? `unexpected argument "${args[at]}"` : `unknown flag -${name}`)
    if (flag.kind === "switch") {
      if (value !== undefined && !/^(true|false|1|0|t|f)$/i.test(value))
        throw invalidValue(name, value, "true or false")
      broadcast = value === undefined || /^[1t]/i.test(value)
      continue
    }
    const given = value ?? args[++at]
    if (given === undefined) throw new UsageError(`flag -${name} needs a value`)
    if (flag.kind === "text") texts[name] = given
    else {
      const ms = parseDuration(given)
      if (ms === undefined) throw invalidValue(name, given, "a duration such as 10s or 1m30s")
      times[name] = ms
    }
  }
  return {
    socketPath: texts.socketpath ?? defaults.socketpath,
    pidFile: texts.pidfile ?? "",
    hostPrefix: texts.hostprefix ?? "",
    stateDirectory: texts.statedir ?? defaults.statedir,
    broadcast,
    timeoutMs: times.timeout ?? defaults.timeout,
    resendMaxMs: times.resendmax ?? defaults.resendmax,
    resendTimeoutMs: times.resendtimeout ?? defaults.resendtimeout,
  }
}

export function usage(): string {
  const lines = Object.entries(flags).map(([name, { help }]) => {
    const value = Object.hasOwn(defaults, name) ? defaults[name as keyof typeof defaults] : undefined
    const shown = typeof value === "number" ? `${value / 1000}s` : value
    return `  -${name}: ${help}${shown === undefined ? "" : ` (default ${shown})`}`
  })
  return ["Usage: dhcp daemon [flags]", ...lines].join("\n")
}

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** Returns the milliseconds of a Go duration like "1m30s"; undefined for other texts, and below one millisecond. */
export function parseDuration(text: string): number | undefined {
  const parts = /^(?:\d+(?:\.\d*)?(?:ms|s|m|h))+$/.test(text) ? text.matchAll(/([\d.]+)(ms|s|m|h)/g) : []
  let total = 0
  for (const [, number = "", unit = ""] of parts) total += Number(number) * (units[unit] ?? 0)
  return total >= 1 ? Math.round(total) : undefined
}

function invalidValue(name: string, value: string, expected: string): UsageError {
  return new UsageError(`invalid value "${value}" for -${name}: expected ${expected}`)
}

export function client6ConfigOf(subject: Subject, options: DaemonOptions, linkLocal: string): ClientConfig {
  const clientId = makeDuid(keyOf(subject))
  const own = { family: AF_INET6, clientId, provide: [], request: usualRequests6, linkLocal } as const
  return { ...clientConfigOf(subject, options), ...own }
}

export function clientConfigOf(subject: Subject, { broadcast, timeoutMs, resendMaxMs }: DaemonOptions): ClientConfig {
  const { config, link } = subject
  return {
    family: AF_INET,
    mac: link.mac,
    clientId: ownClientId(config) ?? clientIdOf(keyOf(subject)),
    provide: config.provide.filter(([code]) => code !== CLIENT_IDENTIFIER),
    request: config.request,
    broadcast: config.broadcast || broadcast,
    probeMs: config.probe ? 1_000 : 0,
    timeoutMs,
    resendMaxMs,
  }
}

/** Returns the timeout of ADD. */
export function patienceMsOf({ timeoutMs }: DhcpConfig, { resendTimeoutMs }: DaemonOptions): number {
  return Math.min(timeoutMs ?? resendTimeoutMs, resendTimeoutMs)
}
