import { expect, test } from "bun:test"
import { type KernelLink, LinksKernel, linkOf } from "../netlink/testing/links.ts"
import type { Result } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import {
  checkHostEnd,
  checkInterface,
  checkMac,
  checkSetting,
  checkUp,
  describeInterface,
  expectInterface,
  findRecordedOnHost,
  noHostEnd,
  readRecorded,
} from "./check.ts"

const eth0: KernelLink = { index: 5, name: "eth0", kind: "macvlan", flags: 1, mac: "0a:00:00:00:00:05", mtu: 1400 }
const link = linkOf(eth0)
const says = (action: () => unknown) => refusalOf(action).message

const answered: Result = {
  interfaces: [{ name: "eth0" }, { name: "eth0", sandbox: "/old" }, { name: "eth0", sandbox: "/ns", mtu: 1400 }],
  ips: [{ address: "10.1.0.5/24", interface: 2 }, { address: "10.2.0.5/24", interface: 0 }, { address: "10.3.0.5/24" }],
  routes: [],
  dns: {},
}

test("CHECK is about the last interface of that name in a sandbox, and the addresses that belong to it", () => {
  expect(readRecorded({ network: { prevResult: answered }, ifName: "eth0" })).toEqual({
    prevResult: answered,
    interface: { name: "eth0", sandbox: "/ns", mtu: 1400 },
    ips: [{ address: "10.1.0.5/24", interface: 2 }],
    addresses: [{ ip: Uint8Array.of(10, 1, 0, 5), prefix: 24 }],
  })
})

test("CHECK without a prevResult is code 7, and one without the interface is a difference", () => {
  expect(refusalOf(() => readRecorded({ network: {}, ifName: "eth0" }))).toMatchObject({
    code: 7,
    message: 'Cannot check "eth0": prevResult is missing',
  })
  for (const ifName of ["eth1", ""]) {
    expect(says(() => readRecorded({ network: { prevResult: answered }, ifName }))).toBe(
      `Check of prevResult failed: expected the interface "${ifName}" in a sandbox, found none`,
    )
  }
})

test.each([
  ["eth0", "veth", "a veth", 'kind "macvlan"'],
  ["eth1", "veth", "a veth", "none"],
  ["eth1", undefined, "an interface of any kind", "none"],
] as const)("%s as an interface of kind %p is a difference that is told", (ifName, kind, expected, found) => {
  const { socket } = new LinksKernel([eth0])
  expect(says(() => expectInterface(socket, { ifName, netns: "/ns" }, kind))).toBe(
    `Check of interface "${ifName}" in "/ns" failed: expected ${expected}, found ${found}`,
  )
})

test("an interface of the kind, or of any where the chain may have made it, is returned", () => {
  const { socket } = new LinksKernel([eth0])
  for (const kind of ["macvlan", undefined] as const)
    expect(expectInterface(socket, { ifName: "eth0", netns: "/ns" }, kind).index).toBe(link.index)
})

test("a kind without an end on the host is named", () => {
  expect(noHostEnd(link).message).toBe(
    'Check of interface "eth0" failed: expected a veth with its peer on the host, found kind "macvlan"',
  )
})

test("a setting is told by its words, and by its number where it has no word", () => {
  const words = { bridge: 4, private: 1 }
  checkSetting("mode", words, "bridge", 4)
  expect(says(() => checkSetting("mode", words, "bridge", 1))).toBe(
    'Check of mode failed: expected "bridge", found "private"',
  )
  expect(says(() => checkSetting("mode", words, "bridge", 9))).toEndWith('found "9"')
})

test("MAC and MTU are compared as far as the result says them, in digits of either case", () => {
  checkInterface(link, { name: "eth0" })
  checkInterface(link, { name: "eth0", mac: "0A:00:00:00:00:05", mtu: 1400 })
  expect(says(() => checkMac(link, { name: "eth0", mac: "0a:00:00:00:00:06" }))).toBe(
    'Check of MAC of "eth0" failed: expected 0a:00:00:00:00:06, found 0a:00:00:00:00:05',
  )
  expect(says(() => checkInterface(link, { name: "eth0", mac: "0a:00:00:00:00:06" }))).toContain("MAC")
  expect(says(() => checkInterface(link, { name: "eth0", mtu: 1500 }))).toBe(
    'Check of MTU of "eth0" failed: expected 1500, found 1400',
  )
})

test("what a result says of the host's interfaces is found by name, outside of sandboxes", () => {
  expect(findRecordedOnHost(answered, link)).toEqual({ name: "eth0" })
  expect(findRecordedOnHost(answered, linkOf({ ...eth0, name: "eth1" }))).toBeUndefined()
  const inside = { ...answered, interfaces: answered.interfaces.slice(1) }
  expect(findRecordedOnHost(inside, link)).toBeUndefined()
})

test("a link that is down is a difference, with any other flags", () => {
  checkUp(link, "interface")
  expect(says(() => checkUp(linkOf({ ...eth0, flags: 2 }), "interface"))).toBe(
    'Check of interface "eth0" failed: expected up, found down',
  )
})

const owner = { network: "lab", containerId: "c1", ifName: "eth0" }

test.each<[string, Partial<KernelLink>, number | undefined]>([
  ["with its owner's alias and its MTU", { alias: "lab/c1/eth0" }, 1400],
  ["without an alias, as the Go suite makes it", {}, 1400],
  ["of any MTU where none is known", { mtu: 9000 }, undefined],
])("the host's end %s is as it should be", (_, said, mtu) => {
  expect(() => checkHostEnd(linkOf({ ...eth0, ...said }), owner, { mtu })).not.toThrow()
})

test.each<[string, Partial<KernelLink>, string]>([
  ["that is down", { flags: 0 }, 'host interface "eth0" failed: expected up, found down'],
  [
    "of another owner",
    { alias: "lab/c2/eth0" },
    'alias of host interface "eth0" failed: expected lab/c1/eth0, found lab/c2/eth0',
  ],
  ["of another MTU", { mtu: 9000 }, 'MTU of host interface "eth0" failed: expected 1400, found 9000'],
])("the host's end %s is a difference", (_, said, message) => {
  expect(says(() => checkHostEnd(linkOf({ ...eth0, ...said }), owner, { mtu: 1400 }))).toBe(`Check of ${message}`)
})

test("a link is described by name, MAC and MTU", () => {
  expect(describeInterface(link)).toEqual({ name: "eth0", mac: "0a:00:00:00:00:05", mtu: 1400 })
})
