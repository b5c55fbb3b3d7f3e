import { expect, test } from "bun:test"
import type { LeaseRecord } from "../../ipam/dhcp/main.ts"
import { leaseTable, shownLeases } from "./dhcp.ts"

const lease = {
  address: "10.1.2.3/24",
  server: "10.1.2.1",
  serverMac: "0a:00:00:00:00:01",
  since: 1_000,
  renewAt: 61_000,
  rebindAt: 106_000,
  expiresAt: 121_000,
  routes: [],
  nameservers: [],
  search: [],
  ntp: ["10.1.2.9"],
  options: [],
}
const record = {
  writtenAt: 1_700_000_000_000,
  clock: 2_000,
  containerId: "c1",
  network: "lan",
  ifName: "eth0",
  namespace: { path: "/run/netns/absent", identity: "0:4:1" },
  progress: "held",
  clients: [{ phase: "bound", lease }],
} as unknown as LeaseRecord

test("times are those of the wall clock, with each clock of the daemon", () => {
  expect(shownLeases(record, true)).toEqual([
    {
      network: "lan",
      containerId: "c1",
      ifName: "eth0",
      address: "10.1.2.3/24",
      server: "10.1.2.1",
      state: "bound",
      renewAt: 1_700_000_059_000,
      rebindAt: 1_700_000_104_000,
      expiresAt: 1_700_000_119_000,
      ntp: ["10.1.2.9"],
      netns: "/run/netns/absent",
      alive: false,
    },
  ])
})

test("the table says how long it is until then, and what is over", () => {
  const [, row = ""] = leaseTable(shownLeases(record, true), 1_700_000_060_000, {}).split("\n")
  expect(row.split(/ {2,}/)).toEqual([
    "lan",
    "c1",
    "eth0",
    "10.1.2.3/24",
    "10.1.2.1",
    "bound",
    "1s ago",
    "in 44s",
    "in 59s",
    "gone",
  ])
  expect(leaseTable([], 0, {})).toBe("No leases\n")
})
