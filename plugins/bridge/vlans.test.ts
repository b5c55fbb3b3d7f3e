import { describe, expect, test } from "bun:test"
import { describeVlans } from "../../pkg/netlink/mod.ts"
import type { CniError } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { needsFiltering, parseVlans, planDefault, planPort, type TrunkEntry } from "./vlans.ts"

type Trunk = readonly (TrunkEntry | null)[]

function refusal(vlan: number, trunk?: Trunk): CniError {
  return refusalOf(() => parseVlans(vlan, trunk, false))
}

function port(vlan: number, trunk?: Trunk): string {
  return describeVlans(planPort(parseVlans(vlan, trunk, false)))
}

describe("what is refused, in upstream's words", () => {
  test.each([
    [{ maxID: 5 }, "minID and maxID should be configured simultaneously, minID is missing"],
    [{ minID: 5 }, "minID and maxID should be configured simultaneously, maxID is missing"],
    [{ minID: 0, maxID: 5 }, "incorrect trunk minID parameter"],
    [{ minID: 4095, maxID: 4095 }, "incorrect trunk minID parameter"],
    [{ minID: 5, maxID: 4095 }, "incorrect trunk maxID parameter"],
    [{ minID: 9, maxID: 5 }, "minID is greater than maxID in trunk parameter"],
    [{ id: 0 }, "incorrect trunk id parameter"],
    [{ id: 5, minID: 5 }, "minID and maxID should be configured simultaneously, maxID is missing"],
  ])("%j: %s", (entry, message) => {
    expect(refusal(0, [{ id: 1 }, entry])).toMatchObject({
      code: 7,
      message,
      details: 'it is "vlanTrunk[1]"; VLANs are 1 to 4094',
    })
  })

  test.each([-100, -1, 4095, 5000])("vlan %d", (vlan) => {
    expect(refusal(vlan)).toMatchObject({ code: 7, message: `invalid VLAN ID ${vlan} (must be between 0 and 4094)` })
  })
})

describe("a trunk", () => {
  test("is sorted, and what overlaps or touches is one range", () => {
    const trunk = [{ id: 300 }, { minID: 200, maxID: 210 }, { minID: 205, maxID: 220 }, { id: 221 }, { id: 300 }]
    expect(parseVlans(0, trunk, false).trunk).toEqual([
      { first: 200, last: 221 },
      { first: 300, last: 300 },
    ])
  })

  test("may have a range and a single VLAN in one entry", () => {
    expect(parseVlans(0, [{ id: 101, minID: 200, maxID: 210 }], false).trunk).toHaveLength(2)
  })

  test("takes no notice of entries without anything, null among them", () => {
    expect(parseVlans(0, [null, {}, { id: 7 }], false).trunk).toEqual([{ first: 7, last: 7 }])
  })
})

describe("a port", () => {
  test("has the access VLAN alone, without a tag", () => {
    expect(port(100)).toBe("100 pvid untagged")
  })

  test("with a trunk has VLAN 1 without a tag, as the native one", () => {
    expect(port(0, [{ id: 101 }, { minID: 200, maxID: 210 }])).toBe("1 pvid untagged, 101, 200-210")
  })

  test("with both has `vlan` as the native one", () => {
    expect(port(100, [{ id: 101 }])).toBe("100 pvid untagged, 101")
  })

  test("keeps its native VLAN when the trunk contains it", () => {
    expect(port(205, [{ minID: 200, maxID: 210 }])).toBe("205 pvid untagged, 200-204, 206-210")
    expect(port(200, [{ minID: 200, maxID: 210 }])).toBe("200 pvid untagged, 201-210")
    expect(port(210, [{ minID: 200, maxID: 210 }])).toBe("210 pvid untagged, 200-209")
    expect(port(0, [{ minID: 1, maxID: 4094 }])).toBe("1 pvid untagged, 2-4094")
    expect(port(7, [{ id: 7 }])).toBe("7 pvid untagged")
  })

  test("stays as the bridge makes it without VLANs, and with an empty trunk, which still asks for filtering", () => {
    expect([port(0), port(0, [])]).toEqual(["none", "none"])
    expect(needsFiltering(parseVlans(0, undefined, false))).toBe(false)
    expect(needsFiltering(parseVlans(0, [], false))).toBe(true)
    expect(needsFiltering(parseVlans(5, undefined, false))).toBe(true)
  })
})

test("a new port leaves the bridge's default VLAN, unless it is one of its own or is to be kept", () => {
  const leaves = (vlan: number, trunk: Trunk | undefined, preserve: boolean, id: number) => {
    const vlans = parseVlans(vlan, trunk, preserve)
    return describeVlans(planDefault(vlans, planPort(vlans), id))
  }
  expect(leaves(100, undefined, false, 1)).toBe("1")
  expect(leaves(100, undefined, false, 42)).toBe("42")
  expect(leaves(100, undefined, true, 1)).toBe("none")
  expect(leaves(1, undefined, false, 1)).toBe("none")
  expect(leaves(0, [{ id: 5 }], false, 1)).toBe("none")
  expect(leaves(100, [{ minID: 1, maxID: 5 }], false, 1)).toBe("none")
  expect(leaves(100, undefined, false, 0)).toBe("none")
  expect(leaves(0, undefined, false, 1)).toBe("none")
})
