import { expect, test } from "bun:test"
import { type KernelLink, LinksKernel, linkOf, nsid } from "../netlink/testing/links.ts"
import { routePayload, type SaidRoute } from "../netlink/testing/routes.ts"
import { refusalOf } from "../types/testing.ts"
import {
  addInterface,
  checkMaster,
  checkParent,
  findMasterForStatus,
  requireMaster,
  requireMtuOfParent,
  requireParent,
} from "./interface.ts"
import { TestAttaching } from "./testing/attaching.ts"

const RTM_GETROUTE = 26
const [eth1, eth2, eth3] = [1, 2, 3].map((index): KernelLink => ({ index, name: `eth${index}`, mtu: 1500 })) as [
  KernelLink,
  KernelLink,
  KernelLink,
]

function hostWith(...routes: SaidRoute[]): LinksKernel {
  let asked = 0
  const listed = () => {
    asked++
    return routes.filter(({ family = 2 }) => (asked === 1 ? family === 2 : family === 10)).map(routePayload)
  }
  return new LinksKernel([eth1, eth2, eth3], { answers: { [RTM_GETROUTE]: listed } })
}

const parentOf = (...routes: SaidRoute[]) => requireParent(hostWith(...routes).socket, undefined).name

test.each<[string, string, SaidRoute[]]>([
  ["its route", "eth2", [{ oif: 2 }]],
  [
    "the lowest metric, and none is the lowest of all",
    "eth3",
    [{ oif: 1, priority: 100 }, { oif: 2, priority: 20 }, { oif: 3 }],
  ],
  [
    "the lowest metric, in any order",
    "eth2",
    [
      { oif: 2, priority: 5 },
      { oif: 1, priority: 100 },
      { oif: 3, priority: 20 },
    ],
  ],
  ["the first of several next hops", "eth3", [{ hops: [{ oif: 3 }, { oif: 2 }] }]],
  [
    "IPv4 before IPv6",
    "eth1",
    [
      { family: 10, oif: 2 },
      { oif: 1, priority: 900 },
    ],
  ],
  ["IPv6 alone", "eth2", [{ family: 10, oif: 2 }]],
  [
    "table main, a default, and a way that leads to a link",
    "eth3",
    [{ oif: 1, table: 77 }, { oif: 1, prefix: 8 }, { priority: 1 }, { oif: 3, priority: 9 }],
  ],
])("without a name the master is that of the default route: of %s", (_, name, routes) => {
  expect(parentOf(...routes)).toBe(name)
})

test("without a default route there is none to choose; its link may be gone, too", () => {
  for (const routes of [[], [{ priority: 1 }], [{ oif: 9 }]]) {
    expect(refusalOf(() => parentOf(...routes))).toMatchObject({
      code: 7,
      message: "Cannot choose the master interface: there is no default route",
      details: 'set "master" to the name of an interface',
    })
  }
})

test.each([
  [false, undefined],
  [true, '"linkInContainer" is set, so only the container was searched'],
])(
  "a master that does not exist is code 7; that it is looked for in the container, %p, is told",
  (isInside, details) => {
    expect(refusalOf(() => requireParent(hostWith().socket, "eth9", isInside))).toMatchObject({
      code: 7,
      message: 'Cannot find the master interface "eth9"',
      details,
    })
  },
)

const result = (...names: string[]) => ({ interfaces: names.map((name) => ({ name })), ips: [], routes: [], dns: {} })

function sides(prevResult?: ReturnType<typeof result>) {
  const call = { network: { cniVersion: "1.1.0", name: "lab", type: "x", ...(prevResult && { prevResult }) } }
  const host = new LinksKernel([eth1, eth2], { answers: { [RTM_GETROUTE]: [routePayload({ oif: 2 })] } }).socket
  return { call, host, inside: new LinksKernel([eth3]).socket } as unknown as Parameters<typeof requireMaster>[0]
}

test("the master is the one that is named, else the only interface of prevResult, else that of the default route", () => {
  const anywhere = { master: undefined, linkInContainer: false }
  expect(requireMaster(sides(result("eth2")), { ...anywhere, master: "eth1" }).name).toBe("eth1")
  expect(requireMaster(sides(result("eth1")), anywhere).name).toBe("eth1")
  expect(requireMaster(sides(), anywhere).name).toBe("eth2")
  expect(requireMaster(sides(result("eth3")), { ...anywhere, linkInContainer: true }).name).toBe("eth3")
  expect(refusalOf(() => requireMaster(sides(result("eth3")), anywhere)).message).toContain('"eth3"')
})

