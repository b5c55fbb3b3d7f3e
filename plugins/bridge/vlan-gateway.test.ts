import { describe, expect, test } from "bun:test"
import { IFF_UP, linkKinds, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../../pkg/netlink/testing/links.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { ensureVlanGateway, findProblem, requireVlanGateway, type VlanGateway } from "./vlan-gateway.ts"

// No machine has interfaces of these names, so that no sysctl is changed.
const name = "not-there0.7"
const bridge: KernelLink = {
  index: 5,
  name: "not-there0",
  mtu: 1400,
  kind: "bridge",
  data: linkKinds.bridge.encode({ vlanFiltering: 1, vlanDefaultPvid: 1 }),
}
const gateway: VlanGateway = {
  name,
  bridge: linkOf(bridge),
  vlans: { native: 7, trunk: undefined, preserveDefault: false },
}
const pair: KernelLink[] = [
  { index: 20, name, kind: "veth", link: 21, flags: IFF_UP },
  { index: 21, name: "not-there1", kind: "veth", link: 20, master: 5, flags: IFF_UP },
]

/** BRIDGE_VLAN_INFO_PVID 2, _UNTAGGED 4, _RANGE_BEGIN 8, _RANGE_END 16; <linux/if_bridge.h> */
const untagged = 6

/** Encodes a port's VLANs as in `bridge vlan show`: ifinfomsg, IFLA_AF_SPEC 26, IFLA_BRIDGE_VLAN_INFO 2 for each. */
function vlansOf(port: number, ...infos: readonly [flags: number, id: number][]): Uint8Array {
  const list = infos.flatMap(([flags, id]) => [8, 0, 2, 0, flags, 0, id & 255, id >> 8])
  return Uint8Array.from([7, 0, 0, 0, port, 0, 0, 0, ...Array(8).fill(0), 4 + list.length, 0, 26, 0, ...list])
}

const kernelOf = (links: readonly KernelLink[], vlans: () => readonly Uint8Array[]) =>
  new LinksKernel([bridge, ...links], { answers: { 18: vlans } })

const ensure = (kernel: LinksKernel) => ensureVlanGateway(kernel.socket, gateway)

describe("the host's interface in a VLAN", () => {
  /** Encodes the VLANs of the pair's new port 101, which the kernel has added to VLAN 1. */
  function fresh() {
    const kernel: LinksKernel = kernelOf([], () => [
      vlansOf(101, kernel.others.length === 0 ? [untagged, 1] : [untagged, 7]),
    ])
    return kernel
  }

  test("is made as a pair with the bridge's MTU, whose port is put into the VLAN and out of the bridge's own", () => {
    const kernel = fresh()
    const made = kernel.links
    expect(ensure(kernel).name).toBe(name)
    const [added, ...ups] = made
    expect(added).toMatchObject({ verb: "add", kind: "veth", mtu: 1400, master: 5, txQueues: 1, rxQueues: 1 })
    expect(added?.data).toMatchObject({ peer: { name, mtu: 1400, txQueues: 1, rxQueues: 1 } })
    expect(kernel.others.map(({ type, payload }) => [type, payload.toHex().slice(-8)])).toEqual([
      [17, "00000100"],
      [19, "06000700"],
    ])
    expect(ups.map(({ verb, index, flags, change }) => [verb, index, flags, change])).toEqual([
      ["set", 101, IFF_UP, IFF_UP],
      ["set", 102, IFF_UP, IFF_UP],
    ])
  })

  test("that is there and in the VLAN is used as it is, and brought up where an end is down", () => {
    const used = kernelOf(pair, () => [vlansOf(21, [untagged, 7])])
    ensure(used)
    expect([used.links, used.others]).toEqual([[], []])
    const down = kernelOf(
      pair.map((end) => ({ ...end, flags: 0 })),
      () => [vlansOf(21, [untagged, 7])],
    )
    ensure(down)
    expect(down.links.map(({ index, flags }) => [index, flags])).toEqual([
      [21, IFF_UP],
      [20, IFF_UP],
    ])
  })

  test.each([
    ["in no VLAN", []],
    ["in the bridge's own alone", [[untagged, 1]]],
  ] as [string, [number, number][]][])(
    "that is there with its port %s is joined: an ADD was killed there",
    (_, infos) => {
      const kernel: LinksKernel = kernelOf(pair, () => [
        vlansOf(21, ...(kernel.others.length === 0 ? infos : [[untagged, 7] as [number, number]])),
      ])
      ensure(kernel)
      expect(kernel.others.at(-1)?.payload.toHex()).toEndWith("06000700")
      requireVlanGateway(kernelOf(pair, () => [vlansOf(21, ...infos)]).socket, gateway)
    },
  )

  test("whose port has no bridge, since its bridge was deleted, joins the new one; another program's, and one of another bridge, stay as they are", () => {
    const [end, { master: _, ...port }] = pair as [KernelLink, KernelLink]
    const alone = kernelOf([end, { ...port, name: "veth0123abcd" }], () => [])
    refusalOf(() => ensure(alone)) // these links stay unchanged
    expect(alone.links).toMatchObject([{ verb: "set", index: 21, master: 5 }])
    expect(alone.others.at(-1)?.payload.toHex()).toEndWith("06000700")
    requireVlanGateway(alone.socket, gateway)
    for (const other of [port, { ...port, name: "veth0123abcd", master: 6 }]) {
      const kernel = kernelOf([end, other], () => [])
      expect(refusalOf(() => ensure(kernel))).toMatchObject({ code: 7 })
      expect([kernel.links, kernel.others]).toEqual([[], []])
    }
  })

  test.each([
    ["VLAN 8", [[untagged, 8]], "in VLANs 8 pvid untagged"],
    [
      "the bridge's own and another",
      [
        [untagged, 1],
        [0, 9],
      ],
      "in VLANs 1 pvid untagged, 9",
    ],
    ["the VLAN, tagged", [[0, 7]], "in VLANs 7"],
    ["the VLAN, not for what comes in", [[4, 7]], "in VLANs 7 untagged"],
    [
      "a range that begins with the bridge's own",
      [
        [8, 1],
        [16, 3],
      ],
      "in VLANs 1-3",
    ],
  ] as [string, [number, number][], string][])(
    "with its port in %s is another program's: refused, and left alone",
    (_, infos, found) => {
      const kernel = kernelOf(pair, () => [vlansOf(21, ...infos)])
      const refusal = {
        code: 7,
        message: `"${name}" already exists but is not in VLAN 7`,
        details: expect.stringMatching(
          new RegExp(`^expected a veth pair .*, found its other end "not-there1" ${found}$`),
        ),
      }
      expect(refusalOf(() => ensure(kernel))).toMatchObject(refusal)
      expect(refusalOf(() => requireVlanGateway(kernel.socket as RouteSocket, gateway))).toMatchObject(refusal)
      expect([kernel.links, kernel.others]).toEqual([[], []])
    },
  )

  test("may be a VLAN interface that an administrator has put on the bridge; of anything else it is said what it is", () => {
    const problem = (link: Partial<KernelLink>, more: readonly KernelLink[] = []) => {
      const { socket } = kernelOf(more, () => [])
      return findProblem(socket, gateway, linkOf({ index: 20, name, ...link }))
    }
    const vlan = (id: number) => linkKinds.vlan.encode({ id })
    expect(problem({ kind: "vlan", link: 5, data: vlan(7) })).toBeUndefined()
    expect(problem({ kind: "vlan", link: 5, data: vlan(8) })).toBe("VLAN 8 of link number 5")
    expect(problem({ kind: "vlan", link: 6, data: vlan(7) })).toBe("VLAN 7 of link number 6")
    expect(problem({})).toBe("a device")
    expect(problem({ kind: "dummy" })).toBe('kind "dummy"')
    expect(problem({ kind: "veth", link: 21, linkNetnsId: 0 }, pair)).toBe('kind "veth" of elsewhere')
    const [, port] = pair as [KernelLink, KernelLink]
    expect(problem({ kind: "veth", link: 21 }, [{ ...port, master: 6 }])).toBe(
      'its other end "not-there1" not on the bridge',
    )
  })
})
