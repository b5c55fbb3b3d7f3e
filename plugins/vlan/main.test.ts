import { expect, test } from "bun:test"
import type { Attaching } from "../../pkg/attachment/mod.ts"
import { nothingLeased, TestAttaching } from "../../pkg/attachment/testing/attaching.ts"
import { IFF_UP, linkKinds, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf, nsid } from "../../pkg/netlink/testing/links.ts"
import type { NetworkConfig } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseVlanConfig, type VlanConfig } from "./config.ts"
import { findVlanTaken } from "./holder.ts"
import { attachVlan, checkVlan, createVlan, requireVlan, vlan } from "./main.ts"

const master: KernelLink = { index: 3, name: "eth1", flags: IFF_UP, mtu: 1500 }
const config: VlanConfig = {
  master: "eth1",
  linkInContainer: false,
  vlanId: 7,
  protocol: "802.1ad",
  mtu: 1400,
  mac: undefined,
  dns: undefined,
  ipam: "static",
}

/** `IFLA_VLAN_ID` and `IFLA_VLAN_PROTOCOL`; ETH_P_8021AD is 0x88a8, <linux/if_ether.h>. */
const data = { id: 7, protocol: 0x88a8 }
const made: KernelLink = { index: 9, name: "eth0", kind: "vlan", mtu: 1400, link: 3, data: linkKinds.vlan.encode(data) }

const add = (attaching: Attaching, config: VlanConfig) =>
  attachVlan(attaching, () => nothingLeased, config, createVlan(attaching, config))

test("the plugin has its name", () => {
  expect(vlan.name).toBe("vlan")
})

test("ADD makes the interface in the container on its master, names it for its owner, brings it up, and answers it", () => {
  const { attaching, kernel, undo } = new TestAttaching([master])
  const answered = add(attaching, config)
  const header = { index: 0, flags: 0, change: 0 }
  expect(kernel.links).toEqual([
    { verb: "add", ...header, name: "eth0", link: 3, linkNetnsId: nsid, mtu: 1400, kind: "vlan", data },
    { verb: "set", ...header, name: "eth0", alias: "lab/c1/eth0" },
    { verb: "set", index: 101, flags: IFF_UP, change: IFF_UP },
  ])
  expect(answered).toMatchObject([{ name: "eth0", mtu: 1400, sandbox: "/run/netns/c1" }])
  undo[Symbol.dispose]()
  expect(kernel.links.at(-1)).toMatchObject({ verb: "delete", index: 101 })
})

test("with its master in the container it is made there", () => {
  const { attaching, kernel } = new TestAttaching([master])
  add(attaching, { ...config, linkInContainer: true })
  expect(kernel.links[0]).not.toHaveProperty("linkNetnsId")
})

test.each([
  [
    "down",
    { ...master, flags: 0 },
    config,
    { code: 999, message: 'Cannot use the master interface "eth1": it is down' },
  ],
  [
    "too small",
    master,
    { ...config, mtu: 1501 },
    { code: 7, message: "invalid MTU 1501, must be [0, master MTU(1500)]" },
  ],
  [
    "too small for a number that no MTU is",
    master,
    parseVlanConfig({ name: "lab", cniVersion: "1.1.0", type: "vlan", ipam: { type: "static" } } as NetworkConfig, {
      verb: "ADD",
      args: "",
      raw: { master: "eth1", mtu: 70_000, ipam: { type: "static" } },
    }),
    { code: 7, message: "invalid MTU 70000, must be [0, master MTU(1500)]" },
  ],
  ["missing", { ...master, name: "eth2" }, config, { code: 7, message: 'Cannot find the master interface "eth1"' }],
])("ADD and STATUS refuse a master that is %s, and nothing is made", (_, link, keys, refusal) => {
  const test = new TestAttaching([link])
  expect(refusalOf(() => add(test.attaching, keys))).toMatchObject(refusal)
  expect(refusalOf(() => requireVlan(test.attaching, keys))).toMatchObject(refusal)
  expect(test.verbs).toEqual([])
})

test("a VLAN of which the master has an interface is taken, and the holder named", () => {
  const holder: KernelLink = { ...made, name: "eth1.7", alias: "other" }
  const eexist = { refusal: ({ type }: { type: number }) => (type === 16 ? 17 : 0) }
  const refusal = {
    code: 999,
    message: 'Cannot use VLAN 7 of "eth1": it is used by "eth1.7" in the namespace of the master, of other',
  }
  const taken = new TestAttaching([master, holder], eexist)
  expect(refusalOf(() => add(taken.attaching, config))).toMatchObject(refusal)
  const status = (...links: KernelLink[]) => requireVlan({ host: new LinksKernel(links).socket as RouteSocket }, config)
  expect(refusalOf(() => status(master, holder))).toMatchObject(refusal)
  expect(refusalOf(() => status(master, { ...made, name: "eth1.7" })).message).toBe(
    'Cannot use VLAN 7 of "eth1": it is used by "eth1.7" in the namespace of the master',
  )
  for (const other of [
    { ...holder, link: 4 },
    { ...holder, linkNetnsId: 0 },
    { ...holder, data: linkKinds.vlan.encode({ ...data, id: 8 }) },
    { ...holder, data: linkKinds.vlan.encode({ ...data, protocol: 0x8100 }) },
  ])
    status(master, other)
})

test("who has a VLAN is looked for where its master is", () => {
  const kernel = (...links: KernelLink[]) => new LinksKernel(links).socket as RouteSocket
  const holder: KernelLink = { ...made, name: "eth1.7", alias: "other" }
  const [parent, having, without] = [linkOf(master), kernel(master, holder), kernel(master)]
  const find = (host: RouteSocket, inside: RouteSocket, linkInContainer: boolean) =>
    findVlanTaken({ ...new TestAttaching([]).attaching, host, inside }, parent, { ...config, linkInContainer })?.message
  const message = 'Cannot use VLAN 7 of "eth1": it is used by "eth1.7" in the namespace of the master, of other'
  expect([find(having, without, false), find(without, having, true)]).toEqual([message, message])
})

test("a name that is taken is no VLAN that is taken", () => {
  const eexist = { refusal: ({ type }: { type: number }) => (type === 16 ? 17 : 0) }
  const { attaching } = new TestAttaching([master, { index: 4, name: "eth0" }], eexist)
  expect(refusalOf(() => add(attaching, config))).toMatchObject({
    code: 11,
    message: 'Cannot create vlan "eth0" on "eth1" in "/run/netns/c1"',
  })
})

test("CHECK compares VLAN, protocol, MTU and master", () => {
  const check = (link: Partial<KernelLink>, keys: Partial<VlanConfig> = {}) =>
    checkVlan(new TestAttaching([master]).checking({ ...made, ...link }), { ...config, ...keys })
  check({})
  check({ mtu: 1300 }, { mtu: undefined })
  check({ link: 8 }, { master: undefined })
  expect(() => check({}, { vlanId: 8 })).toThrow('VLAN of "eth0"')
  expect(() => check({ kind: "veth", data: new Uint8Array() })).toThrow('VLAN of "eth0"')
  expect(() => check({}, { protocol: "802.1q" })).toThrow('protocol of "eth0"')
  expect(() => check({ mtu: 1401 })).toThrow('MTU of "eth0"')
  expect(() => check({ link: 4 })).toThrow('master of "eth0"')
})
