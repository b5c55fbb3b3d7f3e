import { expect, test } from "bun:test"
import { type Attaching, requireMaster } from "../../pkg/attachment/mod.ts"
import { nothingLeased, TestAttaching } from "../../pkg/attachment/testing/attaching.ts"
import { IFF_UP, linkKinds } from "../../pkg/netlink/mod.ts"
import { type KernelLink, nsid } from "../../pkg/netlink/testing/links.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import type { IpvlanConfig } from "./config.ts"
import { attachIpvlan, checkIpvlan, ipvlan } from "./main.ts"

const master: KernelLink = { index: 3, name: "eth1", flags: IFF_UP }
const config: IpvlanConfig = {
  master: "eth1",
  linkInContainer: false,
  mode: "l3",
  flag: "private",
  mtu: 1400,
  mac: undefined,
  dns: undefined,
  ipam: "static",
}

// IPVLAN_MODE_L3 is 1, IPVLAN_F_PRIVATE 1, <linux/if_link.h>.
const data = { mode: 1, flags: 1 }
const made: KernelLink = { index: 9, name: "eth0", kind: "ipvlan", link: 3, data: linkKinds.ipvlan.encode(data) }

const add = (attaching: Attaching, config: IpvlanConfig) =>
  attachIpvlan(attaching, () => nothingLeased, config, requireMaster(attaching, config))

test("the plugin has its name", () => {
  expect(ipvlan.name).toBe("ipvlan")
})

test("ADD makes the interface in the container on its master, names it for its owner, brings it up, and answers it", () => {
  const { attaching, kernel, undo } = new TestAttaching([master])
  const answered = add(attaching, config)
  const header = { index: 0, flags: 0, change: 0 }
  expect(kernel.links).toEqual([
    { verb: "add", ...header, name: "eth0", link: 3, linkNetnsId: nsid, mtu: 1400, kind: "ipvlan", data },
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

test("a master that does not exist is refused", () => {
  const { attaching, verbs } = new TestAttaching([])
  expect(refusalOf(() => add(attaching, config)).message).toBe('Cannot find the master interface "eth1"')
  expect(verbs).toEqual([])
})

test("STATUS of the plugin asks for its master", () => {
  const call = { raw: {}, network: { cniVersion: "1.1.0", name: "lan", type: "ipvlan" } } as never
  expect(refusalOf(() => ipvlan.status(call, { ...config, master: "no-such-link0" }))).toMatchObject({
    code: 50,
    message: 'Cannot find the master interface "no-such-link0"',
  })
})

test("CHECK compares mode, flag and master", () => {
  const check = (link: Partial<KernelLink>, keys: Partial<IpvlanConfig> = {}) =>
    checkIpvlan(new TestAttaching([master]).checking({ ...made, ...link }), { ...config, ...keys })
  check({})
  check({ link: 8 }, { master: undefined })
  expect(() => check({}, { mode: "l2" })).toThrow('mode of "eth0"')
  expect(() => check({}, { flag: "vepa" })).toThrow('flag of "eth0"')
  expect(() => check({ link: 4 })).toThrow('master of "eth0"')
})
