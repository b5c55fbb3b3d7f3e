import { expect, test } from "bun:test"
import { type Message, NETLINK_ROUTE, NetlinkSocket } from "../netlink/mod.ts"
import { acknowledge, hex, ScriptedKernel, tree } from "../netlink/testing.ts"
import { refusalOf } from "../types/testing.ts"
import { interfaceKinds, noKind, requireKind } from "./kinds.ts"

// <asm-generic/errno.h>
const [EPERM, EOPNOTSUPP, EADDRNOTAVAIL] = [1, 95, 99]

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

test("a kernel without the kind is told from one that refuses the request for another reason", () => {
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
