import { expect, test } from "bun:test"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { emptyRing, type FlightLine, readRing } from "../flight/mod.ts"
import { PluginDirectory } from "../invoke/directory.fixture.ts"
import type { Builtins, Reply } from "../invoke/mod.ts"
import { CniError, type Result } from "../types/mod.ts"
import { Flight } from "./flight.ts"
import { oneAddress, Recorder } from "./plugin.fixture.ts"
import { type Call, definePlugin, type Plugin } from "./plugin.ts"
import { serve } from "./serve.ts"

const env = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0", CNI_NETNS: "/run/netns/not-there" }
const result: Result = {
  ...oneAddress,
  ips: [{ address: "192.0.2.7/24" }, { address: "2001:db8::7/64" }],
}
const done = { stdout: "", exitCode: 0 }
const stages = { input: expect.any(Number), plugin: expect.any(Number) }

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

type Lines = Partial<FlightLine>

interface Watched {
  plugin?: Partial<Plugin<unknown>>
  stdin?: object
  builtins?: Builtins
}

/** Serves a call like a process, with the flight recorder. */
function fly(
  flight: Flight,
  variables: Record<string, string>,
  { plugin = {}, stdin = {}, builtins = {} }: Watched = {},
): Reply {
  const config = { cniVersion: "1.0.0", name: "lab", ...stdin }
  const bridge = { ...new Recorder({ result }).plugin, name: "bridge", ...plugin } as Plugin<unknown>
  const reply = serve(
    flight.watch(bridge),
    flight.watchIo({
      env: { CNI_PATH: "/bin", ...variables },
      stdin: () => new TextEncoder().encode(JSON.stringify(config)),
      log() {},
      write() {},
      builtinsOn: () => builtins,
    }),
  )
  flight.end(reply)
  return reply
}

/** Returns the line of one call, without its duration. */
function lineOf(variables: Record<string, string>, watched?: Watched): Lines {
  using ring = new Ring()
  const flight = ring.begin(variables)
  if (flight) fly(flight, variables, watched)
  const [{ time, ms, ...line } = {} as FlightLine, ...others] = ring.lines
  expect(others).toBeEmpty()
  return line
}

test("the line of an ADD names its owner, what was given, and what was changed", () => {
  const changes = ["lease addresses"]
  const keep = () => void changes.splice(0)
  const line = lineOf(env, { plugin: { add: (call) => call.answer(result, { keep, changes: [...changes] }) } })
  expect(line).toEqual({
    plugin: "bridge",
    verb: "ADD",
    network: "lab",
    container: "c1",
    interface: "eth0",
    netns: "/run/netns/not-there",
    stages,
    exitCode: 0,
    ips: ["192.0.2.7/24", "2001:db8::7/64"],
    changes: ["lease addresses"],
  })
})

test("what a call does not have is not in its line", () => {
  const bare = { plugin: "bridge", verb: "GC", stages, exitCode: 0 }
  for (const variables of [
    { CNI_COMMAND: "GC", CNI_CONTAINERID: "", CNI_IFNAME: "", CNI_NETNS: "" },
    { CNI_COMMAND: "GC" },
  ])
    expect(lineOf(variables, { stdin: { cniVersion: "1.1.0" } })).toEqual(bare)
})

test("the addresses of results of every version are in it", () => {
  for (const cniVersion of ["0.2.0", "0.4.0", "1.1.0"])
    expect(lineOf(env, { stdin: { cniVersion } }).ips).toEqual(["192.0.2.7/24", "2001:db8::7/64"])
})

test.each([
  ["why", { code: 7, error: "no; why" }],
  ["", { code: 7, error: "no" }],
])(
  "of a call that fails with details %j the line has code and text, and neither addresses nor changes",
  (details, expected) => {
    const add = (call: Call) => {
      call.answer(result, { keep() {}, changes: ["lease addresses"] })
      return undefined as never
    }
    const refuse = () => {
      throw new CniError(7, "no", { details })
    }
    expect(lineOf(env, { plugin: { config: refuse } })).toMatchObject({ network: "lab", exitCode: 1, ...expected })
    const line = lineOf(env, { plugin: { add } })
    expect(line).toMatchObject({ exitCode: 1, code: 999 })
    expect([line.ips, line.changes]).toEqual([undefined, undefined])
  },
)

test("a valid span of the caller is the parent of one of its own", () => {
  const [id, parent] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"]
  const trace = (TRACEPARENT: string) => lineOf({ ...env, TRACEPARENT }).trace
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

test("the time before the plugin and of it is told to a microsecond; that of one in its process is in both", () => {
  using ring = new Ring()
  using directory = new PluginDirectory()
  directory.ownPlugin("exe", "exe")
  let nowMs = 1000
  const spend = (ms: number) => {
    nowMs += ms
  }
  const flight = Flight.begin("bridge", env, ring.path, () => nowMs) as Flight
  const bridge = definePlugin({
    ...new Recorder().plugin,
    config: () => ({ fromConfig: spend(20) }),
    check(call) {
      call.delegate.check("exe")
      expect(() => call.delegate.check("exe")).toThrow("on purpose")
    },
  })
  let calls = 0
  const exe = () => {
    spend(1.23456)
    if (calls++ > 0) throw new Error("on purpose")
    return { stdout: "", exitCode: 0 }
  }
  const reply = serve(
    flight.watch(bridge),
    flight.watchIo({
      env: { ...env, CNI_COMMAND: "CHECK", CNI_PATH: directory.path },
      stdin() {
        spend(3)
        return new TextEncoder().encode('{"cniVersion":"1.0.0","name":"lab"}')
      },
      log() {},
      builtinsOn: () => ({ exe }),
    }),
  )
  spend(0.5)
  flight.end(reply)
  expect(ring.lines).toMatchObject([{ ms: 25.969, stages: { input: 3, plugin: 22.969, ipam: 2.469 } }])
})

test("a line begins with the time of day, and its own clock is the system's", () => {
  using ring = new Ring()
  const [began, beganMs] = [Date.now(), performance.now()]
  ring.begin(env)?.end(done)
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
  {
    using ring = new Ring()
    ring.begin(env)?.end({ stdout: "oops", exitCode: 1 })
    expect(ring.lines).toEqual([])
  }
  expect(open()).toBe(before)
})
