import { describe, expect, test } from "bun:test"
import type { Fd } from "../libc/mod.ts"
import {
  type Infer,
  type Link,
  linkAttributes,
  linkHeader,
  type Message,
  NETLINK_ROUTE,
  NetlinkSocket,
  readLink,
} from "../netlink/mod.ts"
import { acknowledge, hex, reply, ScriptedKernel, tree } from "../netlink/testing.ts"
import { refusalOf } from "../types/testing.ts"
import { findHostEnd, interfaceKinds, noKind, requireKind } from "./find.ts"

// <linux/rtnetlink.h>, <asm/errno.h>
const [RTM_NEWLINK, RTM_GETLINK, RTM_NEWNSID, RTM_GETNSID] = [16, 18, 88, 90]
const ENODEV = 19

/** What a namespace says of a link: its index, and what it leads to. */
interface Said {
  index: number
  link?: number
  linkNetnsId?: number
  kind?: string
}

function answer({ index, kind = "veth", ...attributes }: Said): Uint8Array {
  const header = linkHeader.encode({ family: 0, pad: 0, type: 1, index, flags: 0, change: 0 })
  const all: Infer<typeof linkAttributes> = { name: `link${index}`, ...attributes, linkInfo: { kind } }
  return new Uint8Array([...header, ...linkAttributes.encode(all)])
}

function linkOf(said: Said): Link {
  return readLink({ type: RTM_NEWLINK, flags: 0, sequence: 0, port: 0, payload: answer(said) })
}

/** A host with one link, which has a number for the container's namespace; −1 for none. */
function hostWith(said: Said, number = -1) {
  const kernel = new ScriptedKernel((request: Message) => {
    if (request.type === RTM_GETNSID) {
      const attribute = new Uint8Array(new Int32Array([0, 0x00010008, number]).buffer) // NETNSA_NSID
      return [reply(request, RTM_NEWNSID, attribute)]
    }
    const isThere = request.payload[4] === said.index
    return [isThere ? reply(request, RTM_NEWLINK, answer(said)) : acknowledge(request, ENODEV)]
  })
  const find = (container: Said, isOwn = false) =>
    findHostEnd(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), { fd: 9 as Fd, isOwn }, linkOf(container))?.name
  return { find, asked: () => kernel.requests.map(({ type }) => type) }
}

const inside = { index: 2, link: 7, linkNetnsId: 0 }

test("the host's end leads to the container's, in the container's namespace", () => {
  const { find, asked } = hostWith({ index: 7, link: 2, linkNetnsId: 3 }, 3)
  expect(find(inside)).toBe("link7")
  expect(asked()).toEqual([RTM_GETLINK, RTM_GETNSID])
})

test("a kernel that leaves out an index that is the same on both sides is understood", () => {
  expect(hostWith({ index: 2, linkNetnsId: 0 }, 0).find({ index: 2, linkNetnsId: 0 })).toBe("link2")
})

test("a link with the right indexes that leads to another namespace is a stranger", () => {
  expect(hostWith({ index: 7, link: 2, linkNetnsId: 3 }, 4).find(inside)).toBeUndefined()
  expect(hostWith({ index: 7, link: 2, linkNetnsId: 3 }, -1).find(inside)).toBeUndefined() // no link leads there
  expect(hostWith({ index: 7, link: 2, linkNetnsId: -1 }, -1).find(inside)).toBeUndefined() // its namespace is dying
})

describe("without a further question", () => {
  test.each<[string, Said, Said, number]>([
    ["a link of another kind", { ...inside, kind: "macvlan" }, { index: 7, link: 2, linkNetnsId: 3 }, 0],
    ["an index that the host does not have", { ...inside, link: 8 }, { index: 7, link: 2, linkNetnsId: 3 }, 1],
    ["a host's link of another kind", inside, { index: 7, kind: "bridge" }, 1],
    ["a host's link that leads to another index", inside, { index: 7, link: 3, linkNetnsId: 3 }, 1],
    ["a container's pair of its own", { index: 2, link: 7 }, { index: 7, link: 2, linkNetnsId: 3 }, 1],
    ["a host's pair of its own", inside, { index: 7, link: 2 }, 1],
  ])("%s is known to be none", (_, container, said, questions) => {
    const { find, asked } = hostWith(said, 3)
    expect(find(container)).toBeUndefined()
    expect(asked()).toHaveLength(questions)
  })
})

test("pairs with both ends in one namespace are the same pair only when the container has the host's namespace", () => {
  const { find, asked } = hostWith({ index: 7, link: 2 })
  expect(find({ index: 2, link: 7 })).toBeUndefined()
  expect(find({ index: 2, link: 7 }, true)).toBe("link7")
  expect(asked()).toEqual([RTM_GETLINK, RTM_GETLINK])
})

// <asm-generic/errno.h>
const [EPERM, EOPNOTSUPP, EADDRNOTAVAIL] = [1, 95, 99]

/** A kernel that answers the one question whether it has a kind of links. */
function kernelThatSays(errno: number) {
  const kernel = new ScriptedKernel((request: Message) => [acknowledge(request, errno)])
  return { kernel, host: new NetlinkSocket(NETLINK_ROUTE, 0, kernel) }
}

test("whether the kernel has a kind of links is asked by a request that cannot make one: no parent, and a group's MAC", () => {
  const { kernel, host } = kernelThatSays(EADDRNOTAVAIL)
  requireKind(host, "macvlan")
  const [request, ...others] = kernel.requests
  const layout = { header: 16, nested: { 18: { texts: [1] } } }
  expect(others).toEqual([])
  expect(tree(request?.payload ?? new Uint8Array(), layout)).toEqual(
    tree(
      hex`
      00000000000000000000000000000000
      0a00 0100 010000000000 0000
      0f00 0300 6e6f2d6d6163766c616e00 00
      1000 1200 0b00 0100 6d6163766c616e 00`,
      layout,
    ),
  )
})

test("a kernel without the kind is told from one that refuses the request, whatever for", () => {
  requireKind(kernelThatSays(EPERM).host, "vlan")
  const refusal = refusalOf(() => requireKind(kernelThatSays(EOPNOTSUPP).host, "vlan"))
  expect(refusal.message).toBe('Cannot create interfaces of kind "vlan"')
  expect(refusal.details).toBe('the kernel has no vlan: load the module "8021q"')
})

test.each([
  ["macvlan", "macvlan"],
  ["ipvlan", "ipvlan"],
  ["vlan", "8021q"],
  ["dummy", "dummy"],
  ["ifb", "ifb"],
  ["vrf", "vrf"],
] as const)("for links of kind %s the kernel needs the module %s", (kind, module) => {
  const details = `the kernel has no ${kind}: load the module "${module}"`
  expect(noKind(kind)).toBe(details)
  expect(refusalOf(() => requireKind(kernelThatSays(EOPNOTSUPP).host, kind))).toMatchObject({ code: 999, details })
})

test.each(["veth", "tun"] as const)("of kind %s the kernel is not asked", (kind) => {
  const { kernel, host } = kernelThatSays(EOPNOTSUPP)
  requireKind(host, kind)
  expect(kernel.requests).toEqual([])
  expect(noKind(kind)).toBe(`the kernel has no ${kind}: load the module "${kind}"`)
})

test("of all kinds the veth alone has an end on the host, and its owner's name there", () => {
  const onHost = Object.entries(interfaceKinds).filter(([, { owner }]) => owner === "host")
  expect(onHost.map(([kind]) => kind)).toEqual(["veth"])
})
