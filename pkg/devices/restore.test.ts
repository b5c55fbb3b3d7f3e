import { expect, test } from "bun:test"
import { decodeUtf8 } from "../engine/mod.ts"
import type { Ifindex, RouteSocket } from "../netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../netlink/testing/links.ts"
import { refusalOf } from "../types/testing.ts"
import { describeDevice, type KeptRecord } from "./record.ts"
import { moveHome, restoreDevice } from "./restore.ts"

/** Errnos, <asm-generic/errno-base.h>, and requests, <linux/rtnetlink.h>. */
const [EBUSY, EEXIST, ENODEV, EINVAL] = [16, 17, 19, 22]
const [RTM_NEWLINK, RTM_GETLINK, RTM_NEWLINKPROP, RTM_DELLINKPROP] = [16, 18, 108, 109]

const asIs: KernelLink = {
  index: 3,
  name: "ens5",
  kind: "veth",
  link: 9,
  flags: 1,
  mtu: 1400,
  mac: "0a:00:00:00:00:05",
  alias: "to the lab",
  altNames: ["enp3s0"],
}
const owner = { network: "restore.test", containerId: "c1", ifName: "eth0" }
const place = { netns: 4026532547n, nsid: 3, index: 7 as Ifindex }

/** Restores a device. Returns the requests to the kernel in order. `refused` has errnos for changes of the link. */
function restore(link: Partial<KernelLink>, was: Partial<KernelLink> = {}, refused: readonly number[] = []) {
  let changes = 0
  const kernel = new LinksKernel([], { refusal: ({ type }) => (type === RTM_NEWLINK ? (refused[changes++] ?? 0) : 0) })
  const record = { ...describeDevice(linkOf({ ...asIs, ...was })), ...place }
  const act = () => restoreDevice(kernel.socket as RouteSocket, linkOf({ ...asIs, ...link }), { owner, record })
  const message = refused.length > 0 ? refusalOf(act).message : act()
  return {
    changes: kernel.links.map(({ verb, index, change, flags, ...said }) =>
      change === 0 ? said : { ...said, up: flags === 1 },
    ),
    names: kernel.others.map(({ type, payload }) => [type, decodeUtf8(payload.subarray(24)).replace(/\0+$/, "")]),
    message,
  }
}

test.each<[string, Partial<KernelLink>, object[]]>([
  ["nothing but its state, when it is what it was", {}, []],
  ["its name", { name: "dev3" }, [{ name: "ens5" }]],
  ["its alias", { alias: "ens5" }, [{ alias: "to the lab" }]],
  ["its alias, when it has none by now", { alias: undefined }, [{ alias: "to the lab" }]],
  ["its MAC", { mac: "0a:00:00:00:00:77" }, [{ mac: "0a:00:00:00:00:05" }]],
  ["its MTU", { mtu: 900 }, [{ mtu: 1400 }]],
  [
    "all of that, the name first",
    { name: "dev3", alias: "x", mac: "0a:00:00:00:00:77", mtu: 900 },
    [{ name: "ens5" }, { alias: "to the lab" }, { mac: "0a:00:00:00:00:05" }, { mtu: 1400 }],
  ],
])("a device gets back %s; the last is that it comes up", (_, link, changes) => {
  expect(restore(link)).toEqual({ changes: [...changes, { up: true }], names: [], message: undefined })
})

test("a device answers ARP again, and takes no more frames than it did", () => {
  const [IFF_NOARP, IFF_PROMISC, IFF_MULTICAST] = [0x80, 0x100, 0x1000]
  const kernel = new LinksKernel([])
  const record = { ...describeDevice(linkOf({ ...asIs, flags: IFF_MULTICAST })), ...place }
  restoreDevice(kernel.socket as RouteSocket, linkOf({ ...asIs, flags: IFF_NOARP | IFF_PROMISC }), { owner, record })
  expect(kernel.links.map(({ flags, change }) => [flags, change])).toEqual([
    [IFF_MULTICAST, 0x1380],
    [0, 1], // down, as before
  ])
})

test("a device that was down stays down, and so does one of which the container may hold the other end", () => {
  expect(restore({}, { flags: 0 }).changes).toEqual([{ up: false }])
  const tap = { kind: "tun", link: undefined } as unknown as Partial<KernelLink>
  expect(restore(tap, tap).changes).toEqual([{ up: false }])
  expect(restore({ kind: "dummy" }, { kind: "dummy" }).changes).toEqual([{ up: true }])
})

test("alternative names that it did not have go, and those that it had come back", () => {
  expect(restore({ altNames: ["cni0", "a:b:c"] }).names).toEqual([
    [RTM_DELLINKPROP, expect.stringContaining("cni0")],
    [RTM_NEWLINKPROP, "enp3s0"],
  ])
})

test("a name that cannot be given back leaves everything as it is", () => {
  expect(restore({ name: "dev3", mtu: 900 }, {}, [EEXIST])).toEqual({
    changes: [],
    names: [],
    message: 'Cannot restore name of "ens5"',
  })
})

