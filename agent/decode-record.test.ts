import { expect, test } from "bun:test"
import { decodeRecord, parseRecord } from "./decode-record.ts"
import type { FixedAddress, Pool, Want } from "./records.ts"

const owner = { name: "node-1", uid: "u", machineId: "" }

const pool: Pool = {
  name: "pods",
  prefixes: [{ prefix: "10.64.0.0/16", blockLength: 26, gateway: "10.64.0.1", reserved: ["10.64.200.0/24"] }],
  routes: [{ dst: "0.0.0.0/0", gw: "10.64.0.1", mtu: 1400 }],
  network: "pods-net",
  quarantineS: 0,
  routing: "none",
  isRemoved: true,
}

const fixed: FixedAddress = {
  pool: "pods",
  namespace: "db",
  pod: "mysql-0",
  ifName: "eth0",
  addresses: ["10.64.200.7", "fd00::7"],
  nonce: "n",
}

const want: Want = { pool: "pods", owner, isUrgent: true }

test("records come back as they were written", () => {
  const registry = { pools: { pods: pool } }
  expect(parseRecord("registry", "pools", JSON.stringify(registry))).toEqual(registry)
  expect(decodeRecord("fixed", "db/mysql-0/eth0", { ...fixed, holder: owner })).toEqual({ ...fixed, holder: owner })
  expect(decodeRecord("want", "pods/node-1", want)).toEqual(want)
})

test("what a newer agent has written besides stays in the record, in each part", () => {
  const newer = (value: object) => ({ ...value, newer: { at: 1 } })
  const prefixes = pool.prefixes.map(newer)
  const registry = newer({ pools: { pods: newer({ ...pool, prefixes, routes: pool.routes.map(newer) }) } })
  expect(decodeRecord("registry", "pools", registry)).toEqual(registry as never)
  const node = newer({ owner: newer(owner), addresses: ["192.0.2.1"] })
  expect(decodeRecord("node", "node-1", node)).toEqual(node as never)
})

const pools = (changes: object) => ["registry", "pools", { pools: { pods: { ...pool, ...changes } } }] as const
const prefix = (changes: object) => pools({ prefixes: [{ ...pool.prefixes[0], ...changes }] })

const refused = [
  [pools({ name: "other" }), 'the pool "pods" has the name "other"'],
  [pools({ quarantineS: -1 }), '"pools.pods.quarantineS" is -1: expected an integer from 0 to 9007199254740991'],
  [pools({ quarantineS: 1.5 }), '"pools.pods.quarantineS" is 1.5'],
  [pools({ routing: "bgp" }), '"pools.pods.routing" is "bgp": expected "none" or "host-gw"'],
  [pools({ isRemoved: "yes" }), '"pools.pods.isRemoved" is "yes": expected true'],
  [pools({ prefixes: {} }), '"pools.pods.prefixes" is {}: expected a list'],
  [pools({ routes: [{ dst: "default" }] }), '"pools.pods.routes[0].dst" is "default"'],
  [pools({ routes: [{ dst: "0.0.0.0/0", mtu: 2 ** 33 }] }), '"pools.pods.routes[0].mtu" is 8589934592'],
  [prefix({ prefix: "10.64.0.0" }), '"pools.pods.prefixes[0].prefix" is "10.64.0.0": expected a prefix'],
  [prefix({ blockLength: 12 }), '"pools.pods.prefixes[0].blockLength" is 12: expected an integer from 16 to 32'],
  [prefix({ gateway: "10.064.0.1" }), '"pools.pods.prefixes[0].gateway" is "10.064.0.1": expected an address'],
  [prefix({ reserved: ["10.64.200.1/24"] }), '"pools.pods.prefixes[0].reserved[0]" is "10.64.200.1/24"'],
  [["registry", "pools", { pools: [] }], '"pools" is []: expected an object'],
  [["node", "node-2", { owner, addresses: [] }], 'it is the record of "node-1"'],
  [["node", "node-1", { owner, addresses: ["::ffff:192.0.2.1"] }], '"addresses[0]" is "::ffff:192.0.2.1"'],
  [["node", "node-1", null] as const, "it is null: expected an object"],
  [["fixed", "db/mysql-0/eth0", { ...fixed, holder: "node-1" }], '"holder" is "node-1": expected an object'],
  [["want", "pods/node-1", { ...want, pool: "" }], '"pool" is "": expected a text'],
] as const

test.each(refused.map(([record, reason]) => [reason, record] as const))("a record is refused: %s", (reason, record) => {
  const [kind, key, value] = record
  expect(() => decodeRecord(kind, key, value)).toThrow(
    `Cannot read the record "${kind}/${key}" of the store: ${reason}`,
  )
})
