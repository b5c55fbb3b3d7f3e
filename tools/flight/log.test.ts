import { describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { hostname, tmpdir } from "node:os"
import { join } from "node:path"
import { cni } from "../../cmd/cni/main.ts"
import { emptyRing, encodeLine, type FlightLine, SLOT_BYTES } from "../../pkg/flight/mod.ts"
import { recordingTerminal } from "../testing.ts"
import { otlpOf } from "./otlp.ts"

const lineOf = (more: Partial<FlightLine> = {}): FlightLine => ({
  time: "2026-01-02T03:04:05.678Z",
  plugin: "bridge",
  verb: "ADD",
  exitCode: 0,
  ms: 3,
  ...more,
})
const whole = lineOf({
  network: "pods",
  container: "c1abc",
  interface: "eth0",
  netns: "/run/netns/x",
  ms: 12.34,
  ips: ["10.85.0.2/24", "fd00::2/64"],
  changes: ["create veth", "lease addresses"],
  stages: { plugin: 2.5, input: 1 },
})
const failed = lineOf({
  plugin: "ptp",
  verb: "DEL",
  network: "lan",
  container: "abc1",
  exitCode: 1,
  code: 11,
  error: "no room",
})
const ended = lineOf({ verb: "CHECK", exitCode: 2 })

function ringOf(lines: readonly FlightLine[]): Uint8Array {
  const ring = emptyRing()
  for (const [at, line] of lines.entries()) ring.set(encodeLine(line, at, SLOT_BYTES), SLOT_BYTES * (1 + at))
  return ring
}

/** Creates a directory with a ring of these lines. Disposal deletes it. */
function ringFile(content: Uint8Array | string) {
  const directory = mkdtempSync(join(tmpdir(), "cni-log-"))
  const file = join(directory, "ring")
  writeFileSync(file, content)
  return { file, [Symbol.dispose]: () => rmSync(directory, { recursive: true }) }
}

async function log(content: Uint8Array | string, args: string[], columns?: number) {
  using ring = ringFile(content)
  const terminal = recordingTerminal({}, true, { columns, colour: columns !== undefined })
  const code = await cni(["log", "--file", ring.file, ...args], terminal)
  return { code, out: terminal.out, err: terminal.err.replace(ring.file, "FILE") }
}
const three = ringOf([whole, failed, ended])

test("calls are a table for people: when, what, whose, how long, and what came of it", async () => {
  expect(await log(three, [])).toEqual({
    code: 0,
    out: `TIME                VERB   PLUGIN  NETWORK  CONTAINER  INTERFACE  TOOK     OUTCOME
01-02 03:04:05.678  ADD    bridge  pods     c1abc      eth0       12.3 ms  ok: 10.85.0.2/24, fd00::2/64: create veth; lease addresses
01-02 03:04:05.678  DEL    ptp     lan      abc1       -          3.0 ms   failed (11): no room
01-02 03:04:05.678  CHECK  bridge  -        -          -          3.0 ms   failed (2):
`,
    err: "",
  })
  const { out } = await log(ringOf([lineOf(), failed]), [], 200)
  expect(out).toContain("\x1b[1mOUTCOME\x1b[0m\n")
  expect(out).toContain("  ok\n")
  expect(out).toEndWith("\x1b[31;1mfailed (11): no room\x1b[0m\n")
})

test("for programs they are JSON, one object a line, with their number", async () => {
  const { out } = await log(three, ["-o", "json"])
  expect(out).toBe([whole, failed, ended].map((line, seq) => `${JSON.stringify({ seq, ...line })}\n`).join(""))
  expect((await log(three, ["--json"])).out).toBe(out)
})

test.each([
  [["--container", "c1"], [0]],
  [["--container", "abc"], [1]],
  [["--network", "lan"], [1]],
  [["--failed"], [1, 2]],
  [["--failed", "--network", "pods"], []],
])("%j chooses of the calls", async (args, numbers) => {
  const { code, out } = await log(three, [...args, "--json"])
  const found = out
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line).seq)
  expect({ code, found }).toEqual({ code: 0, found: numbers })
})

test("a ring without calls, no ring, and a file that is not a ring", async () => {
  expect(await log(emptyRing(), [])).toEqual({ code: 0, out: "No calls\n", err: "" })
  expect(await log(emptyRing(), ["--no-headers"])).toEqual({ code: 0, out: "", err: "" })
  expect(await log(emptyRing(), ["--json"])).toEqual({ code: 0, out: "", err: "" })
  expect(await log("x".repeat(5000), [])).toEqual({
    code: 1,
    out: "",
    err: `cni log: Cannot read "FILE": it is not a flight recorder's file\n`,
  })
  const terminal = recordingTerminal({})
  expect(await cni(["log", "--file", "/does/not/exist"], terminal)).toBe(1)
  expect(terminal.err).toBe('cni log: Cannot read the calls: the flight recorder is off; "cni recorder on" starts it\n')
  const unreadable = recordingTerminal({})
  expect(await cni(["log", "--file", "/"], unreadable)).toBe(1)
  expect(unreadable.err).toBe('cni log: read "/": Is a directory (EISDIR)\n')
})