test("of other refusals the rest is tried", () => {
  for (const errno of [EINVAL, EBUSY])
    expect(restore({ alias: "x", mtu: 900 }, {}, [errno])).toMatchObject({
      changes: [{ mtu: 1400 }, { up: true }],
      message: 'Cannot restore alias of "ens5"',
    })
})

const former = { name: "ens5", alias: "to the lab", altNames: ["enp3s0"] }
/** The length and the number of the attribute, 28, <linux/if_link.h>. */
const IFLA_NET_NS_FD = "08001c00"

/** Moves a container's eth0 to a host, which then has the link `onHost`. The kernel refuses the move with `errno`. */
function goHome(link: Partial<KernelLink> = {}, { errno = 0, onHost = asIs, beside = [] as KernelLink[] } = {}) {
  const eth0: KernelLink = { ...asIs, name: "eth0", alias: "ens5", altNames: ["a:b:c", "enp3s0"], ...link }
  let moves = 0
  const inside = new LinksKernel([eth0, ...beside], {
    refusal: ({ type, payload }) => {
      const isMove = type === RTM_NEWLINK && payload.toHex().includes(IFLA_NET_NS_FD)
      if (isMove) moves++
      return isMove || (type === RTM_GETLINK && moves > 0 && errno === ENODEV) ? errno : 0
    },
  })
  const host = new LinksKernel([onHost], {
    refusal: ({ type }) => (type === RTM_GETLINK && moves === 0 ? ENODEV : 0),
  })
  const go = (kept?: KeptRecord) =>
    moveHome(
      { host: host.socket as RouteSocket, inside: inside.socket as RouteSocket, link: linkOf(eth0) },
      former,
      kept,
    )
  const asked = () =>
    inside.links.map(({ verb, index, flags, change, netnsFd, ...said }) => ({
      ...said,
      ...(change === 0 ? {} : { up: flags === 1 }),
      ...(netnsFd === undefined ? {} : { moves: true }),
    }))
  return { go, asked, inside }
}

test("a device is down, and has its former names alone, before it goes", () => {
  const { go, asked, inside } = goHome()
  expect(go().name).toBe("ens5")
  expect(asked()).toEqual([{ up: false }, { name: "ens5" }, { name: "ens5", alias: "to the lab", moves: true }])
  expect(inside.others.map(({ type, payload }) => [type, payload.toHex().includes("613a623a63")])).toEqual([
    [RTM_DELLINKPROP, true], // a:b:c
  ])
})

test("a device with a record keeps its mark, and gets the index that it had where the host has no link of it", () => {
  const { go, asked, inside } = goHome({ altNames: ["enp3s0", "restore.test:c1:eth0"] })
  go({ owner, record: { ...describeDevice(linkOf({ ...asIs, index: 44 })), ...place } })
  expect(asked().at(-1)).toEqual({ name: "ens5", alias: "to the lab", moves: true, newIndex: 44 })
  expect(inside.others).toEqual([])
})

test.each<[string, Partial<KernelLink>, KernelLink[]]>([
  ["it has its name already", { name: "ens5" }, []],
  ["another of the container has it", {}, [{ index: 9, name: "ens5" }]],
])("where %s the name comes with the move alone", (_, link, beside) => {
  const { go, asked } = goHome(link, { beside })
  go()
  expect(asked()).toEqual([{ up: false }, { name: "ens5", alias: "to the lab", moves: true }])
})

test("links that sit on a device are deleted before it goes, and nothing else, not its other end either", () => {
  const beside: KernelLink[] = [
    { index: 9, name: "peer", kind: "veth", link: 3 }, // the device's peer is 9
    { index: 10, name: "m0", kind: "macvlan", link: 3 },
    { index: 11, name: "of-host", kind: "macvlan", link: 3, linkNetnsId: 0 },
    { index: 12, name: "alone", kind: "dummy" },
  ]
  const { go, inside } = goHome({}, { beside })
  go()
  expect(inside.links.filter(({ verb }) => verb === "delete").map(({ index }) => index)).toEqual([10])
})

test("a device that the kernel keeps in the container is there as before, name and state", () => {
  for (const flags of [0, 1]) {
    const { go, asked } = goHome({ flags }, { errno: EBUSY })
    expect(refusalOf(() => go())).toMatchObject({
      message: 'Cannot return "eth0" as "ens5"',
      details: expect.stringContaining("EBUSY"),
    })
    expect(asked()).toEqual([{ up: false }, { name: "ens5" }, { name: "eth0", up: flags === 1 }])
  }
})

test("a device is found on the host though the answer of its move was lost", () => {
  expect(goHome({}, { errno: ENODEV }).go().name).toBe("ens5")
  const { go } = goHome({}, { errno: ENODEV, onHost: { ...asIs, mac: "0a:00:00:00:00:07" } })
  expect(refusalOf(() => go())).toMatchObject({ code: 999, message: 'Cannot return "eth0" as "ens5"' })
})
