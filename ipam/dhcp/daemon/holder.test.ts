/** Tests of a holder without a kernel: the link and the server at the link's other end are fakes. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { join } from "node:path"
import type { Result } from "../../../pkg/types/mod.ts"
import { parseDhcpConfig } from "../config.ts"
import { answer4, readSent } from "../protocol/testing/link.ts"
import type { Change, ClientConfig } from "../protocol/types.ts"
import type { ContainerLink, Environment } from "./environment.ts"
import { Holder } from "./holder.ts"
import { Journal, NoLinkError } from "./journal.ts"
import { parseOptions } from "./options.ts"
import { Service } from "./service.ts"

const owner = { containerId: "box", network: "net", ifName: "eth0" }
const record = {
  namespace: { path: "/run/netns/box", identity: "4:7" },
  link: { name: "eth0", index: 2, mac: "0a:58:0a:01:02:03" },
}
const names: Record<string, string> = { "01": "DISCOVER", "03": "REQUEST", "07": "RELEASE" }
const [OFFER, ACK, NAK] = [2, 5, 6]
/** Half an hour minus a 64th of it. */
const T1 = 1_771_875

let directory: string
/** The events so far, in order: frames, records, changes of the interface, and results of ADD. */
let events: string[]
let now: number
let link: FakeLink
let env: Environment

/** A link that records the sent frames. The test gives it the server's answers. */
class FakeLink implements ContainerLink {
  readonly record = record
  isGone = false
  checkAt: number | undefined = 1_002_000
  passesFrames = true
  linkLocal = undefined
  mac = record.link.mac
  descriptors = []
  #received: Uint8Array[] = []
  #last: Pick<ClientConfig, "mac"> & { xid: number } = { mac: "", xid: 0 }

  exists = () => !this.isGone
  setUp = () => void events.push("up") as never
  setDown = () => void events.push("down")
  refuseRouterAdvertisements = () => {}
  applyMtu = () => void events.push("mtu")
  apply = ({ kind }: Change) => void events.push(kind)
  watch = () => {}
  unwatch = () => {}
  readEvents = () => true
  sendDelayed = () => {}
  receive = () => this.#received.shift()

  check(): void {
    if (this.checkAt !== undefined) this.checkAt = now + 2000
  }

  close(): void {
    this.checkAt = undefined
  }

  send(config: ClientConfig, frame: Uint8Array): boolean {
    const { options, xid } = readSent(frame)
    this.checkAt ??= now + 2000
    this.#last = { mac: config.mac, xid }
    events.push(names[options[53] ?? ""] ?? "")
    return true
  }

