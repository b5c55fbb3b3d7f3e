import { expect, test } from "bun:test"
import { type Ifindex, type Link, type LinkData, linkKinds } from "../../pkg/netlink/mod.ts"
import { CniError } from "../../pkg/types/mod.ts"
import { requireVlanFiltering } from "./vlan-filtering.ts"

function bridge(data: LinkData<"bridge">): Link {
  const linkInfo = { kind: "bridge", data: linkKinds.bridge.encode(data) }
  const link = { index: 2 as Ifindex, name: "br0", flags: 1, type: 1, mac: "0a:00:00:00:00:01", mtu: 1500 }
  return { ...link, kind: "bridge", attributes: { linkInfo } }
}

function refusal(link: Link): CniError | undefined {
  try {
    requireVlanFiltering(link)
    return undefined
  } catch (error) {
    if (error instanceof CniError) return error
    throw error
  }
}

test("a bridge that tells VLANs apart will do", () => {
  expect(refusal(bridge({ vlanFiltering: 1, vlanDefaultPvid: 1 }))).toBeUndefined()
})

test("one that could and does not is refused with the command that switches it on", () => {
  expect(refusal(bridge({ vlanFiltering: 0, vlanDefaultPvid: 1 }))).toMatchObject({
    code: 7,
    message: 'Cannot use VLANs on bridge "br0": its VLAN filtering is off',
    details: expect.stringContaining("ip link set br0 type bridge vlan_filtering 1"),
  })
})

// Older kernels ignore the attribute, so a bridge that was created with it does not report it.
test("one of a kernel without the feature, which never tells a default VLAN, is refused with the feature's name", () => {
  expect(refusal(bridge({ vlanFiltering: 0 }))).toMatchObject({
    code: 999,
    message: 'Cannot use VLANs on bridge "br0": the kernel is built without CONFIG_BRIDGE_VLAN_FILTERING',
  })
  expect(refusal(bridge({}))).toMatchObject({ code: 999 })
})
