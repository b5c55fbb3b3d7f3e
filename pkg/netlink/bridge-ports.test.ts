import { describe, expect, test } from "bun:test"
import {
  addPortVlans,
  deletePortVlans,
  describeVlans,
  listPortVlans,
  setBridgePort,
  type VlanRange,
} from "./bridge-ports.ts"
import { bridgePortData } from "./link-table.ts"
import { expectOnlyDecodeErrors, hex, type Layout, linkNumber, listing, requestOf, tree } from "./testing.ts"

// The bytes below a command are those that iproute2 6.1.0 sent for it, without struct nlmsghdr:
//   strace -e trace=sendmsg -e write=3 COMMAND
// RTM_SETLINK is 19, RTM_DELLINK 17; flags 0x5 are REQUEST | ACK.

const v0 = linkNumber(3, "v0")
const layout: Layout = { header: 16 }

describe("VLANs of a port", () => {
  test.each([
    // bridge vlan add dev v0 vid 100 pvid untagged
    [
      "one that is native, which frames without a tag belong to",
      [{ first: 100, last: 100, pvid: true, untagged: true }],
      hex`07000000 03000000 00000000 00000000
          0c00 1a00
            0800 0200 0600 6400`,
    ],
    // bridge vlan add dev v0 vid 200-210
    [
      "several in a row, as the first and the last",
      [{ first: 200, last: 210 }],
      hex`07000000 03000000 00000000 00000000
          1400 1a00
            0800 0200 0800 c800
            0800 0200 1000 d200`,
    ],
  ] as const)("%s", (_, vlans, captured) => {
    const { type, flags, payload } = requestOf((route) => addPortVlans(route, v0, vlans))
    expect({ type, flags }).toEqual({ type: 19, flags: 0x5 })
    expect(tree(payload, layout)).toEqual(tree(captured, layout))
  })

  test("all travel in one request", () => {
    const vlans = [{ first: 100, last: 100, pvid: true, untagged: true } as const, { first: 200, last: 210 }]
    const { payload } = requestOf((route) => addPortVlans(route, v0, vlans))
    expect(payload.subarray(16)).toEqual(hex`
      1c00 1a80                # IFLA_AF_SPEC | NLA_F_NESTED
        0800 0200 0600 6400    # IFLA_BRIDGE_VLAN_INFO: PVID | UNTAGGED, 100
        0800 0200 0800 c800    # RANGE_BEGIN, 200
        0800 0200 1000 d200    # RANGE_END, 210`)
  })

  // bridge vlan del dev v0 vid 1
  test("are taken away by RTM_DELLINK", () => {
    const { type, payload } = requestOf((route) => deletePortVlans(route, v0, [{ first: 1, last: 1 }]))
    expect(type).toBe(17)
    expect(tree(payload, layout)).toEqual(
      tree(hex`07000000 03000000 00000000 00000000 0c00 1a00 0800 0200 0000 0100`, layout),
    )
  })
})

// The answer of Linux 6.1 to `bridge -compressvlans vlan show`: a bridge, and the port of the commands above.
const bridge = hex`
  07000100 02000000 02100000 00000000
  0800 0300 62723000
  0800 0a00 02000000
  0c00 1a00 0800 0200 0600 0100`
const port = hex`
  07000100 04000000 02100000 00000000
  0700 0300 763000 00
  1c00 1a00
    0800 0200 0600 6400
    0800 0200 0800 c800
    0800 0200 1000 d200`
const native: VlanRange = { first: 100, last: 100, pvid: true, untagged: true }

test("VLANs are listed by port, those in a row together", () => {
  expect([...listPortVlans(listing(bridge, port))]).toEqual([
    [linkNumber(2, "").index, [{ first: 1, last: 1, pvid: true, untagged: true }]],
    [linkNumber(4, "").index, [native, { first: 200, last: 210 }]],
  ])
})

test("a port without VLANs has none, and the others are left out when one port is asked for", () => {
  const without = hex`07000100 05000000 02100000 00000000 0700 0300 763100 00`
  const found = listPortVlans(listing(bridge, port, without), linkNumber(5, "v1"))
  expect([...found]).toEqual([[linkNumber(5, "").index, []]])
})

test("what else the kernel says about VLANs, such as tunnels, is let be", () => {
  const tunnel = hex`07000100 04000000 02100000 00000000 1400 1a00 0600 0100 0000 0000 0800 0200 0000 0500`
  expect(listPortVlans(listing(tunnel)).get(linkNumber(4, "").index)).toEqual([{ first: 5, last: 5 }])
})

test("VLANs are described as bridge(8) takes them", () => {
  expect(describeVlans([native, { first: 200, last: 210 }])).toBe("100 pvid untagged, 200-210")
  expect(describeVlans([])).toBe("none")
})

test("no bytes make listing fail but with a decode error", () => {
  expectOnlyDecodeErrors((bytes) => listPortVlans(listing(bytes)), bridge, port)
})

describe("a bridge's port", () => {
  const other = linkNumber(2, "v0")

  // bridge link set dev v0 hairpin on
  test("gets hairpin as RTM_SETLINK of family AF_BRIDGE", () => {
    expect(requestOf((route) => setBridgePort(route, other, { hairpin: 1 }))).toEqual({
      type: 19,
      flags: 0x5,
      payload: hex`07000000 02000000 00000000 00000000 0c00 0c80 0500 0400 01 000000`,
    })
  })

  // bridge link set dev v0 hairpin on isolated on
  test("gets everything that can be set", () => {
    const port = { hairpin: 1, isolated: 1 }
    const payload = hex`
      07000000 02000000 00000000 00000000
      1400 0c80
        0500 0400 01 000000
        0500 2100 01 000000`
    expect(requestOf((route) => setBridgePort(route, other, port)).payload).toEqual(payload)
    expect(bridgePortData.decode(payload.subarray(20))).toEqual(port)
  })
})
