import { expect, test } from "bun:test"
import { changedSysctls, tunedPaths } from "./changed.ts"

const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
const dataDir = "/nowhere" // no backup
const differences = (sysctl: object, values: Record<string, string>, more: object = {}) =>
  changedSysctls({ dataDir, sysctl, ...more } as never, owner, new Map(Object.entries(values)))

test("the paths are those that a key may mean, with the interface's name; a key outside of the network has none", () => {
  const sysctl = { "net.ipv4.conf.IFNAME.rp_filter": "2", "kernel.panic": "1" }
  expect(tunedPaths({ sysctl }, owner)).toEqual(["net/ipv4/conf/eth0/rp_filter"])
  expect(tunedPaths({ sysctl: 7 }, owner)).toEqual([])
})

test("a sysctl with another value is named with both values", () => {
  const path = "net/ipv4/conf/eth0/rp_filter"
  expect(differences({ "net.ipv4.conf.IFNAME.rp_filter": "2" }, { [path]: "1" })).toEqual([
    { path, expected: "2", found: "1" },
  ])
})

test("white space, and numbers that the kernel prints otherwise, are no difference", () => {
  const values = { "net/ipv4/ip_local_port_range": "1024\t65000", "net/core/somaxconn": "31" }
  expect(differences({ "net.ipv4.ip_local_port_range": "1024 65000", "net.core.somaxconn": "0x1f" }, values)).toEqual(
    [],
  )
})

test("args.cni has the last word; what the container has no value for is passed over", () => {
  const sysctl = { "net.core.somaxconn": "1", "net.ipv4.route.flush": "1" }
  const more = { args: { cni: { sysctl: { "net/core/somaxconn": "2" } } } }
  expect(differences(sysctl, { "net/core/somaxconn": "2" }, more)).toEqual([])
  expect(differences(sysctl, { "net/core/somaxconn": "1" }, more)).toMatchObject([{ expected: "2", found: "1" }])
})
