import { describe, expect, test } from "bun:test"
import { addFilter, deleteFilter, filterProtocols, listFilters, redirectsOf } from "./filters.ts"
import { expectOnlyDecodeErrors, hex, linkNumber, listing, requestOf, tree } from "./testing.ts"
import { CLSACT_INGRESS, filterKinds, findRedirect, findTarget, INGRESS_HANDLE, redirectTo } from "./traffic-table.ts"

// The bytes below a command are those that Debian's tc (iproute2 6.1.0) sent for it, without struct nlmsghdr:
//   strace -e trace=sendmsg -e write=all COMMAND
// RTM_NEWTFILTER is 44, RTM_DELTFILTER 45. The kernel's answers are those of Linux 6.18.

const v0 = linkNumber(3, "v0")
const actions = { nested: { 1: { nested: { 2: {} }, texts: [1] } } }
const layout = { header: 20, nested: { 2: { nested: { 7: actions } } } }
const everything = [{ mask: 0, value: 0, offset: 0 }]

describe("adding", () => {
  // tc filter add dev v0 parent ffff: protocol all prio 1 u32 match u32 0 0 flowid 1:1 \
  //   action mirred egress redirect dev bwptest
  test("a redirection of everything", () => {
    const options = { classId: 0x10001, actions: [redirectTo(4)], selector: everything }
    const spec = { kind: "u32", parent: INGRESS_HANDLE, protocol: filterProtocols.all, priority: 1, options } as const
    const { type, flags, payload } = requestOf((route) => addFilter(route, v0, spec))
    expect({ type, flags }).toEqual({ type: 44, flags: 0x605 })
    const captured = hex`
      00000000 03000000 00000000 0000ffff 00030100      # struct tcmsg: link 3, ffff:, priority 1, ETH_P_ALL
      0800 0100 75333200
      6800 0200
        0800 0100 01000100                              # TCA_U32_CLASSID 1:1
        3800 0700 3400 0100                             # TCA_U32_ACT
          0b00 0100 6d697272656400 00
          2400 0280 2000 0200 00000000 00000000 04000000 00000000 00000000 01000000 04000000
        2400 0500 01000100 00000000 00000000 00000000   # TCA_U32_SEL: terminal, one key
          00000000 00000000 00000000 00000000`
    expect(tree(payload, layout)).toEqual(tree(captured, layout))
  })

  // tc filter add dev v0 parent 1: protocol ip prio 16 u32 match ip src 10.1.0.0/16 flowid 1:1
  test("a subnet of IPv4", () => {
    const selector = [{ mask: 0xffff0000, value: 0x0a010000, offset: 12 }]
    const spec = {
      kind: "u32",
      parent: 0x10000,
      protocol: filterProtocols.ip,
      priority: 16,
      options: { classId: 0x10001, selector },
    } as const
    expect(requestOf((route) => addFilter(route, v0, spec)).payload).toEqual(hex`
      00000000 03000000 00000000 00000100 08001000
      0800 0100 75333200
      3000 0200
        0800 0100 01000100
        2400 0500 01000100 00000000 00000000 00000000 ffff0000 0a010000 0c000000 00000000`)
  })

  // tc filter add dev v0 parent 1: protocol ipv6 prio 15 u32 match ip6 dst fd00:1::/56 flowid 1:1
  test("a subnet of IPv6, as several keys", () => {
    const selector = [
      { mask: 0xffffffff, value: 0xfd000001, offset: 24 },
      { mask: 0xffffff00, value: 0, offset: 28 },
    ]
    const spec = {
      kind: "u32",
      parent: 0x10000,
      protocol: filterProtocols.ipv6,
      priority: 15,
      options: { classId: 0x10001, selector },
    } as const
    expect(requestOf((route) => addFilter(route, v0, spec)).payload).toEqual(hex`
      00000000 03000000 00000000 00000100 86dd0f00
      0800 0100 75333200
      4000 0200
        0800 0100 01000100
        3400 0500 01000200 00000000 00000000 00000000
          ffffffff fd000001 18000000 00000000
          ffffff00 00000000 1c000000 00000000`)
  })
})

// tc filter add dev v0 parent ffff: protocol all prio 1 matchall classid 1:1 action mirred egress redirect dev v9
describe("matchall", () => {
  const captured = hex`
    00000000 03000000 00000000 0000ffff 00030100
    0d00 0100 6d61746368616c6c00 000000
    4400 0200
      0800 0100 01000100                                # TCA_MATCHALL_CLASSID 1:1
      3800 0200 3400 0100                               # TCA_MATCHALL_ACT
        0b00 0100 6d697272656400 00
        2400 0280 2000 0200 00000000 00000000 04000000 00000000 00000000 01000000 05000000`

  test("is asked for as tc does it", () => {
    const options = { classId: 0x10001, actions: [redirectTo(5)] }
    const spec = {
      kind: "matchall",
      parent: INGRESS_HANDLE,
      protocol: filterProtocols.all,
      priority: 1,
      options,
    } as const
    const layout = { header: 20, nested: { 2: { nested: { 2: actions } } } }
    expect(tree(requestOf((route) => addFilter(route, v0, spec)).payload, layout)).toEqual(tree(captured, layout))
  })

  test("is read, with where it leads", () => {
    const listed = captured.slice()
    listed[8] = 1 // a handle like one that the kernel assigns
    const [found] = listFilters(listing(listed), v0, INGRESS_HANDLE)
    expect(found).toMatchObject({ kind: "matchall", handle: 1, priority: 1, options: { classId: 0x10001 } })
    expect(found && redirectsOf(found)).toEqual([5])
  })
})

