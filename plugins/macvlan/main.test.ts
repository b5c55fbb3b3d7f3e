import { expect, test } from "bun:test"
import type { Attaching } from "../../pkg/attachment/mod.ts"
import { nothingLeased, TestAttaching } from "../../pkg/attachment/testing/attaching.ts"
import { IFF_UP, linkKinds } from "../../pkg/netlink/mod.ts"
import { type KernelLink, nsid } from "../../pkg/netlink/testing/links.ts"
import type { Verb } from "../../pkg/skel/mod.ts"
import { type JsonObject, parseNetworkConfig } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { type MacvlanConfig, parseMacvlanConfig } from "./config.ts"
import { attachMacvlan, checkMacvlan, macvlan, prepareMaster, requireUsableMaster } from "./main.ts"

const master: KernelLink = { index: 3, name: "eth1", flags: IFF_UP, mtu: 1500 }

function parse(keys: JsonObject = {}, verb: Verb = "ADD", args = ""): MacvlanConfig {
  const raw = { cniVersion: "1.1.0", name: "lan", type: "macvlan", master: "eth1", ...keys }
  return parseMacvlanConfig(parseNetworkConfig(raw, { lenient: verb === "DEL" }), { verb, args, raw })
}

const add = (attaching: Attaching, config: MacvlanConfig) =>
  attachMacvlan(attaching, () => nothingLeased, config, prepareMaster(attaching, config))

test("the plugin has its name", () => {
  expect(macvlan.name).toBe("macvlan")
})

// MACVLAN_MODE_PRIVATE 1, VEPA 2, BRIDGE 4, PASSTHRU 8, <linux/if_link.h>.
test.each([
  [undefined, 4],
  ["", 4],
  ["bridge", 4],
  ["private", 1],
  ["vepa", 2],
  ["passthru", 8],
])("ADD makes the interface in the container on its master, in mode %p", (mode, number) => {
  const { attaching, kernel, undo } = new TestAttaching([master])
  const keys = { mtu: 1400, mac: "0A:00:00:00:00:07", bcqueuelen: 55, ...(mode === undefined ? {} : { mode }) }
  const answered = add(attaching, parse(keys))
  const [made, named, up] = kernel.links
  expect(made).toEqual({
    verb: "add",
    index: 0,
    flags: 0,
    change: 0,
    name: "eth0",
    link: 3,
    mtu: 1400,
    mac: "0a:00:00:00:00:07",
    linkNetnsId: nsid,
    kind: "macvlan",
    data: { mode: number, broadcastQueueLength: 55 },
  })
  expect(named).toEqual({ verb: "set", index: 0, flags: 0, change: 0, name: "eth0", alias: "lab/c1/eth0" })
  expect(up).toEqual({ verb: "set", index: 101, flags: IFF_UP, change: IFF_UP })
  expect(answered).toMatchObject([{ name: "eth0", mtu: 1400, mac: "0a:00:00:00:00:07", sandbox: "/run/netns/c1" }])
  undo[Symbol.dispose]()
  expect(kernel.links.at(-1)).toMatchObject({ verb: "delete", index: 101 })
})

test("with its master in the container it is made there, and what is not configured is left to the kernel", () => {
  const { attaching, kernel } = new TestAttaching([master])
  add(attaching, parse({ linkInContainer: true }))
  expect(Object.keys(kernel.links[0] ?? {}).sort()).toEqual(
    ["change", "data", "flags", "index", "kind", "link", "name", "verb"].sort(),
  )
  expect(kernel.links[0]?.data).toEqual({ mode: 4 })
})

test("ADD and STATUS refuse an MTU above the master's", () => {
  const { attaching, verbs } = new TestAttaching([master])
  const config = parse({ mtu: 1501, ipam: { type: "static" } })
  for (const mtu of [1501, 70_000, -1]) {
    const wrong = parse({ mtu, ipam: { type: "static" } })
    const message = `invalid MTU ${mtu}, must be [0, master MTU(1500)]`
    expect(refusalOf(() => prepareMaster(attaching, wrong)).message).toBe(message)
    expect(refusalOf(() => requireUsableMaster(attaching, wrong)).message).toBe(message)
  }
  requireUsableMaster(attaching, { ...config, mtu: 1500 })
  requireUsableMaster(attaching, { ...config, linkInContainer: true })
  expect(verbs).toEqual([])
})

test("STATUS of the plugin asks for its master", () => {
  const call = { raw: {}, network: { cniVersion: "1.1.0", name: "lan", type: "macvlan" } } as never
  expect(refusalOf(() => macvlan.status(call, parse({ master: "no-such-link0" })))).toMatchObject({
    code: 50,
    message: 'Cannot find the master interface "no-such-link0"',
  })
})

test("CHECK compares mode and master", () => {
  const made: KernelLink = { index: 9, name: "eth0", kind: "macvlan", link: 3 }
  const check = (mode: number, link = 3, keys: JsonObject = {}) => {
    const data = linkKinds.macvlan.encode({ mode })
    checkMacvlan(new TestAttaching([master]).checking({ ...made, link, data }), parse(keys))
  }
  check(4)
  check(1, 3, { mode: "private" })
  check(4, 8, { master: "" })
  expect(() => check(1)).toThrow('mode of "eth0"')
  expect(() => check(4, 8)).toThrow('master of "eth0"')
})

test.each([
  [{ mode: "other" }, 'Cannot use "mode": expected "bridge", "private", "vepa" or "passthru", found "other"'],
  [{ mode: 4 }, 'Cannot use "mode"'],
  [{ mtu: 67 }, 'Cannot use "mtu"'],
  [{ mac: "x" }, 'Cannot use "mac"'],
  [{ runtimeConfig: { mac: "x" } }, 'Cannot use "runtimeConfig.mac"'],
  [{ bcqueuelen: -1 }, 'Cannot use "bcqueuelen"'],
  [{ bcqueuelen: 4294967296 }, 'Cannot use "bcqueuelen"'],
  [{ linkInContainer: "yes" }, 'Cannot use "linkInContainer"'],
  [{ ipam: { type: 5 } }, "ipam.type"],
])("%j is code 7 or 6, and for DEL absent", (keys, message) => {
  expect(refusalOf(() => parse(keys)).message).toContain(message)
  expect(parse(keys, "DEL")).toMatchObject({ master: "eth1", mode: "bridge", mtu: undefined, mac: undefined })
})

test("every key, and the largest queue", () => {
  expect(
    parse({ ipam: { type: "dhcp" }, dns: { domain: "a" }, bcqueuelen: 4294967295, linkInContainer: true }),
  ).toMatchObject({
    master: "eth1",
    linkInContainer: true,
    mode: "bridge",
    bcqueuelen: 4294967295,
    mtu: undefined,
    mac: undefined,
    dns: { domain: "a" },
    ipam: "dhcp",
  })
  expect(parse({ mac: "0A:00:00:00:00:01", runtimeConfig: { mac: "0A:00:00:00:00:02" } }).mac).toBe("0a:00:00:00:00:02")
  expect(parse({ mac: "0a:00:00:00:00:01" }, "ADD", "MAC=0a:00:00:00:00:03").mac).toBe("0a:00:00:00:00:03")
  expect(parse({ mtu: 0, bcqueuelen: 0 })).toMatchObject({ mtu: undefined, bcqueuelen: undefined })
  expect(parse({ ipam: {}, master: "" })).toMatchObject({ ipam: undefined, master: undefined })
})
