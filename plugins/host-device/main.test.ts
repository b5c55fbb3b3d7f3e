import { expect, test } from "bun:test"
import { nothingLeased, TestAttaching } from "../../pkg/attachment/testing/attaching.ts"
import type { KernelLink } from "../../pkg/netlink/testing/links.ts"
import type { HostDeviceConfig, Selector } from "./config.ts"
import { attachDevice, checkDevice, hostDevice } from "./main.ts"

const byName: Selector = { by: "name", key: "device", text: "ens5" }
const configFor = (selector: Selector | undefined) =>
  ({
    selector,
    pciBusID: undefined,
    mtu: undefined,
    acceptRa: undefined,
    dns: undefined,
    ipam: undefined,
  }) satisfies HostDeviceConfig

/** The device after the Go suite has moved it into a container. */
const moved: KernelLink = { index: 7, name: "eth0", mac: "0a:00:00:00:00:77", alias: "ens5" }

test("the plugin has its name", () => {
  expect(hostDevice.name).toBe("host-device")
})

test("where no device is chosen yet the container has none", () => {
  const { attaching, kernel } = new TestAttaching([moved])
  const answered = attachDevice(attaching, () => nothingLeased, configFor(undefined))
  expect([answered, kernel.links]).toEqual([[{ name: "eth0", sandbox: "/run/netns/c1" }], []])
})

test.each<[string, KernelLink, Selector | undefined, string | undefined]>([
  ["the device that the Go suite has moved", moved, byName, undefined],
  ["no choice", moved, undefined, undefined],
  [
    "a link that was made",
    { ...moved, alias: undefined, kind: "dummy" },
    byName,
    'device "eth0" failed: expected a device of the host, found a new one of kind "dummy"',
  ],
  [
    "another device",
    moved,
    { ...byName, text: "ens6" },
    'device "eth0" failed: expected "ens6" of the host, found "ens5"',
  ],
])("CHECK compares of a device without a record which it says it is: %s", (_, link, selector, refused) => {
  const check = () => checkDevice(new TestAttaching([]).checking(link), configFor(selector))
  if (refused === undefined) check()
  else expect(check).toThrow(refused)
})
