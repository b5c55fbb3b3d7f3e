import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { DaemonError, readable } from "./client.ts"
import { goAllocateReply, goAllocateRequest, goErrorReply, goReleaseReply, goReleaseRequest } from "./go.fixture.ts"
import { decodeAll, encodeAll } from "./gob.fixture.ts"
import { GobError, type GobObject, octets, signed, slice, struct, text, unsigned } from "./gob.ts"
import { GobDecoder } from "./gob-decode.ts"
import {
  argumentType,
  decodeArguments,
  decodeReply,
  emptyType,
  encodeArguments,
  encodeReply,
  requestType,
  responseType,
  resultType,
} from "./messages.ts"

const config =
  '{"cniVersion":"1.0.0","name":"net","type":"bridge","ipam":{"type":"dhcp","priority":7,"daemonSocketPath":"/run/cni/p.sock","request":[{"option":"6"}]}}\n'
const call = {
  containerId: "cid1",
  netns: "/run/netns/c1",
  ifName: "eth0",
  args: "K8S=1",
  path: "/usr/lib/cni",
  stdin: encodeUtf8(config),
}
const { NetnsOverride: _, ...fieldsOf1_1 } = Object.fromEntries(
  argumentType.fields.map(({ name, type }) => [name, type]),
)
/** The types of the plugins of version 1.1.1. */
const old = {
  argument: struct("CmdArgs", fieldsOf1_1),
  result: (() => {
    const network = struct("IPNet", { IP: octets, Mask: octets })
    const texts = slice("[]string", text)
    return struct("Result", {
      CNIVersion: text,
      Interfaces: slice("[]*types100.Interface", struct("", { Name: text, Mac: text, Sandbox: text })),
      IPs: slice("[]*types100.IPConfig", struct("", { Interface: signed, Address: network, Gateway: octets })),
      Routes: slice("[]*types.Route", struct("", { Dst: network, GW: octets })),
      DNS: struct("DNS", { Nameservers: texts, Domain: text, Search: texts, Options: texts }),
    })
  })(),
}

const lease = {
  interfaces: [],
  ips: [{ address: "10.50.0.15/24", gateway: "10.50.0.1" }],
  routes: [{ dst: "0.0.0.0/0", gw: "10.50.0.1" }],
  dns: {},
}

describe("what Go's plugin and daemon send", () => {
  test("is read: the calls", () => {
    const [request, argument] = decodeAll(goAllocateRequest)
    expect(request).toEqual({ ServiceMethod: "DHCP.Allocate" })
    expect(decodeArguments(argument ?? {})).toEqual(call)
    expect(decodeAll(goReleaseRequest)[0]).toEqual({ ServiceMethod: "DHCP.Release" })
  })

  test("is read: the answers, with any numbers of types", () => {
    const [response, result] = decodeAll(goAllocateReply)
    expect(response).toEqual({ ServiceMethod: "DHCP.Allocate" })
    expect(decodeReply(result ?? {})).toEqual(lease)
    expect(decodeAll(goReleaseReply)).toEqual([{ ServiceMethod: "DHCP.Release" }, {}])
    const [failed, nothing] = decodeAll(goErrorReply)
    expect(failed).toMatchObject({ Error: 'error looking up "nope": Link not found' })
    expect(nothing).toEqual({})
  })

  test("is read in pieces of any size", () => {
    const decoder = new GobDecoder()
    const values: GobObject[] = []
    for (const byte of goAllocateReply) {
      decoder.push(Uint8Array.of(byte))
      const value = decoder.next()
      if (value) values.push(value)
    }
    expect(values.length).toBe(2)
    expect(decodeReply(values[1] ?? {})).toEqual(lease)
  })

  test("is written to the byte: the calls", () => {
    const argument = encodeArguments(call)
    const ofMethod = (method: string) =>
      encodeAll([requestType, { ServiceMethod: `DHCP.${method}`, Seq: 0 }], [old.argument, argument])
    expect(ofMethod("Allocate")).toEqual(goAllocateRequest)
    expect(ofMethod("Release")).toEqual(goReleaseRequest)
  })

  test("is written to the byte: the result", () => {
    const written = encodeAll([responseType, { ServiceMethod: "DHCP.Allocate" }], [old.result, encodeReply(lease)])
    expect(written).toEqual(goAllocateReply)
  })

  // A process numbers its types across all messages. Go's daemon had reached 75 when it sent this message.
  test("is written but for the number of a type: nothing, and an error", () => {
    const written = encodeAll([responseType, { ServiceMethod: "DHCP.Release" }], [emptyType, {}])
    const renumbered = goReleaseReply.map((byte, at) =>
      at > 60 ? (byte === 0x97 ? 0x83 : byte === 0x98 ? 0x84 : byte) : byte,
    )
    expect(written).toEqual(renumbered)
  })
})