// tc filter show dev v0 parent ffff:, with the filter added above
const shared = hex`00000000 03000000 00000000 0000ffff 00030100 0800 0100 75333200 0800 0b00 00000000`
const table = hex`
  00000000 03000000 00000080 0000ffff 00030100 0800 0100 75333200 0800 0b00 00000000
  0c00 0200 0800 0400 01000000`
const shown = hex`
  00000000 03000000 00080080 0000ffff 00030100
  0800 0100 75333200
  0800 0b00 00000000
  e800 0200
    2400 0500 01000100 00000000 00000000 00000000 00000000 00000000 00000000 00000000
    0800 0200 00000080
    0800 0100 01000100
    0800 0b00 08000000
    a800 0700 a400 0100
      0b00 0100 6d697272656400 00
      4400 0400 1400 0100 00000000000000000000000000000000 1400 0700 00000000000000000000000000000000
                1800 0300 0000000000000000000000000000000000000000
      0800 0a00 00000000
      4800 0200 2000 0200 01000000 00000000 04000000 01000000 01000000 01000000 04000000
                2400 0100 23000000 00000000 23000000 00000000 00000000 00000000 00000000 00000000`

describe("listing", () => {
  test("shows what each filter compares and does, and not what the filters of a priority share", () => {
    const [found, ...more] = listFilters(listing(shared, table, shown), v0, CLSACT_INGRESS)
    expect(more).toEqual([])
    expect(found).toMatchObject({ kind: "u32", handle: 0x80000800, parent: CLSACT_INGRESS, protocol: 3, priority: 1 })
    expect(found?.options).toMatchObject({ classId: 0x10001, selector: everything })
    expect(found && redirectsOf(found)).toEqual([4])
  })

  // Upstream's plugin bandwidth, after the link to which its filter redirected was deleted: two actions without a link.
  test("shows a redirection to a link that no longer exists as one to 0", () => {
    const gone = redirectTo(0)
    const options = filterKinds.u32.encode({ selector: everything, actions: [gone, gone] })
    const size = options.length + 4
    const header = hex`00000000 03000000 00080080 0000ffff 00030100 0800 0100 75333200`
    const message = new Uint8Array([...header, size & 0xff, size >> 8, 2, 0, ...options])
    const [found] = listFilters(listing(message), v0, CLSACT_INGRESS)
    expect(found && redirectsOf(found)).toEqual([0, 0])
  })

  test("keeps filters of other kinds, of which it knows the priority", () => {
    const other = hex`00000000 03000000 01000000 0000ffff 08001200 0a00 0100 726f75746500 0000 0800 0200 0400 0300`
    const [found] = listFilters(listing(other), v0, CLSACT_INGRESS)
    expect(found).toEqual({ kind: "route", handle: 1, parent: CLSACT_INGRESS, protocol: 0x0800, priority: 18 })
    expect(found && redirectsOf(found)).toEqual([])
  })
})

// tc filter del dev v0 parent ffff: protocol all prio 1 handle 800::800 u32
test("deleting names the handle, the priority and the kind", () => {
  const filter = { kind: "u32", handle: 0x80000800, parent: INGRESS_HANDLE, protocol: 3, priority: 1 }
  expect(requestOf((route) => deleteFilter(route, v0, filter))).toEqual({
    type: 45,
    flags: 0x5,
    payload: hex`00000000 03000000 00080080 0000ffff 00030100 0800 0100 75333200`,
  })
})

test("an action that mirrors, or of another kind, is not a redirection", () => {
  expect(findRedirect({ kind: "gact", options: hex`00` })).toBeUndefined()
  const mirror = redirectTo(4)
  mirror.options?.set([2], 4 + 20) // TCA_EGRESS_MIRROR
  expect([findRedirect(mirror), findTarget(mirror)]).toEqual([undefined, undefined])
  mirror.options?.set([3], 4 + 20) // TCA_INGRESS_REDIR
  expect([findRedirect(mirror), findTarget(mirror)]).toEqual([undefined, 4])
  expect(findRedirect(redirectTo(4))).toBe(4)
})

test("nothing that arrives breaks a decoder in another way than by its error", () => {
  const decode = (found: Uint8Array) => listFilters(listing(found), v0, CLSACT_INGRESS).map(redirectsOf)
  expectOnlyDecodeErrors(decode, shared, table, shown)
  for (const codec of Object.values(filterKinds)) expectOnlyDecodeErrors((found) => codec.decode(found))
})