test("--follow goes on with the calls that come, until it is interrupted", async () => {
  using ring = ringFile(ringOf([whole]))
  const interrupted = new AbortController()
  const said: string[] = []
  const stdout = (text: string | Uint8Array) => {
    said.push(String(text))
    if (said.length === 1) writeFileSync(ring.file, three)
    else if (said.length === 2) writeFileSync(ring.file, ringOf([whole, failed, ended, whole]))
    else interrupted.abort()
  }
  const terminal = { ...recordingTerminal({}), stdout, signal: interrupted.signal }
  expect(await cni(["log", "--follow", "--json", "--file", ring.file], terminal)).toBe(0)
  expect(said.map((text) => text.split("\n").flatMap((line) => (line === "" ? [] : JSON.parse(line).seq)))).toEqual([
    [0],
    [1, 2],
    [3],
  ])
})

describe("spans for OpenTelemetry", () => {
  const spansOf = (...lines: FlightLine[]) => {
    const [resource] = otlpOf(
      lines.map((line, sequence) => ({ sequence, line })),
      "node1",
    ).resourceSpans
    return resource?.scopeSpans[0]?.spans ?? []
  }

  // opentelemetry-proto, trace.proto in its JSON encoding: 64-bit integers are texts; kind 1 is internal, status 1 is
  // OK, 2 an error.
  test("have the times, ids and attributes of the call", () => {
    const trace = { id: "0af7651916cd43dd8448eb211c80319c", span: "00f067aa0ba902b7", parent: "b7ad6b7169203331" }
    expect(spansOf({ ...whole, trace })).toStrictEqual([
      {
        traceId: trace.id,
        spanId: trace.span,
        parentSpanId: trace.parent,
        name: "bridge ADD",
        kind: 1,
        startTimeUnixNano: "1767323045678000000",
        endTimeUnixNano: "1767323045690340000",
        attributes: [
          { key: "cni.plugin", value: { stringValue: "bridge" } },
          { key: "cni.verb", value: { stringValue: "ADD" } },
          { key: "cni.network", value: { stringValue: "pods" } },
          { key: "container.id", value: { stringValue: "c1abc" } },
          { key: "cni.interface", value: { stringValue: "eth0" } },
          { key: "cni.netns", value: { stringValue: "/run/netns/x" } },
          { key: "cni.addresses", value: { stringValue: "10.85.0.2/24,fd00::2/64" } },
          { key: "cni.changes", value: { stringValue: "create veth; lease addresses" } },
          { key: "cni.stage.plugin.ms", value: { doubleValue: 2.5 } },
          { key: "cni.stage.input.ms", value: { intValue: "1" } },
        ],
        status: { code: 1 },
      },
    ])
  })

  test("without a parent are traces of their own, the same when asked again", () => {
    const [first, second] = spansOf(lineOf(), lineOf())
    expect(first?.traceId).toMatch(/^[0-9a-f]{32}$/)
    expect(first?.spanId).toMatch(/^[0-9a-f]{16}$/)
    expect(first).not.toHaveProperty("parentSpanId")
    expect(first?.traceId.slice(0, 16)).not.toBe(first?.spanId ?? "")
    expect(first?.traceId).not.toBe(second?.traceId ?? "")
    expect(spansOf(lineOf())).toEqual([first] as never)
    const others = [
      lineOf({ plugin: "ptp" }),
      lineOf({ verb: "DEL" }),
      lineOf({ container: "c2" }),
      lineOf({ time: "2026-01-02T03:04:05.679Z" }),
    ]
    const ids = [lineOf(), ...others].map((line) => spansOf(line)[0]?.traceId)
    expect(new Set(ids).size).toBe(5)
  })

  test("of calls that failed have the error and its code", () => {
    const [span, bare] = spansOf(failed, ended)
    expect(span?.status).toEqual({ code: 2, message: "no room" })
    expect(span?.attributes).toContainEqual({ key: "cni.error.code", value: { intValue: "11" } })
    expect(bare?.status).toEqual({ code: 2, message: "" })
  })

  test("are printed as one request, with the host they are of", async () => {
    const { resourceSpans } = JSON.parse((await log(three, ["--otlp", "--failed"])).out)
    expect(resourceSpans).toHaveLength(1)
    expect(resourceSpans[0].resource.attributes).toEqual([
      { key: "service.name", value: { stringValue: "cni" } },
      { key: "host.name", value: { stringValue: hostname() } },
    ])
    expect(resourceSpans[0].scopeSpans).toMatchObject([
      { scope: { name: "cni-plugins", version: expect.stringMatching(/^\d/) } },
    ])
    expect(resourceSpans[0].scopeSpans[0].spans.map(({ name }: { name: string }) => name)).toEqual([
      "ptp DEL",
      "bridge CHECK",
    ])
  })
})
