import { expect, test } from "bun:test"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { emptyRing, type FlightLine, readRing } from "../flight/mod.ts"
import { Flight } from "./flight.ts"

const env = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0", CNI_NETNS: "/run/netns/c1" }
const result = '{"cniVersion":"1.1.0","ips":[{"address":"192.0.2.7/24"},{"address":"2001:db8::7/64"}]}'
const done = { stdout: "", exitCode: 0 }

/** A directory with an empty ring; `lines` is what it holds then. */
class Ring implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), "cni-skel-test-"))
  readonly path = join(this.#directory, "ring")

  constructor() {
    writeFileSync(this.path, emptyRing())
  }

  begin(variables: Record<string, string>): Flight | undefined {
    return Flight.begin("bridge", variables, this.path)
  }

  get lines(): FlightLine[] {
    return (readRing(readFileSync(this.path)) ?? []).map(({ line }) => line)
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true })
  }
}

/** The line of one call, without what time it took. */
function lineOf(variables: Record<string, string>, fly: (flight: Flight) => void): Partial<FlightLine> {
  using ring = new Ring()
  const flight = ring.begin(variables)
  if (flight) fly(flight)
  const [{ time, ms, ...line } = {} as FlightLine, ...others] = ring.lines
  expect(others).toBeEmpty()
  return line
}

test("the line of an ADD says whose it is, what was given, and what was changed", () => {
  const line = lineOf(env, (flight) => {
    const changes = ["lease addresses"]
    flight.noteResult(result)
    flight.noteChanges(changes)
    changes.push("what comes later")
    flight.end("lab", done)
  })
  expect(line).toEqual({
    plugin: "bridge",
    verb: "ADD",
    network: "lab",
    container: "c1",
    interface: "eth0",
    netns: "/run/netns/c1",
    stages: {},
    exitCode: 0,
    ips: ["192.0.2.7/24", "2001:db8::7/64"],
    changes: ["lease addresses"],
  })
})

test("what a call does not have is not in its line", () => {
  const bare = { plugin: "bridge", verb: "GC", stages: {}, exitCode: 0 }
  const variables = { CNI_COMMAND: "GC", CNI_CONTAINERID: "", CNI_IFNAME: "", CNI_NETNS: "" }
  for (const given of [variables, { CNI_COMMAND: "GC" }])
    expect(lineOf(given, (flight) => flight.end(undefined, done))).toEqual(bare)
})

test.each([
  ['{"ip4":{"ip":"192.0.2.7/24"},"ip6":{"ip":"2001:db8::7/64"}}', ["192.0.2.7/24", "2001:db8::7/64"]],
  ['{"ip6":{"ip":"2001:db8::7/64"}}', ["2001:db8::7/64"]],
  ['{"ip4":{}}', []],
  ['{"ips":[]}', []],
])("the addresses of %s are %j", (text, ips) => {
  const line = lineOf(env, (flight) => {
    flight.noteResult(text)
    flight.end("lab", done)
  })
  expect(line.ips).toEqual(ips)
})

test.each([
  ['{"code":7,"msg":"no","details":"why"}', { code: 7, error: "no; why" }],
  ['{"code":7,"msg":"no"}', { code: 7, error: "no" }],
])("of a call that fails with %s the line has code and text, and neither addresses nor changes", (stdout, told) => {
  const line = lineOf(env, (flight) => {
    flight.noteResult(result)
    flight.noteChanges(["lease addresses"])
    flight.end("lab", { stdout, exitCode: 1 })
  })
  const { plugin, verb, network, container, interface: ifName, netns, stages, ...rest } = line
  expect(rest).toEqual({ exitCode: 1, ...told })
})

test("a valid span of the caller is the parent of one of its own", () => {
  const [id, parent] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"]
  const trace = (TRACEPARENT: string) => lineOf({ ...env, TRACEPARENT }, (flight) => flight.end(undefined, done)).trace
  expect(trace(`00-${id}-${parent}-01`)).toEqual({ id, parent, span: expect.stringMatching(/^[0-9a-f]{16}$/) })
  expect(trace(`00-${id}-${parent}-01`)?.span).not.toBe(trace(`00-${id}-${parent}-01`)?.span as string)
  for (const broken of ["", `00-${id}-${parent}`, `00-${id}-${parent}-01-`, `x00-${id}-${parent}-01`])
    expect(trace(broken)).toBeUndefined()
  for (const [from, to] of [
    ["00-", "0-"],
    ["00-", "g0-"],
    [id, id.slice(1)],
    [id, `g${id.slice(1)}`],
    [parent, parent.slice(1)],
    [parent, `g${parent.slice(1)}`],
    ["-01", "-1"],
    ["-01", "-0g"],
  ] as const)
    expect(trace(`00-${id}-${parent}-01`.replace(from, to))).toBeUndefined()
})

test("the time of each part is added up, also of one that throws, to a microsecond; a part of another is in both", () => {
  using ring = new Ring()
  let nowMs = 1000
  const spend = (ms: number) => {
    nowMs += ms
  }
  const flight = Flight.begin("bridge", env, ring.path, () => nowMs) as Flight
  const ipam = flight.timedBuiltin(({ env: { VALUE }, stdin }) => {
    spend(1.23456)
    return { stdout: `${VALUE} ${stdin.length}`, exitCode: 3 }
  })
  const call = { env: { VALUE: "a" }, stdin: new Uint8Array(5) }
  const replies = flight.timed("plugin", () => {
    spend(20)
    return [ipam(call), ipam(call)]
  })
  expect(replies).toEqual(Array(2).fill({ stdout: "a 5", exitCode: 3 }))
  const failing = () => {
    spend(3)
    throw new Error("on purpose")
  }
  expect(() => flight.timed("input", failing)).toThrow("on purpose")
  spend(0.5)
  flight.end("lab", done)
  expect(ring.lines).toMatchObject([{ ms: 25.969, stages: { plugin: 22.469, ipam: 2.47, input: 3 } }])
})

test("a line begins with the time of day, and its own clock is the system's", () => {
  using ring = new Ring()
  const [began, beganMs] = [Date.now(), performance.now()]
  ring.begin(env)?.end("lab", done)
  const [{ time, ms } = {} as FlightLine] = ring.lines
  expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  expect(Date.parse(time)).toBeWithin(began, Date.now() + 1)
  expect(ms).toBeWithin(0, performance.now() - beganMs + 0.001)
})

test("there is no line for VERSION, for a program without a command, and where the recorder is off", () => {
  using ring = new Ring()
  for (const variables of [{ CNI_COMMAND: "VERSION" }, { CNI_COMMAND: "" }, {}] as Record<string, string>[])
    expect(ring.begin(variables)).toBeUndefined()
  expect(Flight.begin("bridge", env, `${ring.path}-not`)).toBeUndefined()
})

test("an answer that cannot be read is a line that is lost, no failure, and nothing stays open", () => {
  const open = () => readdirSync("/proc/self/fd").length
  const before = open()
  expect(lineOf(env, (flight) => flight.end("lab", { stdout: "oops", exitCode: 1 }))).toEqual({})
  expect(open()).toBe(before)
})
