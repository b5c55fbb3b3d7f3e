import { expect, test } from "bun:test"
import type { Link, RouteSocket } from "../netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../netlink/testing/links.ts"
import { CniError } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { forEach, giveBack, isHardware, isOf, restoreDevice } from "./move.ts"
import type { Former } from "./record.ts"

const names = ["lab:c1:eth0", "ens5:up:1400:0a-00-00-00-00-05:9:to%20the%20lab"]
const former: Former = { name: "ens5", alias: "to the lab", up: true, mtu: 1400, mac: "0a:00:00:00:00:05" }
const asIs: KernelLink = {
  ...{ index: 3, name: "ens5", flags: 1, mtu: 1400, mac: "0a:00:00:00:00:05", alias: "to the lab" },
  altNames: names,
}
const [RTM_NEWLINK, RTM_GETLINK, RTM_DELLINKPROP] = [16, 18, 109]
const [EBUSY, EEXIST, ENODEV, EINVAL] = [16, 17, 19, 22]

/** What is asked of the kernel, in order, and the refusal; `refused` is the errno for the n-th change of the link. */
function restore(link: Partial<KernelLink>, was?: Former, refused: readonly number[] = []) {
  const asked: number[] = []
  const kernel = new LinksKernel([], {
    refusal: ({ type }) => {
      asked.push(type)
      return type === RTM_NEWLINK ? (refused[asked.length - 1] ?? 0) : 0
    },
  })
  let message: string | undefined
  try {
    restoreDevice(kernel.socket as RouteSocket, linkOf({ ...asIs, ...link }), was)
  } catch (error) {
    if (!(error instanceof CniError)) throw error
    message = error.message
  }
  const changes = kernel.links.map(({ verb, index, change, flags, ...said }) =>
    change === 0 ? said : { ...said, up: flags === 1 },
  )
  return { changes, namesOff: kernel.others.map(({ type }) => type), asked: asked.length, message }
}

const bothOff = [RTM_DELLINKPROP, RTM_DELLINKPROP]

test.each<[string, Partial<KernelLink>, object[]]>([
  ["nothing but its state, when it is what it was", {}, [{ up: true }]],
  ["its name", { name: "dev3" }, [{ name: "ens5" }, { up: true }]],
  ["its alias", { alias: "ens5" }, [{ alias: "to the lab" }, { up: true }]],
  ["its alias, when it has none by now", { alias: undefined }, [{ alias: "to the lab" }, { up: true }]],
  ["its MAC", { mac: "0a:00:00:00:00:77" }, [{ mac: "0a:00:00:00:00:05" }, { up: true }]],
  ["its MTU", { mtu: 900 }, [{ mtu: 1400 }, { up: true }]],
  [
    "all of that, the name first and the state last",
    { name: "dev3", alias: "x", mac: "0a:00:00:00:00:77", mtu: 900 },
    [{ name: "ens5" }, { alias: "to the lab" }, { mac: "0a:00:00:00:00:05" }, { mtu: 1400 }, { up: true }],
  ],
])("a device gets back %s; then its record goes", (_, link, changes) => {
  expect(restore(link, former)).toMatchObject({ changes, namesOff: bothOff, message: undefined })
  expect(restore(link)).toMatchObject({ changes, namesOff: bothOff }) // the record says the same
})

test("what is not known of it stays, and so does what needs no record", () => {
  expect(restore({ name: "dev3", mtu: 900, mac: "0a:00:00:00:00:77" }, { name: "ens5", alias: "" }).changes).toEqual([
    { name: "ens5" },
    { alias: "" },
  ])
  expect(restore({ alias: undefined, altNames: [] }, { name: "ens5", alias: "" }).changes).toEqual([])
  expect(restore({ mtu: 900, altNames: ["lab:c1:eth0"] })).toMatchObject({ changes: [], namesOff: [RTM_DELLINKPROP] })
  expect(restore({}, { ...former, up: false }).changes).toEqual([{ up: false }])
})

test("a name that cannot be given back leaves everything as it is, the record too", () => {
  expect(restore({ name: "dev3", mtu: 900 }, former, [EEXIST])).toEqual({
    ...{ changes: [], namesOff: [], asked: 1 },
    message: 'Cannot restore name of "ens5"',
  })
})

