import { expect, test } from "bun:test"
import type { Lease } from "../ipam/host-local/main.ts"
import { age, leaseTable, type NetworkUse, resultTable, sortedByNames, usageBar, useAsJson } from "./tables.ts"

test("a result: interfaces with their addresses, addresses of none, routes, name servers", () => {
  const interfaces = [{ name: "br0" }, { name: "eth0", mac: "aa", sandbox: "/run/netns/x" }]
  const ips = [
    { address: "10.1.0.2/16", gateway: "10.1.0.1", interface: 1 },
    { address: "fd00::2/64", interface: 1 },
    { address: "10.2.0.2/16" },
    { address: "10.3.0.2/16", gateway: "10.3.0.1", interface: 7 },
  ]
  const routes = [{ dst: "0.0.0.0/0", gw: "10.1.0.1" }, { dst: "10.9.0.0/16" }]
  expect(resultTable({ interfaces, ips, routes, dns: { nameservers: ["192.0.2.53"] } }, {})).toBe(
    `INTERFACE  WHERE         MAC  ADDRESS                 GATEWAY
br0        host          -    -                       -
eth0       /run/netns/x  aa   10.1.0.2/16,fd00::2/64  10.1.0.1
-          -             -    10.2.0.2/16             -
-          -             -    10.3.0.2/16             10.3.0.1

ROUTE        VIA
0.0.0.0/0    10.1.0.1
10.9.0.0/16  -

NAME SERVER
192.0.2.53
`,
  )
  expect(resultTable({ interfaces: [], ips: [], routes: [], dns: {} }, {})).toBe("")
})

const leaseOf = (address: string, more: Partial<Lease>): Lease => ({
  address,
  holder: { containerId: "c1", ifName: "eth0" },
  writtenMs: 1_000_000,
  reclaimable: false,
  ...more,
})

const network: NetworkUse = {
  name: "lab",
  ranges: [
    { ranges: "10.1.0.1-10.1.0.4", used: 1, reclaimable: 0, total: 4n },
    { ranges: "10.2.0.1-10.2.0.2", used: 2, reclaimable: 1, total: 2n },
  ],
  leases: [
    leaseOf("10.1.0.1", { netns: { path: "/run/netns/a", exists: true }, liveness: "alive" as never }),
    leaseOf("10.2.0.1", { netns: { path: "/run/netns/b", exists: false }, reclaimable: true }),
    leaseOf("10.2.0.2", { holder: "torn", writtenMs: 940_000 }),
    leaseOf("10.2.0.3", { holder: { containerId: "c2", ifName: "" } }),
  ],
}

test("leases: a bar for each range set, and a row for each address", () => {
  expect(leaseTable([network, { ...network, leases: [], ranges: [] }], 1_012_000, {})).toBe(
    `lab
  [#####···············]  1 of 4 used, 3 free  10.1.0.1-10.1.0.4
  [####################]  2 of 2 used, 0 free, 1 reclaimable  10.2.0.1-10.2.0.2
  ADDRESS   CONTAINER    INTERFACE  AGE  NETNS
  10.1.0.1  c1           eth0       12s  alive  /run/netns/a
  10.2.0.1  c1           eth0       12s  gone, reclaimable  /run/netns/b
  10.2.0.2  (torn file)  -          1m   ?
  10.2.0.3  c2           -          12s  ?

lab
`,
  )
  expect(leaseTable([], 0, {})).toBe("No addresses are in use\n")
})

test("leases for programs; counts that a number cannot hold are text", () => {
  expect(useAsJson({ ...network, leases: network.leases.slice(1, 3) })).toEqual({
    network: "lab",
    rangeSets: [
      { ranges: "10.1.0.1-10.1.0.4", used: 1, reclaimable: 0, free: 3, total: 4 },
      { ranges: "10.2.0.1-10.2.0.2", used: 2, reclaimable: 1, free: 0, total: 2 },
    ],
    leases: [
      {
        address: "10.2.0.1",
        containerId: "c1",
        ifName: "eth0",
        reserved: "1970-01-01T00:16:40.000Z",
        netns: "/run/netns/b",
        netnsExists: false,
        reclaimable: true,
      },
      { address: "10.2.0.2", file: "torn", reserved: "1970-01-01T00:15:40.000Z", reclaimable: false },
    ],
  })
  const large = { ranges: "x", used: 1, reclaimable: 0, total: 2n ** 64n }
  expect(useAsJson({ ...network, ranges: [large], leases: [] }).rangeSets).toEqual([
    { ...large, free: "18446744073709551615", total: "18446744073709551616" },
  ])
  const edge = { ...large, used: 0, total: 2n ** 53n - 1n }
  expect(useAsJson({ ...network, ranges: [edge], leases: [] }).rangeSets).toMatchObject([{ total: 2 ** 53 - 1 }])
})

test.each([
  [0, 4n, 0],
  [1, 1000n, 1],
  [999, 1000n, 19],
  [1000, 1000n, 20],
  [1001, 1000n, 20],
  [0, 0n, 20],
  [10, 20n, 10],
])("of %d used of %d, %d parts of twenty are filled: any use shows, and only full is full", (used, total, filled) => {
  expect(usageBar(used, total)).toBe(`[${"#".repeat(filled)}${"·".repeat(20 - filled)}]`)
})

test("ages are in their largest unit, and a clock that was ahead makes none", () => {
  const minute = 60_000
  const ages = [
    -5,
    999,
    59_999,
    minute,
    60 * minute - 1,
    60 * minute,
    1440 * minute - 1,
    1440 * minute,
    14_400 * minute,
  ]
  expect(ages.map(age)).toEqual(["0s", "0s", "59s", "1m", "59m", "1h", "23h", "1d", "10d"])
})

test("an interface with gateways of both families", () => {
  const ips = [
    { address: "10.1.0.2/16", gateway: "10.1.0.1", interface: 0 },
    { address: "fd00::2/64", gateway: "fd00::1", interface: 0 },
  ]
  expect(resultTable({ interfaces: [{ name: "eth0" }], ips, routes: [], dns: {} }, {})).toEndWith(
    "eth0       host   -    10.1.0.2/16,fd00::2/64  10.1.0.1,fd00::1\n",
  )
})

test("names are sorted as people do it, by the first one that differs, and numbers by their value", () => {
  const rows = [
    ["b", "web-10"],
    ["a", "web-10"],
    ["a", "web-9"],
    ["a", "web"],
    ["a", "web-9-x"],
    ["ab", ""],
  ]
  expect(sortedByNames(rows, (row) => row).map((row) => row.join(" "))).toEqual([
    ...["a web", "a web-9", "a web-9-x", "a web-10", "ab ", "b web-10"],
  ])
})