test("a result goes through whole: what upstream's daemon never fills in, too", () => {
  const full = {
    interfaces: [],
    ips: [{ address: "10.1.2.3/20", gateway: "10.1.0.1" }, { address: "fd00::7/128" }],
    routes: [
      { dst: "10.60.0.0/16", gw: "10.1.0.9", mtu: 1400, advmss: 1300, priority: 5, table: 100, scope: 0 },
      { dst: "10.61.0.0/16", gw: "0.0.0.0", scope: 253 },
    ],
    dns: { nameservers: ["10.1.0.2"], domain: "a.example", search: ["b.example"], options: ["ndots:2"] },
  }
  const [value] = decodeAll(encodeAll([resultType, encodeReply(full)]))
  const [first, ...others] = full.routes
  const { scope: _zero, ...withoutZero } = first ?? {} // zero values are not sent
  expect(decodeReply(value ?? {})).toEqual({ ...full, routes: [withoutZero as never, ...others] })
})

test("numbers of both signs and of any size are those that were sent", () => {
  const numbers = struct("N", { I: signed, U: unsigned })
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.maxSafeNat(), (I, U) => {
      const [value] = decodeAll(encodeAll([numbers, { I: Math.trunc(I / 2), U }]))
      expect(value?.I ?? 0).toBe(Math.trunc(I / 2) + 0)
      expect(value?.U ?? 0).toBe(U)
    }),
  )
  // Examples of encoding/gob: -129 is FE 01 01, 256 is FE 01 00.
  expect([...encodeAll([struct("", { I: signed }), { I: -129 }])].slice(-5)).toEqual([1, 0xfe, 1, 1, 0])
  expect([...encodeAll([struct("", { U: unsigned }), { U: 256 }])].slice(-5)).toEqual([1, 0xfe, 1, 0, 0])
})

test("bytes by chance, and good ones with some changed, are refused with a GobError or read", () => {
  const read = (bytes: Uint8Array) => {
    try {
      for (const value of decodeAll(bytes)) {
        decodeArguments(value)
        decodeReply(value)
      }
    } catch (error) {
      if (!(error instanceof GobError)) throw error
    }
  }
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), read), { numRuns: 3000 })
  const good = fc.constantFrom(goAllocateRequest, goAllocateReply, goErrorReply)
  const changes = fc.array(fc.tuple(fc.nat(2000), fc.nat(255)), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(good, changes, (bytes, changed) => {
      const broken = bytes.slice()
      for (const [at, byte] of changed) broken[at % broken.length] = byte
      read(broken)
    }),
    { numRuns: 3000 },
  )
})

test("a list of itself, and lists longer than their message, end in an error", () => {
  const self = encodeAll([struct("S", { L: slice("L", octets) }), { L: [Uint8Array.of(1)] }])
  const at = self.lastIndexOf(5 * 2) // the type of an element: bytes
  self[at] = 66 * 2 - 256
  expect(() => decodeAll(self)).toThrow(GobError)
})

test("an answer that cannot be read is an error of the daemon", () => {
  const reply = { IPs: [{ Address: { Mask: new Uint8Array(4) } }] }
  expect(() => decodeReply(reply)).toThrow(GobError)
  expect(() => readable(() => decodeReply(reply))).toThrow(DaemonError)
  expect(() => readable(() => decodeReply(reply))).toThrow("cannot read its answer: ")
})