test("of other refusals the rest is tried; the record goes unless a next DEL may do better", () => {
  const changed = { alias: "x", mtu: 900 }
  const message = 'Cannot restore alias of "ens5"'
  const rest = [{ mtu: 1400 }, { up: true }]
  expect(restore(changed, former, [EINVAL])).toMatchObject({ changes: rest, namesOff: bothOff, message })
  expect(restore(changed, former, [EBUSY])).toMatchObject({ changes: rest, namesOff: [], message })
})

test("hardware is what was not made by netlink, or has a device above it", () => {
  const hardware = (kind: string, parentName?: string) =>
    isHardware({ kind, attributes: parentName === undefined ? {} : { parentName } } as Link)
  expect([hardware(""), hardware("veth"), hardware("", "0000:03:00.0"), hardware("mlx5", "mlx5_core.sf.4")]).toEqual([
    ...[true, false, true, true],
  ])
})

test("a record is one of the wanted owners' for the namespace that it says, if that is asked", () => {
  const isOfLab = (inode?: bigint) => isOf((owner) => owner === "lab/c1/eth0", inode)
  expect(isOfLab()(linkOf(asIs))).toBe(true)
  expect([isOfLab(9n)(linkOf(asIs)), isOfLab(8n)(linkOf(asIs))]).toEqual([true, false])
  expect(isOfLab()(linkOf({ ...asIs, altNames: ["lab:c2:eth0"] }))).toBe(false)
  expect(isOf((owner) => owner !== "")(linkOf({ ...asIs, altNames: [] }))).toBe(false)
})

test("each device of a list is tried, and that there was none is told", () => {
  const seen: number[] = []
  expect(forEach([], () => {})).toBe(false)
  expect(forEach([1], () => {})).toBe(true)
  const refusal = refusalOf(() =>
    forEach([1, 2], (item) => {
      seen.push(item)
      throw new Error("no")
    }),
  )
  expect(seen).toEqual([1, 2])
  expect(refusal.message).toBe("2 steps failed: Cannot give back a device; Cannot give back a device")
})

/** A container's eth0 that goes back to a host, which has it from the second look on; the n-th change inside is refused. */
function goBack(link: Partial<KernelLink> = {}, refused = 0, beside: KernelLink[] = []) {
  const eth0: KernelLink = { ...asIs, name: "eth0", alias: "ens5", ...link }
  let changes = 0
  const inside = new LinksKernel([eth0, ...beside], {
    refusal: ({ type }) => (type === RTM_NEWLINK && ++changes === refused ? EEXIST : 0),
  })
  let looks = 0
  const host = new LinksKernel([asIs], { refusal: ({ type }) => (type === RTM_GETLINK && ++looks === 1 ? ENODEV : 0) })
  const go = () => giveBack(host.socket as RouteSocket, inside.socket as RouteSocket, linkOf(eth0))
  const asked = () =>
    inside.links.map(({ verb, index, flags, change, netnsFd, ...said }) => ({
      ...said,
      ...(change === 0 ? {} : { up: flags === 1 }),
      ...(netnsFd === undefined ? {} : { moves: true }),
    }))
  return { go, asked, host }
}

test("a device is down and has its former name before it goes, which older kernels and udev insist on", () => {
  const { go, asked, host } = goBack()
  go()
  expect(asked()).toEqual([{ up: false }, { name: "ens5" }, { name: "ens5", alias: "to the lab", moves: true }])
  expect(host.links.map(({ flags }) => flags)).toEqual([1])
  expect(host.others.map(({ type }) => type)).toEqual(bothOff)
})

test.each<[string, Partial<KernelLink>, KernelLink[]]>([
  ["it has its name already", { name: "ens5" }, []],
  ["another of the container has it", {}, [{ index: 9, name: "ens5" }]],
])("where %s the name comes with the move alone", (_, link, beside) => {
  const { go, asked } = goBack(link, 0, beside)
  go()
  expect(asked()).toEqual([{ up: false }, { name: "ens5", alias: "to the lab", moves: true }])
})

test.each([
  [1, true],
  [0, false],
])("a device that the kernel does not let go has its name again, and its state: flags %d", (flags, up) => {
  const { go, asked, host } = goBack({ flags }, 3)
  const refusal = refusalOf(go)
  expect(refusal.message).toBe('Cannot give back "eth0" as "ens5"')
  expect(refusal.details).toContain("EEXIST")
  expect(asked()).toEqual([{ up: false }, { name: "ens5" }, { name: "eth0", up }])
  expect(host.links).toEqual([])
})
