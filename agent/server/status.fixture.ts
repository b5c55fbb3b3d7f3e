import type { Status } from "../status.ts"

/** What an agent says that has a bit of everything, for tests. */
export const sampleStatus: Status = {
  node: { name: "node-1", uid: "u", machineId: "m" },
  store: { name: 'directory "/srv"', lastContactS: 1.5, requests: 9, writes: 4, watchEvents: 7 },
  pools: [
    {
      name: "pods",
      network: "pods",
      file: "/var/lib/cni/pools/pods.json",
      prefixes: [
        {
          prefix: "10.64.0.0/16",
          blocks: [
            { prefix: "10.64.3.0/26", state: "owned", used: 3 },
            { prefix: "10.64.4.0/26", state: "draining", used: 1 },
          ],
          recorded: ["10.64.3.0/26", "10.64.4.0/26"],
          used: 4,
          free: "58",
          cluster: { free: "1020", owned: 3, quarantined: 1 },
        },
        {
          prefix: "fd00:64::/48",
          blocks: [],
          used: 0,
          free: "0",
          cluster: { free: "18446744073709551616", owned: 0, quarantined: 0 },
        },
      ],
      fixed: { "db/mysql-0/eth0": ["10.64.9.1", "fd00:64::9"] },
    },
  ],
  lost: [
    {
      pool: "pods",
      prefix: "10.64.7.0/26",
      owner: "node-2",
      containers: [{ id: "c1", ifName: "eth0", address: "10.64.7.2" }],
    },
  ],
  routes: { wanted: 12, faults: ['Cannot route to the IPv6 blocks of node "c"'] },
}