test.each([
  [[], "it has none: "],
  [["eth1", "eth2"], 'it has "eth1", "eth2": '],
])("of a prevResult with the interfaces %j none is chosen", (names, details) => {
  const refusal = refusalOf(() => requireMaster(sides(result(...names)), { master: undefined, linkInContainer: false }))
  expect(refusal).toMatchObject({
    code: 7,
    message: "Cannot choose the master interface: prevResult does not have exactly one interface",
    details: `${details}set "master" to the name of an interface`,
  })
})

test.each([
  [{ master: "eth1", linkInContainer: false, ipam: undefined }, "eth1"],
  [{ master: undefined, linkInContainer: false, ipam: "static" }, "eth2"],
  [{ master: undefined, linkInContainer: false, ipam: undefined }, undefined],
  [{ master: "eth3", linkInContainer: true, ipam: "static" }, undefined],
])("STATUS looks at the master of %j: %p", (config, name) => {
  expect(findMasterForStatus(sides().host, config)?.name).toBe(name)
})

test("CHECK finds the interface on the master that is named, on its side; without a name any will do", () => {
  const check = (link: number, master: string | undefined, linkInContainer = false) =>
    checkMaster({ ...sides(), link: linkOf({ ...eth3, name: "net1", link }) } as never, { master, linkInContainer })
  check(1, "eth1")
  check(3, "eth3", true)
  check(9, undefined)
  expect(refusalOf(() => check(2, "eth1")).message).toBe(
    'Check of master of "net1" failed: expected "eth1", found link number 2',
  )
  expect(refusalOf(() => check(1, "eth3")).message).toBe('Cannot find the master interface "eth3"')
  expect(() => checkParent(linkOf({ ...eth3, link: 2 }), linkOf(eth2))).not.toThrow()
})

test("an MTU may be as large as the parent's, or left to the kernel", () => {
  for (const mtu of [undefined, 68, 1500]) requireMtuOfParent(mtu, linkOf(eth1))
  expect(refusalOf(() => requireMtuOfParent(1501, linkOf(eth1)))).toMatchObject({
    code: 7,
    message: "invalid MTU 1501, must be [0, master MTU(1500)]",
  })
})

const spec = { kind: "macvlan", mtu: undefined, mac: undefined, data: {} } as const

test.each([
  [{}, undefined],
  [{ parent: linkOf(eth1) }, nsid],
  [{ parent: linkOf(eth1), parentInside: true }, undefined],
])("the kernel is told the parent's namespace where that is not the container's: %j", (parent, linkNetnsId) => {
  const { attaching, kernel, undo } = new TestAttaching([eth1])
  const made = addInterface(attaching, { ...spec, ...parent })
  expect(kernel.links[0]?.linkNetnsId).toBe(linkNetnsId)
  expect(made.name).toBe("eth0")
  expect(undo.changes).toEqual(['create macvlan "eth0"'])
})

// EBUSY, EEXIST, EINVAL, EOPNOTSUPP, EPERM; <asm-generic/errno.h>
test.each([
  ["macvlan", 16, 999, '"eth1" is a port of a bridge or a bond, or has links of another kind on it: '],
  ["macvlan", 22, 999, '"eth1" cannot have a macvlan, or has one that excludes others: '],
  ["macvlan", 95, 999, 'the kernel has no macvlan: load the module "macvlan": '],
  ["ipvlan", 95, 999, 'the kernel has no ipvlan: load the module "ipvlan": '],
  ["vlan", 95, 999, '"eth1" cannot have VLANs, or the kernel has no vlan: load the module "8021q": '],
  ["vlan", 16, 999, ""],
  ["macvlan", 17, 11, ""],
  ["macvlan", 1, 999, ""],
] as const)("a %s that the kernel refuses by errno %d is code %d, with the reason", (kind, errno, code, reason) => {
  const { attaching, undo } = new TestAttaching([eth1], { refusal: ({ type }) => (type === 16 ? errno : 0) })
  const refusal = refusalOf(() => addInterface(attaching, { ...spec, kind, parent: linkOf(eth1) }))
  expect(refusal).toMatchObject({ code, message: `Cannot create ${kind} "eth0" on "eth1" in "/run/netns/c1"` })
  expect(refusal.details?.replace(/E[A-Z]+$/, "ERRNO")).toBe(`${reason}create ${kind} "eth0": ERRNO`)
  expect(undo.changes).toEqual([])
})

test("an interface that needs no parent is refused without one", () => {
  const { attaching } = new TestAttaching([], { refusal: ({ type }) => (type === 16 ? 16 : 0) })
  const refusal = refusalOf(() => addInterface(attaching, { ...spec, kind: "dummy" }))
  expect(refusal.message).toBe('Cannot create dummy "eth0" in "/run/netns/c1"')
  expect(refusal.details).toBe('create dummy "eth0": EBUSY')
})
