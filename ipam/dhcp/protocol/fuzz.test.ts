import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { checkName, decodeNames } from "./bytes.ts"
import { encodeUdp, readPacket } from "./frames.ts"
import { readAnswer4, readMessage } from "./message4.ts"
import { encodeOptions, readOptions } from "./options4.ts"
import { decodeOptions6, encodeOptions6 } from "./options6.ts"
import * as captured from "./testing/captured.ts"
import { answer4, answer6, association6, config4, config6, ip, serverMac, TestClient } from "./testing/link.ts"

/** `npm run test:faults` runs the long form of the tests, which takes minutes. */
const isLong = process.env.CNI_FAULTS === "long"
const numRuns = isLong ? 100_000 : 2000
const clientRuns = isLong ? 100_000 : 300
const timeoutMs = 30_000 + 20 * numRuns

const noise = fc.uint8Array({ maxLength: 600 })

/** Returns frames in which some bytes are replaced, and which may be truncated or extended. */
function damaged(frame: Uint8Array): fc.Arbitrary<Uint8Array> {
  const change = fc.tuple(fc.nat(frame.length - 1), fc.nat(255))
  return fc
    .tuple(
      fc.array(change, { maxLength: 8 }),
      fc.option(fc.nat(frame.length), { freq: 5 }),
      fc.uint8Array({ maxLength: 20 }),
    )
    .map(([changes, cut, rest]) => {
      const copy = frame.slice(0, cut ?? frame.length)
      for (const [at, value] of changes) if (at < copy.length) copy[at] = value
      return Uint8Array.of(...copy, ...rest)
    })
}

function framed(payload: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Uint8Array> {
  return fc.tuple(payload, fc.boolean()).map(([bytes, is6]) => {
    const [from, to] = is6 ? ["fe80::1", "fe80::858:aff:fe01:203"] : ["10.1.2.1", "10.1.2.50"]
    const ports = is6 ? [547, 546] : [67, 68]
    return encodeUdp(
      { mac: serverMac, ip: ip(from), port: ports[0] ?? 0 },
      { mac: config4.mac, ip: ip(to), port: ports[1] ?? 0 },
      bytes,
    )
  })
}

const hostileOptions = fc.dictionary(
  fc.integer({ min: 1, max: 254 }).map(String),
  fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes).toString("hex")),
  { maxKeys: 12 },
)

const happening = fc.oneof(
  { weight: 4, arbitrary: fc.constant("wait" as const) },
  fc.constant("start" as const),
  fc.record({ type: fc.integer({ min: 0, max: 9 }), address: fc.ipV4(), options: hostileOptions, xid: fc.nat(1) }),
  fc.oneof(
    framed(noise),
    ...[captured.offer, captured.ack, captured.advertise, captured.reply, captured.routerAdvertisement].map(damaged),
  ),
)

function expectSound(client: TestClient): void {
  const { state, send, listen, changes } = client.step
  if (state.phase !== "ended" && state.phase !== "init" && state.phase !== "bound") expect(state.deadline).toBeDefined()
  if (state.deadline !== undefined) expect(Number.isFinite(state.deadline)).toBe(true)
  if (state.phase === "bound") expect(state.lease).toBeDefined()
  expect(send.length).toBeLessThanOrEqual(3)
  for (const frame of send) expect(frame.length).toBeLessThanOrEqual(1514)
  if (["bound", "waiting", "ended"].includes(state.phase)) expect(listen).toBe(false)
  for (const change of changes) {
    const names = [change.lease.domain, change.lease.hostname, ...change.lease.search]
    for (const name of names) if (name !== undefined) expect(checkName(name)).toBe(name)
    expect(change.lease.address).toMatch(/^[0-9a-f.:]+\/[0-9]+$/)
  }
}

describe("with any frame", () => {
  test.each([
    ["DHCPv4", config4],
    ["DHCPv4 with probes", { ...config4, probeMs: 300 }],
    ["DHCPv6", config6],
  ])(
    "a client of %s takes a sound step",
    (_what, config) => {
      fc.assert(
        fc.property(fc.array(happening, { maxLength: 12 }), (events) => {
          const client = new TestClient(config)
          client.start()
          for (const event of events) {
            if (typeof event === "string") {
              if (event === "wait") client.state.deadline === undefined || client.wait()
              else client.on({ kind: event })
            } else if (event instanceof Uint8Array) {
              client.frame(event)
            } else if (config.family === config4.family) {
              const { type, address, options, xid } = event
              client.frame(answer4(client.state, type, address, options, (client.state.xid + xid) >>> 0))
            } else {
              const { type, options } = event
              const list = Object.entries(options).map(
                ([code, value]) => [Number(code), Uint8Array.fromHex(value)] as const,
              )
              client.frame(answer6(client.state, type, [association6({}), ...list]))
            }
            expectSound(client)
          }
        }),
        { numRuns: clientRuns },
      )
    },
    timeoutMs,
  )

  test(
    "an answer of another transaction means nothing",
    () => {
      const client = new TestClient(config4)
      client.start()
      const moment = { now: 0, random: () => 0 }
      fc.assert(
        fc.property(fc.nat(0xffffffff), fc.nat(7), hostileOptions, (xid, type, options) => {
          const frame = answer4(client.state, type, "10.1.2.50", options, xid)
          expect(readAnswer4(client.state, frame, moment) === undefined || xid === client.state.xid).toBe(true)
        }),
        { numRuns },
      )
    },
    timeoutMs,
  )

  test(
    "frames, messages and options are read or refused",
    () => {
      const frames = [captured.offer, captured.advertise, captured.routerAdvertisement].map(damaged)
      fc.assert(
        fc.property(fc.oneof(noise, framed(noise), ...frames), (frame) => {
          const packet = readPacket(frame)
          if (packet?.kind === "udp") readMessage(packet.payload)
          readMessage(frame)
        }),
        { numRuns },
      )
    },
    timeoutMs,
  )

  test(
    "names are names, and pointers never go round",
    () => {
      const labels = fc.array(fc.oneof(fc.nat(255), fc.constantFrom(0, 1, 0xc0, 3)), { maxLength: 300 })
      fc.assert(
        fc.property(labels, fc.boolean(), (bytes, compressed) => {
          for (const name of decodeNames(Uint8Array.from(bytes), compressed) ?? []) expect(checkName(name)).toBe(name)
        }),
        { numRuns },
      )
    },
    timeoutMs,
  )
})

describe("options are read as they are written", () => {
  const value = fc.uint8Array({ maxLength: 700 })

  test(
    "of DHCPv4, however long",
    () => {
      const options = fc.uniqueArray(fc.tuple(fc.integer({ min: 1, max: 254 }), value), { selector: ([code]) => code })
      fc.assert(
        fc.property(options, (list) => {
          const found = new Map<number, Uint8Array>()
          expect(readOptions(encodeOptions(new Map(list)), found)).toBe(true)
          expect(Array.from(found).sort(([a], [b]) => a - b)).toEqual(list.slice().sort(([a], [b]) => a - b))
        }),
        { numRuns: Math.ceil(numRuns / 10) },
      )
    },
    timeoutMs,
  )

  test(
    "of DHCPv6",
    () => {
      fc.assert(
        fc.property(fc.array(fc.tuple(fc.nat(0xffff), value)), (list) => {
          expect(decodeOptions6(encodeOptions6(list))).toEqual(list)
        }),
        { numRuns: Math.ceil(numRuns / 10) },
      )
    },
    timeoutMs,
  )
})
