import { expect, test } from "bun:test"
import { type Message, NETLINK_ROUTE, NetlinkSocket } from "../netlink/mod.ts"
import { acknowledge, hex, ScriptedKernel, tree } from "../netlink/testing.ts"
import { refusalOf } from "../types/testing.ts"
import { requireKind } from "./interface.ts"

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
