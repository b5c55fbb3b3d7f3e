import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { type Backup, backupOf, type Change, decodeBackup, encodeBackup, mergeBackups, withPrinted } from "./backup.ts"

const link = { mac: "0a:00:00:00:00:01", promisc: false, mtu: 1500, allmulti: false, txQLen: 1000 }

function change(of: Partial<Change>): Change {
  return { wanted: {}, link, peerMtu: 1500, sysctls: [], ...of }
}

function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes)
}

function bytes(json: string): Uint8Array {
  return new TextEncoder().encode(json)
}

// The first three lines are what upstream writes for the same configuration.
test("the file begins with what upstream writes, in its order and indentation", () => {
  const sysctls = [{ path: "net/ipv4/ip_forward", value: "1", found: "0" }]
  const backup = backupOf(change({ wanted: { txQLen: 5, mac: "0a:00:00:00:00:02" }, sysctls }))
  expect(text(encodeBackup(backup))).toBe(`{
 "mac": "0a:00:00:00:00:01",
 "txQLen": 1000,
 "set": {
  "mac": "0a:00:00:00:00:02",
  "txQLen": 5
 },
 "sysctl": {
  "net/ipv4/ip_forward": {
   "was": "0",
   "set": "1"
  }
 }
}`)
})

test("the other end of the pair is in it when the MTU is", () => {
  expect(backupOf(change({ wanted: { mtu: 1400 } }))).toMatchObject({ mtu: 1500, peerMtu: 1500, set: { mtu: 1400 } })
  expect(backupOf(change({ wanted: { txQLen: 5 } })).peerMtu).toBeUndefined()
})

test("upstream's file is read", () => {
  const file = '{\n "mac": "c2:11:22:33:44:55",\n "promisc": false,\n "mtu": 1454,\n "allmulti": true,\n "txQLen": 0\n}'
  const { sysctl: _none, ...read } = decodeBackup(bytes(file))
  expect(read).toEqual({ mac: "c2:11:22:33:44:55", promisc: false, mtu: 1454, allmulti: true, txQLen: 0 })
})

test("what cannot be read counts as absent, piece by piece", () => {
  for (const torn of ["", "{", "null", "[]", "5", '"x"']) expect(decodeBackup(bytes(torn)).mtu).toBeUndefined()
  expect(decodeBackup(bytes('{"mtu": "x", "mac": 5, "txQLen": 7, "sysctl": []}'))).toEqual({ txQLen: 7, sysctl: {} })
})

test("a file cannot have anything written outside of the network", () => {
  expect(decodeBackup(bytes('{"sysctl": {"kernel/core_pattern": {"was": "|/x"}}}')).sysctl).toEqual({})
})

test("any bytes can be read", () => {
  fc.assert(fc.property(fc.uint8Array(), (file) => void expect(decodeBackup(file)).toBeObject()))
  fc.assert(fc.property(fc.json(), (file) => void expect(decodeBackup(bytes(file))).toBeObject()))
})

test("how the kernel prints a sysctl is added to what was set", () => {
  const backup: Backup = { sysctl: { "net/a": { was: "0", set: "0x1f" } } }
  expect(withPrinted(backup, new Map([["net/a", "31"]]))).toEqual({
    sysctl: { "net/a": { was: "0", set: "0x1f", is: "31" } },
  })
})

describe("a second ADD", () => {
  const nothing = () => undefined
  const first = backupOf(change({ wanted: { mtu: 1400, promisc: true } }))
  const tuned = { ...link, mtu: 1400, promisc: true }

  test("of the same configuration keeps the originals", () => {
    const again = change({ wanted: { mtu: 1400, promisc: true }, link: tuned, peerMtu: 1400 })
    expect(mergeBackups(first, again, nothing)).toEqual(first)
  })

  test("of another tuning plugin in the chain adds to them", () => {
    const second = change({ wanted: { mtu: 1300, txQLen: 5 }, link: tuned, peerMtu: 1400 })
    expect(mergeBackups(first, second, nothing)).toEqual({
      mtu: 1500,
      peerMtu: 1500,
      promisc: false,
      txQLen: 1000,
      set: { mtu: 1300, promisc: true, txQLen: 5 },
      sysctl: {},
    })
  })

  test("that has nothing to do with the MTU keeps the originals of both ends", () => {
    const second = change({ wanted: { mac: "0a:00:00:00:00:02" }, link: tuned, peerMtu: undefined })
    expect(mergeBackups(first, second, nothing)).toMatchObject({ mac: link.mac, mtu: 1500, peerMtu: 1500 })
  })

  test("of a new container takes what is there, not what a dead one left", () => {
    const fresh = { ...link, mtu: 9000 }
    expect(mergeBackups(first, change({ wanted: { mtu: 1400 }, link: fresh, peerMtu: 9000 }), nothing)).toEqual({
      mtu: 9000,
      peerMtu: 9000,
      set: { mtu: 1400 },
      sysctl: {},
    })
  })

  test("after upstream's keeps the original of what has the wanted value, and of what is not wanted", () => {
    const upstream: Backup = { mac: "0a:00:00:00:00:09", mtu: 1500, txQLen: 77 }
    const wanted = { mtu: 1400, txQLen: 5 }
    const merged = mergeBackups(upstream, change({ wanted, link: { ...link, mtu: 1400 }, peerMtu: 1500 }), nothing)
    expect(merged).toMatchObject({ mac: "0a:00:00:00:00:09", mtu: 1500, txQLen: 1000, peerMtu: 1500 })
  })

  test("keeps the originals of sysctls that have the value that was set, in the kernel's print", () => {
    const sysctl = {
      "net/kept": { was: "0", set: "0x1f", is: "31" },
      "net/spaces": { was: "1\t2", set: "3 4" },
      "net/changed": { was: "0", set: "1" },
      "net/gone": { was: "0", set: "1" },
    }
    const now: Record<string, string> = { "net/kept": "31", "net/spaces": "3\t4", "net/changed": "7" }
    const sysctls = [
      { path: "net/changed", value: "2", found: "7" },
      { path: "net/kept", value: "5", found: "31" },
    ]
    expect(mergeBackups({ sysctl }, change({ sysctls }), (path) => now[path]).sysctl).toEqual({
      "net/kept": { was: "0", set: "5" },
      "net/spaces": { was: "1\t2", set: "3 4" },
      "net/changed": { was: "7", set: "2" },
    })
  })
})
