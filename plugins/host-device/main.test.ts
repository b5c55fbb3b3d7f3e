import { expect, test } from "bun:test"
import { nothingLeased, TestAttaching } from "../../pkg/attachment/testing/attaching.ts"
import { IFF_UP } from "../../pkg/netlink/mod.ts"
import type { KernelLink } from "../../pkg/netlink/testing/links.ts"
import type { HostDeviceConfig, Selector } from "./config.ts"
import { attachDevice, checkDevice, hostDevice } from "./main.ts"

const mac = "0a:00:00:00:00:05"
const byName: Selector = { by: "name", key: "device", text: "ens5" }
const byMac: Selector = { by: "mac", key: "hwaddr", text: mac }
const configFor = (selector: Selector | undefined) =>
  ({ selector, pci: undefined, mtu: undefined, dns: undefined, ipam: undefined }) satisfies HostDeviceConfig

const device: KernelLink = { index: 5, name: "ens5", mac, mtu: 1400, flags: IFF_UP }
const record = ["lab:c1:eth0", "ens5:up:1400:0a-00-00-00-00-05:9:"]
/** The device once it is in the container. */
const moved: KernelLink = { index: 7, name: "eth0", mac: "0a:00:00:00:00:77", altNames: record }

const inode = 9n

/** ADD of a device that the host has like this; answers the changes of links until it is moved, and what ADD answered. */
function attach(onHost: KernelLink, selector: Selector | undefined) {
  const { attaching, kernel } = new TestAttaching([onHost, moved])
  const sandbox = { fd: 77, inode, run: <T>(action: () => T) => action() }
  const config = configFor(selector)
  const answered = attachDevice({ ...attaching, sandbox } as never, () => nothingLeased, config)
  const changes: object[] = kernel.links.map(({ flags, change, ...rest }) => (change === 0 ? rest : { ...rest, flags }))
  return { answered, changes, others: kernel.others.map(({ type }) => type) }
}

const move = { verb: "set", index: 5, netnsFd: 77, name: "eth0", alias: "ens5" }
const raise = { verb: "set", index: 7, flags: IFF_UP }
const [RTM_NEWLINKPROP, RTM_DELLINKPROP] = [108, 109]

test("the plugin has its name", () => {
  expect(hostDevice.name).toBe("host-device")
})

test("ADD writes on the device whose it is and what it was, moves it, brings it up, and answers it", () => {
  expect(attach(device, byName)).toEqual({
    answered: [{ name: "eth0", mac: "0a:00:00:00:00:77", mtu: 1500, sandbox: "/run/netns/c1" }],
    changes: [move, raise],
    others: [RTM_NEWLINKPROP, RTM_NEWLINKPROP],
  })
})

test("where no device is chosen yet the container has none", () => {
  const { answered, changes } = attach(device, undefined)
  expect([answered, changes]).toEqual([[{ name: "eth0", sandbox: "/run/netns/c1" }], []])
})

const renamed = { verb: "set", index: 5, name: "ens5" }
const unaliased = { verb: "set", index: 5, alias: "" }

test.each<[string, KernelLink, Selector, object[]]>([
  [
    "with its record",
    { ...device, name: "dev5", mtu: 1300, altNames: record },
    byMac,
    [renamed, { verb: "set", index: 5, mtu: 1400 }, { verb: "set", index: 5, flags: IFF_UP }],
  ],
  ["with the Go suite's alias", { ...device, name: "dev5", alias: "ens5" }, byName, [renamed, unaliased]],
  ["likewise, chosen by its MAC", { ...device, name: "dev5", alias: "ens5" }, byMac, [renamed, unaliased]],
  ["not, chosen by its MAC, with a name that a host has given", { ...device, name: "up0", alias: "ens5" }, byMac, []],
  ["not, with an alias that is no name", { ...device, name: "dev5", alias: "to the lab" }, byMac, []],
  ["not, with its name as alias", { ...device, alias: "ens5" }, byName, []],
])("a device that the kernel has put on the host is restored before it is moved: %s", (_, link, selector, restored) => {
  const { changes } = attach(link, selector)
  expect(changes).toEqual([...restored, { ...move, alias: link.name }, raise])
})

test("what was written on a device that is restored is taken off", () => {
  const { others } = attach({ ...device, name: "dev5", altNames: record }, byMac)
  expect(others.slice(0, 2)).toEqual([RTM_DELLINKPROP, RTM_DELLINKPROP])
})

test.each<[string, KernelLink, Selector | undefined, string | undefined]>([
  ["the device with its record", moved, byName, undefined],
  ["the device that the Go suite has moved", { ...moved, altNames: [], alias: "ens5" }, byName, undefined],
  [
    "a device with a record for another namespace",
    { ...moved, altNames: ["lab:c2:eth0", record[1] ?? ""].map((text) => text.replace(":9:", ":8:")) },
    byName,
    undefined,
  ],
  ["no choice", moved, undefined, undefined],
  [
    "a link that was made",
    { ...moved, altNames: [], kind: "dummy" },
    byName,
    'device "eth0" failed: expected a device of the host, found a new one of kind "dummy"',
  ],
  [
    "another's device",
    { ...moved, altNames: ["lab:c2:eth0", record[1] ?? ""] },
    byName,
    'owner of "eth0" failed: expected lab/c1/eth0, found lab/c2/eth0',
  ],
  [
    "another device",
    moved,
    { ...byName, text: "ens6" },
    'device "eth0" failed: expected "ens6" of the host, found "ens5"',
  ],
])("CHECK compares whose the device is, and which: %s", (_, link, selector, refused) => {
  const checking = { ...new TestAttaching([]).checking(link), sandbox: { inode } } as never
  const check = () => checkDevice(checking, configFor(selector))
  if (refused === undefined) check()
  else expect(check).toThrow(refused)
})
