import { describe, expect, test } from "bun:test"
import { addAltNames, deleteAltNames } from "./link-changes.ts"
import { hex, linkNumber, requestOf } from "./testing.ts"

// The bytes that iproute2 6.1.0 sent for each command, without struct nlmsghdr:
//   strace -e trace=sendmsg -e write=3 COMMAND
describe("alternative names", () => {
  // ip link property add dev ens5 altname lab:ctr:eth0 altname b, where ens5 has index 3: type 0x6c, flags 0xe05
  test("are given in one request, and not to two links", () => {
    const { type, flags, payload } = requestOf((route) =>
      addAltNames(route, linkNumber(3, "ens5"), ["lab:ctr:eth0", "b"]),
    )
    expect({ type, flags }).toEqual({ type: 0x6c, flags: 0xe05 })
    expect(payload).toEqual(hex`
      00000000 03000000 0000000000000000
      2000 3480
        1100 3500 6c61623a6374723a65746830 00 000000
        0600 3500 6200 0000`)
  })

  // ip link property del dev ens5 altname b: type 0x6d, flags 0x5
  test("are taken off", () => {
    const { type, flags, payload } = requestOf((route) => deleteAltNames(route, linkNumber(3, "ens5"), ["b"]))
    expect({ type, flags }).toEqual({ type: 0x6d, flags: 0x5 })
    expect(payload).toEqual(hex`00000000 03000000 0000000000000000 0c00 3480 0600 3500 6200 0000`)
  })
})