  answer(type: number): void {
    const state = { config: { mac: this.#last.mac }, xid: this.#last.xid } as Parameters<typeof answer4>[0]
    this.#received.push(answer4(state, type, type === NAK ? "0.0.0.0" : "10.1.2.3", { 51: "00000e10" }))
    holder.onReadable(new Uint8Array())
  }
}

class FakeJournal extends Journal {
  override write = ({ progress }: { progress: string }, durable: boolean) =>
    void events.push(`${progress}${durable ? ", on disk" : ""}`)
  override remove = () => void events.push("removed")
}

/** Makes these methods of the journal fail, as on a full disk. */
function full(...methods: readonly ("write" | "remove")[]): void {
  for (const method of methods) {
    env.journal[method] = () => {
      throw new Error("ENOSPC")
    }
  }
}

function linkOf(containerId: string): FakeLink {
  if (containerId === "broken") throw new Error("EIO")
  return link
}

let holder: Holder
const waiter = {
  answer: ({ ips }: Result) => void events.push(`answered ${ips[0]?.address}`),
  refuse: (reason: string) => void events.push(`refused: ${reason}`),
}

beforeEach(() => {
  directory = mkdtempSync("/tmp/dhcp-holder-")
  ;[events, now, link] = [[], 1_000_000, new FakeLink()]
  const links = { open: () => link, at: () => link }
  const moment = { now: () => now, random: () => 0.5, bootId: "boot", log: (line: string) => void events.push(line) }
  env = { options: parseOptions([]), journal: new FakeJournal(join(directory, "leases")), links, ...moment }
})
afterEach(() => rmSync(directory, { recursive: true }))

function acquire(): void {
  holder = Holder.acquire(owner, record.namespace.path, parseDhcpConfig({ ipam: {} }, ""), env)
  holder.wait(waiter)
}

/** Returns the events since the last call, and forgets them. */
const since = () => events.splice(0)

function hold(): void {
  acquire()
  link.answer(OFFER)
  link.answer(ACK)
  since()
}

function pass(): void {
  now = Math.max(now, holder.due ?? now)
  holder.onTime()
}

test("a lease is on record before it is requested, and on disk before ADD is answered; then the link is closed", () => {
  acquire()
  expect(since()).toEqual(["up", "DISCOVER"])
  link.answer(OFFER)
  expect(since()).toEqual(["acquiring", "REQUEST"])
  link.answer(ACK)
  expect(since()).toEqual(["mtu", "held, on disk", "answered 10.1.2.3/24"])
  expect([link.checkAt, holder.result?.ips[0]?.address]).toEqual([undefined, "10.1.2.3/24"])
})

test("nothing is sent before frames pass, or five seconds are over", () => {
  link.passesFrames = false
  acquire()
  pass()
  pass()
  expect([since(), now]).toEqual([["up"], 1_004_000])
  pass()
  expect([since(), now]).toEqual([["DISCOVER"], 1_005_000])
})

test("a renewal comes from the hardware address that the link has by then, and its answer is for that", () => {
  hold()
  link.mac = "02:00:00:00:00:09"
  pass()
  expect(since()).toEqual([
    "box/net/eth0: the hardware address changed from 0a:58:0a:01:02:03 to 02:00:00:00:00:09",
    "REQUEST",
  ])
  link.answer(ACK)
  expect(since()).toEqual(["renewed", "held, on disk"])
  pass()
  expect(since()).toEqual(["REQUEST"])
})

test("the end of renewals with the link is logged once", () => {
  hold()
  link.isGone = true
  holder.checkNamespace()
  holder.checkNamespace()
  expect(since()).toEqual(['box/net/eth0: renewal of the leases stopped: "eth0" in "/run/netns/box" was deleted'])
})

test("a renewal is sent at T1, changes the interface, and is on disk; the link is closed again", () => {
  hold()
  pass()
  expect([since(), now - 1_000_000]).toEqual([["REQUEST"], T1])
  link.answer(ACK)
  expect([since(), link.checkAt]).toEqual([["renewed", "held, on disk"], undefined])
})

test("a lease that is refused is taken off the interface, and the next one put on it", () => {
  hold()
  pass()
  since()
  link.answer(NAK)
  expect(since()).toEqual(["box/net/eth0: lost 10.1.2.3/24: NAK from 10.1.2.1", "lost", "DISCOVER", "held, on disk"])
  expect(holder.result).toBeUndefined()
  link.answer(OFFER)
  link.answer(ACK)
  expect(since()).toEqual(["REQUEST", "bound", "held, on disk"])
})

test("while no server answers after a loss, the interface is down between two attempts", () => {
  hold()
  pass()
  link.answer(NAK)
  since()
  while (!events.includes("down")) pass()
  expect([...new Set(since())]).toEqual(["DISCOVER", "down"])
})

test("an ADD without a lease ends with an error, and what was offered is released", () => {
  acquire()
  link.answer(OFFER)
  since()
  while (holder.due !== undefined && events.at(-1)?.startsWith("refused") !== true) pass()
  expect(now - 1_000_000).toBe(208_000)
  expect(since().slice(-4)).toEqual([
    expect.stringMatching(/^(DISCOVER|releasing)$/),
    expect.any(String),
    "removed",
    expect.stringContaining("refused: no more tries: no OFFER in 208 s"),
  ])
})

test("a release is on record before it is sent", () => {
  hold()
  holder.release()
  expect(since()).toEqual(["releasing", "RELEASE", "removed"])
})

test("a release on a full disk is sent, and only logged", () => {
  hold()
  full("write", "remove")
  holder.release()
  const cannot = (what: string) => `box/net/eth0: Cannot ${what} the record: Error: ENOSPC`
  expect(since()).toEqual([cannot("write"), "RELEASE", cannot("remove")])
})

test("a record whose lease cannot be resumed keeps no other from that", () => {
  hold()
  const journaled = { ...record, ...owner, bootId: "boot", progress: "held", config: parseDhcpConfig({ ipam: {} }, "") }
  const list = ["broken", "whole"].map((containerId) => ({ ...journaled, containerId, clients: holder.clients.states }))
  const links = { ...env.links, at: ({ containerId }: { containerId: string }) => linkOf(containerId) }
  const journal = Object.assign(env.journal, { list: () => list, sweep: () => {} })
  const service = new Service({ ...env, journal, links } as unknown as Environment)
  service.resume()
  expect([...service.holders.keys()]).toEqual(["whole/net/eth0"])
  expect(since()).toEqual(["broken/net/eth0: Cannot resume the lease: EIO"])
})

test("a deleted link refuses the calls that wait, and its lease is kept until it has expired", () => {
  acquire()
  since()
  link.isGone = true
  holder.checkNamespace()
  expect(since()).toEqual(['refused: "eth0" in "/run/netns/box" was deleted'])
  expect([holder.isOver, holder.due]).toEqual([true, undefined])
  link = new FakeLink()
  hold()
  link.isGone = true
  holder.checkNamespace()
  expect([holder.isOver, holder.due]).toEqual([false, 4_600_000])
  now = 4_600_000
  expect(holder.isOver).toBe(true)
})

test("a link that cannot be opened is the error of ADD", () => {
  env = {
    ...env,
    links: {
      ...env.links,
      open: () => {
        throw new NoLinkError("Link not found")
      },
    },
  }
  expect(acquire).toThrow("Link not found")
})
