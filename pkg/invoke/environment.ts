import { CniError, Code } from "../types/mod.ts"
import type { Environment } from "./exec.ts"

/** The variables that a runtime passes to a plugin. A variable that the operation does not use is "". */
export interface CniVariables {
  command: string
  containerId: string
  netns: string
  ifName: string
  /** `CNI_ARGS`, as formatted by `formatCniArgs`. */
  args: string
  /** `CNI_PATH`, absolute directories joined with ":". */
  path: string
}

/** The caller's trace span: W3C Trace Context and W3C Baggage, as header values. */
export interface TraceContext {
  traceparent: string
  tracestate?: string
  baggage?: string
}

/**
 * Returns the whole environment of a plugin: the caller's own environment with these `CNI_*` variables. A valid trace
 * context sets `TRACEPARENT`, `TRACESTATE` and `BAGGAGE` together, because they belong to one trace.
 */
export function pluginEnvironment(own: Environment, variables: CniVariables, trace?: TraceContext): Environment {
  return {
    ...own,
    CNI_COMMAND: variables.command,
    CNI_CONTAINERID: variables.containerId,
    CNI_NETNS: variables.netns,
    CNI_IFNAME: variables.ifName,
    CNI_ARGS: variables.args,
    CNI_PATH: variables.path,
    ...(trace && isTraceparent(trace.traceparent) ? traceVariables(trace) : {}),
  }
}

/** Formats pairs as "KEY1=VALUE1;KEY2=VALUE2". There are no escapes: ";" or "=" in a key or value throws code 4. */
export function formatCniArgs(pairs: readonly (readonly [key: string, value: string])[]): string {
  for (const [key, value] of pairs) {
    if (key !== "" && !/[;=\0]/.test(key + value)) continue
    throw new CniError(
      Code.InvalidEnvironment,
      `Cannot pass ${JSON.stringify(`${key}=${value}`)} in CNI_ARGS: neither key nor value can hold ";" or "="`,
    )
  }
  return pairs.map(([key, value]) => `${key}=${value}`).join(";")
}

/** Reports whether a text is a traceparent: version, trace ID, span ID, flags. IDs of zeros are invalid. */
function isTraceparent(text: string): boolean {
  return /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/.test(text)
}

function traceVariables({ traceparent, tracestate, baggage }: TraceContext): Environment {
  return { TRACEPARENT: traceparent, TRACESTATE: tracestate || undefined, BAGGAGE: baggage || undefined }
}
