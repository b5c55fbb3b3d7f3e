import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { engine } from "../../../pkg/engine/mod.ts"
import { parseDhcpConfig } from "../config.ts"
import { createClient } from "../protocol/client.ts"
import type { ClientState } from "../protocol/types.ts"
import { Clients } from "./clients.ts"
import { Deadlines } from "./deadlines.ts"
import { Journal, keyOf, type LeaseRecord } from "./journal.ts"
import { clientConfigOf, parseDuration, parseOptions, UsageError } from "./options.ts"

let directory = ""
beforeEach(() => {
  directory = join(mkdtempSync("/tmp/dhcp-journal-"), "leases")
})
afterEach(() => rmSync(join(directory, ".."), { recursive: true }))

const config = parseDhcpConfig({ ipam: {} }, "")
const link = { name: "eth0", index: 2, mac: "0a:00:00:00:00:01" }

function record(containerId: string): LeaseRecord {
  const namespace = { path: "/run/netns/a", identity: "0:4:1" }
  const subject = { containerId, network: "net", ifName: "eth0", namespace, link, config }
  const clients = [createClient(clientConfigOf(subject, parseOptions([])))]
  return { version: 1, bootId: "boot", writtenAt: 1_000_000, clock: 500, ...subject, progress: "held", clients }
}

function open(): Journal {
  const journal = new Journal(directory)
  journal.tryLock()?.[Symbol.dispose]()
  return journal
}

describe("the journal", () => {
  test("has the last record of a key, until it is removed", () => {
    const journal = open()
    for (const id of ["a", "b", "a"]) journal.write(record(id), id === "a")
    journal.write({ ...record("a"), progress: "releasing" }, true)
    const listed = journal.list(() => {})
    expect(new Map(listed.map((each) => [keyOf(each), each.progress]))).toEqual(
      new Map([
        ["a/net/eth0", "releasing"],
        ["b/net/eth0", "held"],
      ]),
    )
    expect(listed.find(({ containerId }) => containerId === "b")).toEqual(JSON.parse(JSON.stringify(record("b"))))
    journal.remove("a/net/eth0")
    journal.remove("a/net/eth0")
    expect(journal.list(() => {}).map(keyOf)).toEqual(["b/net/eth0"])
  })

  test("has a record on the disk when a durable write returns, under its name", () => {
    const calls = engine as { fsync: typeof engine.fsync }
    const { fsync } = calls
    let syncs = 0
    calls.fsync = (fd) => {
      syncs++
      return fsync(fd)
    }
    try {
      const journal = open()
      journal.write(record("a"), false)
      expect(syncs).toBe(0)
      journal.write(record("a"), true)
      expect(syncs).toBe(2) // one of the file and one of the directory
    } finally {
      calls.fsync = fsync
    }
  })

  test("has one writer, and a reader does not create it", () => {
    expect(new Journal(directory).exists).toBe(false)
    expect(existsSync(directory)).toBe(false)
    const journal = new Journal(directory)
    using lock = journal.tryLock()
    expect(lock).toBeDefined()
    expect(new Journal(directory).tryLock()).toBeUndefined()
    expect(journal.exists).toBe(true)
  })

  // rename(2) leaves a complete file or none. A full disk or another program may leave a file that ends anywhere.
  test("passes over a file that is cut at any byte, changed or of another key, and says so", () => {
    const journal = open()
    journal.write(record("a"), false)
    const [name = ""] = readdirSync(directory).filter((each) => each.endsWith(".json"))
    const whole = readFileSync(join(directory, name))
    for (let length = 0; length < whole.length - 1; length += 7) {
      truncateSync(join(directory, name), length)
      const said: string[] = []
      expect(journal.list((line) => said.push(line))).toEqual([])
      expect(said).toEqual([expect.stringContaining(`Cannot read the lease in "${directory}/${name}"`)])
      writeFileSync(join(directory, name), whole)
    }
    writeFileSync(join(directory, name), JSON.stringify({ ...record("b") }))
    expect(journal.list(() => {})).toEqual([])
    writeFileSync(join(directory, name), JSON.stringify({ ...record("a"), clients: [{}] }))
    expect(journal.list(() => {})).toEqual([])
  })

  test("loses the temporary files of killed writers by a sweep, and nothing else", () => {
    const journal = open()
    journal.write(record("a"), false)
    const [name = ""] = readdirSync(directory).filter((each) => each.endsWith(".json"))
    writeFileSync(join(directory, `.${name}`), "{")
    writeFileSync(join(directory, "of-others"), "")
    journal.sweep()
    expect(readdirSync(directory).sort()).toEqual([name, "lock", "of-others"].sort())
  })
})

test("states are the same before and after they are parked", () => {
  const {
    clients: [client],
  } = record("a")
  const states = [{ ...client, deadline: 7 } as ClientState]
  const clients = new Clients(states, 1, 0)
  const moment = { now: 0, random: () => 0.5 }
  expect([clients.due, clients.states]).toEqual([7, states])
  const step = clients.advance(0, { kind: "start" }, moment)
  expect([step?.before, clients.states, clients.areListening]).toEqual([states[0], [step?.state], true] as never)
  const { due, states: live } = clients
  clients.park()
  expect([clients.due, clients.states, clients.areListening]).toEqual([due, live, false])
})

test("deadlines are taken in their order, not in that of adding", () => {
  const timers = new Deadlines<number>()
  const times = Array.from({ length: 200 }, (_, at) => (at * 7919) % 211)
  for (const time of times) timers.add(time, time)
  expect(timers.next).toBe(Math.min(...times))
  const taken: number[] = []
  for (let what = timers.take(150); what !== undefined; what = timers.take(150)) taken.push(what)
  expect(taken).toEqual(times.filter((time) => time <= 150).sort((a, b) => a - b))
  expect(timers.size).toBe(times.length - taken.length)
  expect(new Deadlines().take(1e9)).toBeUndefined()
})

describe("the command line", () => {
  test("has upstream's defaults, and its flags in all their forms", () => {
    expect(parseOptions([])).toEqual({
      socketPath: "/run/cni/dhcp.sock",
      pidFile: "",
      hostPrefix: "",
      stateDirectory: "/var/lib/cni/dhcp",
      broadcast: false,
      timeoutMs: 10_000,
      resendMaxMs: 62_000,
      resendTimeoutMs: 208_000,
    })
    const flags = ["-pidfile", "/a", "--hostprefix=/host", "-broadcast", "-timeout=1m30s", "--resendmax", "500ms"]
    expect(parseOptions([...flags, "-resendtimeout", "1.5h", "-socketpath=/b", "-statedir", "/c"])).toEqual({
      socketPath: "/b",
      pidFile: "/a",
      hostPrefix: "/host",
      stateDirectory: "/c",
      broadcast: true,
      timeoutMs: 90_000,
      resendMaxMs: 500,
      resendTimeoutMs: 5_400_000,
    })
    expect(parseOptions(["-broadcast=false"]).broadcast).toBe(false)
  })

  test.each(["-x", "word", "-timeout", "-timeout 10", "-broadcast=maybe", "---timeout=1s"])("%s is refused", (line) => {
    expect(() => parseOptions(line.split(" "))).toThrow(UsageError)
  })

  test.each([
    ["0s", undefined],
    ["-1s", undefined],
    ["1s 2s", undefined],
    ["1h2m3s4ms", 3_723_004],
    [".5s", undefined],
  ])("%s as a duration is %j", (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })
})
