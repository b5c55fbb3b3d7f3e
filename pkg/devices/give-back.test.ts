import { expect, test } from "bun:test"
import { IFF_UP, type RouteSocket } from "../netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../netlink/testing/links.ts"
import { refusalOf } from "../types/testing.ts"
import { giveBack } from "./move.ts"

/** Errnos, <asm-generic/errno-base.h>; requests, <linux/rtnetlink.h>. */
const [EBUSY, ENODEV] = [16, 19]
const [RTM_NEWLINK, RTM_GETLINK] = [16, 18]
/** Its length and its number, 28, <linux/if_link.h>. */
const IFLA_NET_NS_FD = "08001c00"

const altNames = ["lab:c1:eth0", "ens5:up:1400:0a-00-00-00-00-05:5:uplink"]
const device: KernelLink = { index: 7, name: "eth0", flags: IFF_UP, mac: "0a:00:00:00:00:06", mtu: 1500, altNames }

/** Gives the device back from a container that refuses its move with `errno`, to a host that has `onHost` after that. */
function giveBackRefused(errno: number, onHost?: KernelLink) {
  let moves = 0
  const inside = new LinksKernel([device], {
    refusal: ({ type, payload }) => {
      const isMove = type === RTM_NEWLINK && payload.toHex().includes(IFLA_NET_NS_FD)
      if (isMove) moves++
      return isMove || (type === RTM_GETLINK && moves > 0 && errno === ENODEV) ? errno : 0
    },
  })
  const host = new LinksKernel(onHost ? [onHost] : [], {
    refusal: ({ type }) => (type === RTM_GETLINK && moves === 0 ? ENODEV : 0),
  })
  const act = () => giveBack(host.socket as RouteSocket, inside.socket as RouteSocket, linkOf(device))
  return { act, host, inside }
}

test("a device that has gone home, though the answer that said so was lost, is restored there", () => {
  const { act, host } = giveBackRefused(ENODEV, { ...device, name: "ens5", flags: 0, alias: "uplink" })
  act()
  expect(host.links).toMatchObject([
    { verb: "set", index: 7, mac: "0a:00:00:00:00:05" },
    { verb: "set", index: 7, mtu: 1400 },
    { verb: "set", index: 7, flags: IFF_UP, change: IFF_UP },
  ])
})

test.each<[string, KernelLink | undefined]>([
  ["nothing", undefined],
  ["another device", { ...device, name: "ens5", mac: "0a:00:00:00:00:07" }],
  ["another's device", { ...device, name: "ens5", altNames: ["lab:c2:eth0"] }],
])("a device that has gone, with %s in its place on the host, is not said to be back", (_, onHost) => {
  const { act, host } = giveBackRefused(ENODEV, onHost)
  expect(refusalOf(act)).toMatchObject({ code: 999, message: 'Cannot give back "eth0" as "ens5"' })
  expect(host.links).toEqual([])
})

test("a device that the kernel keeps in the container is there as before, name and state", () => {
  const { act, inside } = giveBackRefused(EBUSY)
  expect(refusalOf(act)).toMatchObject({ message: 'Cannot give back "eth0" as "ens5"' })
  expect(inside.links).toMatchObject([
    { index: 7, flags: 0, change: IFF_UP },
    { index: 7, name: "ens5" },
    { index: 7, name: "eth0", flags: IFF_UP, change: IFF_UP },
  ])
})
