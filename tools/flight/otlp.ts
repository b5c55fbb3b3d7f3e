import { version } from "../../package.json"
import { sha256 } from "../../pkg/engine/mod.ts"
import type { Numbered } from "../../pkg/flight/mod.ts"

/** `SPAN_KIND_INTERNAL`, `STATUS_CODE_OK` and `STATUS_CODE_ERROR` of opentelemetry-proto, trace.proto. */
const KIND_INTERNAL = 1
const STATUS = { ok: 1, error: 2 } as const

type Attribute = { key: string; value: { stringValue: string } | { intValue: string } | { doubleValue: number } }

/** Returns the lines as an ExportTraceServiceRequest in the JSON encoding of OTLP, with a span for each line. */
export function otlpOf(lines: readonly Numbered[], host: string) {
  const resource = { attributes: [attribute("service.name", "cni"), attribute("host.name", host)] }
  const scope = { name: "cni-plugins", version }
  return { resourceSpans: [{ resource, scopeSpans: [{ scope, spans: lines.map(spanOf) }] }] }
}

function spanOf({ sequence, line }: Numbered) {
  const startMs = Date.parse(line.time)
  // A call without a parent begins a trace of its own. IDs are a hash, so that repeated exports have the same ones.
  const own = sha256(`${sequence} ${line.time} ${line.plugin} ${line.verb} ${line.container}`)
  const { trace = { id: own.slice(0, 32), span: own.slice(32, 48), parent: undefined } } = line
  const named = {
    "cni.plugin": line.plugin,
    "cni.verb": line.verb,
    "cni.network": line.network,
    "container.id": line.container,
    "cni.interface": line.interface,
    "cni.netns": line.netns,
    "cni.addresses": line.ips?.join(","),
    "cni.changes": line.changes?.join("; "),
    "cni.error.code": line.code,
    ...Object.fromEntries(Object.entries(line.stages ?? {}).map(([stage, ms]) => [`cni.stage.${stage}.ms`, ms])),
  }
  return {
    traceId: trace.id,
    spanId: trace.span,
    ...(trace.parent === undefined ? {} : { parentSpanId: trace.parent }),
    name: `${line.plugin} ${line.verb}`,
    kind: KIND_INTERNAL,
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(startMs + line.ms),
    attributes: Object.entries(named).flatMap(([key, value]) => (value === undefined ? [] : [attribute(key, value)])),
    status: line.exitCode === 0 ? { code: STATUS.ok } : { code: STATUS.error, message: line.error ?? "" },
  }
}

/** Returns nanoseconds as text, because the JSON encoding of OTLP represents 64-bit integers as text. */
function nanoseconds(ms: number): string {
  return String(BigInt(Math.round(ms * 1000)) * 1000n)
}

function attribute(key: string, value: string | number): Attribute {
  if (typeof value === "string") return { key, value: { stringValue: value } }
  return Number.isInteger(value) ? { key, value: { intValue: String(value) } } : { key, value: { doubleValue: value } }
}
