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
import { acknowledge, reply, ScriptedKernel } from "../netlink/testing.ts"
import { findHostEnd } from "./host-end.ts"

// <linux/rtnetlink.h>, <asm/errno.h>
const [RTM_NEWLINK, RTM_GETLINK, RTM_NEWNSID, RTM_GETNSID] = [16, 18, 88, 90]
const ENODEV = 19

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
  return readLink({ type: RTM_NEWLINK, flags: 0, sequence: 0, payload: answer(said) })
}

/** Returns a host with one link, and with this nsid for the container's namespace (-1 for none). */
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
  expect(hostWith({ index: 7, link: 2, linkNetnsId: 3 }, -1).find(inside)).toBeUndefined() // the container's namespace has no nsid
  expect(hostWith({ index: 7, link: 2, linkNetnsId: -1 }, -1).find(inside)).toBeUndefined() // the peer's namespace is being deleted
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
