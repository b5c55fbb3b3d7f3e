import { expect, test } from "bun:test"
import type { Ifindex } from "../netlink/mod.ts"
import { type KernelLink, linkOf } from "../netlink/testing/links.ts"
import { chooseInside, findAmong } from "./find.ts"
import { identityOf } from "./identity.ts"
import { describeDevice } from "./record.ts"

const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
const mark = "lab:c1:eth0"
const card: KernelLink = {
  index: 5,
  name: "ens5",
  parentName: "0000:03:00.0",
  parentBus: "pci",
  permanentMac: "0a:00:00:00:00:05",
}
const { permanentMac: _, ...withoutMac } = card
const pair: KernelLink = { index: 5, name: "ens5", kind: "veth", link: 9 }
const apart: KernelLink = { ...pair, linkNetnsId: 4 }
const dummy: KernelLink = { index: 5, name: "ens5", kind: "dummy" }

function find(was: KernelLink, ...links: KernelLink[]): string | undefined {
  const place = { netns: 4026532547n, nsid: 3, index: 7 as Ifindex }
  return findAmong(links.map(linkOf), { owner, record: { ...describeDevice(linkOf(was)), ...place } })?.name
}

const back = { index: 30, name: "cni0", alias: "lan/x/eth0", altNames: ["other:b:eth0"], mac: "0a:00:00:00:00:77" }

test.each<[string, KernelLink, Partial<KernelLink>, boolean]>([
  ["a card under any name, by its bus and the MAC that it came with", card, {}, true],
  ["a card of another bus", card, { parentName: "0000:04:00.0" }, false],
  ["another card on the same bus, such as the second port", card, { permanentMac: "0a:00:00:00:00:06" }, false],
  ["a VLAN on the card, which has its MAC", card, { kind: "vlan", link: 5 }, false],
  ["the end of a pair without the mark", pair, {}, false],
  ["the end of a pair with the mark", pair, { altNames: [mark] }, true],
  ["the end of another pair with the mark", pair, { link: 10, altNames: [mark] }, false],
  ["the end of a pair that leads to a namespace", pair, { linkNetnsId: 2, altNames: [mark] }, false],
  ["the end of a pair that led to a namespace, without the mark", apart, {}, false],
  ["that end with the mark", apart, { altNames: [mark] }, true],
  ["a dummy with another index, without the mark", dummy, {}, false],
  ["a dummy with the mark", dummy, { altNames: [mark] }, true],
  ["a link of another kind with the mark", dummy, { kind: "veth", link: 9, altNames: [mark] }, false],
])("on the host %s", (_, was, change, isFound) => {
  expect(find(was, { ...was, ...back, ...change })).toBe(isFound ? "cni0" : undefined)
  // The device was never moved. A virtual link is then found only by its mark.
  const never = { ...was, index: 5, name: "as-was" }
  expect(find(was, never)).toBe(was === card ? "as-was" : undefined)
  expect(find(was, { ...never, altNames: [mark] })).toBe("as-was")
})

test("of two that are alike it is the one with the mark, or the index of before; without these neither is it", () => {
  const first = { ...withoutMac, ...back, name: "first" }
  const second = { ...withoutMac, ...back, index: 31, name: "second" }
  expect(find(withoutMac, first, second)).toBeUndefined()
  expect(find(withoutMac, first, { ...second, altNames: [mark] })).toBe("second")
  expect(find(withoutMac, first)).toBe("first")
  expect(find(withoutMac, first, withoutMac)).toBe("ens5") // an ADD that was killed before it moved the device
})

const port = (permanentMac: string, index: number): KernelLink => ({
  ...card,
  permanentMac,
  index,
  name: `port${index}`,
})

test.each<[string, KernelLink | undefined, KernelLink[], string | undefined]>([
  ["the one at its index with its MAC", card, [], "ens5"],
  ["of two ports with exchanged indexes the one with its MAC", port("0a:00:00:00:00:06", 5), [card], "ens5"],
  ["a virtual function whose MAC its owner has changed", port("0a:00:00:00:00:06", 5), [], "port5"],
  ["one with another index", undefined, [{ ...card, index: 8 }], "ens5"],
  ["none of several with its MAC", undefined, [card, { ...card, index: 8 }], undefined],
  ["none with another MAC and index", undefined, [port("0a:00:00:00:00:06", 8)], undefined],
])("inside a card is %s [S86]", (_, atIndex, others, found) => {
  const links = [...(atIndex ? [atIndex] : []), ...others].map(linkOf)
  const seen = { atIndex: atIndex && linkOf(atIndex), list: () => links }
  expect(chooseInside(identityOf(linkOf(card)), seen, (link) => identityOf(link))?.name).toBe(found as string)
})
