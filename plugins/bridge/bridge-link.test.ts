import { describe, expect, test } from "bun:test"
import { IFF_PROMISC, IFF_UP, linkKinds, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../../pkg/netlink/testing/links.ts"
import { ip } from "../../pkg/netlink/testing.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { ensureBridge, ensureGateway, requireBridge, requireRoomFor } from "./bridge-link.ts"
import { type BridgeConfig, parseBridgeConfig } from "./config.ts"
import { preparePort } from "./port.ts"

// No machine has an interface of this name, so that no sysctl is changed.
const name = "not-there0"
const bridge: KernelLink = {
  index: 5,
  name,
  kind: "bridge",
  flags: IFF_UP,
  data: linkKinds.bridge.encode({ vlanFiltering: 1, vlanDefaultPvid: 1 }),
}

function config(keys: object = {}): BridgeConfig {
  const raw = { cniVersion: "1.1.0", name: "lab", type: "bridge", bridge: name, ...keys }
  return parseBridgeConfig({ ...raw }, { verb: "ADD", args: "", raw })
}

/** Calls `ensureBridge`. Returns the fake kernel with the requests that it received. */
function ensure(present: readonly KernelLink[], keys: object = {}, errno = 0): LinksKernel {
  const kernel = new LinksKernel(present, { refusal: ({ type }) => (type === 16 ? errno : 0) })
  ensureBridge(kernel.socket as RouteSocket, config(keys))
  return kernel
}

describe("a bridge that does not exist", () => {
  test("is made, brought up, said to be up, and keeps the address that it has", () => {
    const kernel = ensure([], { mtu: 1400 })
    const [made, changed] = kernel.links
    expect(kernel.links).toHaveLength(2)
    expect(made).toEqual({ verb: "add", index: 0, flags: 0, change: 0, name, mtu: 1400, kind: "bridge", data: {} })
    expect(changed).toMatchObject({
      verb: "set",
      flags: IFF_UP,
      change: IFF_UP,
      mac: "0a:00:00:00:00:01",
      operState: 6,
    })
  })

  test("filters VLANs where the configuration has some, and can say that it cannot", () => {
    expect(ensure([], { vlan: 7 }).links[0]?.data).toEqual({ vlanFiltering: 1 })
    expect(refusalOf(() => ensure([], { vlan: 7 }, 95))).toMatchObject({
      code: 999,
      message: `Cannot use VLANs on bridge "${name}": the kernel is built without CONFIG_BRIDGE_VLAN_FILTERING`,
    })
    expect(refusalOf(() => ensure([], {}, 95)).message).toBe(`Cannot create bridge "${name}"`)
    expect(refusalOf(() => ensure([], { vlan: 7 }, 1)).message).toBe(`Cannot create bridge "${name}"`)
  })
})

describe("a bridge that is there", () => {
  test("that is down is set up, without a message", () => {
    const kernel = ensure([{ ...bridge, flags: 0 }])
    expect(kernel.links).toHaveLength(1)
    expect(kernel.links[0]).toMatchObject({ verb: "set", index: 5, flags: IFF_UP, change: IFF_UP })
    expect(kernel.links[0]).not.toHaveProperty("operState")
  })

  test("is made promiscuous where that is asked for and it is not", () => {
    expect(ensure([bridge], { promiscMode: true }).links[0]).toMatchObject({
      flags: IFF_UP | IFF_PROMISC,
      change: IFF_UP | IFF_PROMISC,
    })
    const again = ensure([{ ...bridge, flags: IFF_UP | IFF_PROMISC }], { promiscMode: true })
    expect(again.links[0]?.change).toBe(IFF_UP)
  })

  test("is refused when it is not a bridge, or has no VLAN filtering where it is needed", () => {
    const refusal = (link: KernelLink, keys = {}) => refusalOf(() => requireBridge(linkOf(link), config(keys)))
    expect(refusal({ index: 5, name, kind: "dummy" })).toMatchObject({
      code: 7,
      message: `"${name}" already exists but is not a bridge`,
      details: 'it is of kind "dummy"',
    })
    expect(refusal({ index: 5, name }).details).toBe("it is a device")
    const off = { ...bridge, data: linkKinds.bridge.encode({ vlanFiltering: 0, vlanDefaultPvid: 1 }) }
    expect(refusal(off, { vlan: 7 }).message).toContain("its VLAN filtering is off")
    requireBridge(linkOf(off), config())
    requireBridge(linkOf(bridge), config({ vlan: 7 }))
  })
})

/** Encodes an address of link 5 as `ip addr show` gets it: struct ifaddrmsg and IFA_ADDRESS, <linux/if_addr.h>. */
function addressMessage(text: string, prefix: number): Uint8Array {
  const bytes = ip(text)
  const family = bytes.length === 4 ? 2 : 10
  return Uint8Array.of(family, prefix, 0x80, 0, 5, 0, 0, 0, 4 + bytes.length, 0, 1, 0, ...bytes)
}

describe("room for a gateway address", () => {
  const gateway = { ip: ip("10.1.0.1"), prefix: 16 }
  const room = (force: boolean, wanted: { ip: Uint8Array; prefix: number }, ...present: Uint8Array[]) => {
    const { socket } = new LinksKernel([bridge], { answers: { 22: present } })
    return requireRoomFor(socket as RouteSocket, linkOf(bridge), wanted, force)
  }

  test("there is beside addresses of other networks, other families and the link's own", () => {
    const others = [addressMessage("10.2.0.1", 16), addressMessage("fd00:0:0:0:0:0:0:1", 64)]
    expect(room(false, gateway, ...others)).toEqual({ isThere: false, conflicting: [] })
    const gateway6 = { ip: ip("fe80:0:0:0:0:0:0:1"), prefix: 10 }
    expect(
      room(false, gateway6, addressMessage("fe80:0:0:0:0:0:0:9", 64), addressMessage("febf:0:0:0:0:0:0:9", 64)),
    ).toEqual({
      isThere: false,
      conflicting: [],
    })
    expect(() => room(false, { ...gateway6, prefix: 8 }, addressMessage("fec0:0:0:0:0:0:0:9", 64))).toThrow(
      "already has",
    )
  })

  test("there need not be where it is already, also with others in the way", () => {
    for (const force of [true, false]) {
      const present = [addressMessage("10.1.9.9", 16), addressMessage("10.1.0.1", 16)]
      expect(room(force, gateway, ...present)).toEqual({ isThere: true, conflicting: [] })
    }
  })

  test.each([
    ["10.1.9.9", 24],
    ["10.9.9.9", 8],
    ["10.1.0.1", 24],
  ])("is not set where %s/%d overlaps, unless it is forced", (text, prefix) => {
    expect(refusalOf(() => room(false, gateway, addressMessage(text, prefix)))).toMatchObject({
      code: 999,
      message: `"${name}" already has an IP address different from 10.1.0.1/16`,
      details: `it has ${text}/${prefix}; set "forceAddress" to replace it`,
    })
    expect(room(true, gateway, addressMessage(text, prefix))).toMatchObject({
      isThere: false,
      conflicting: [{ prefix }],
    })
  })

  test("is set by force: what is in the way goes", () => {
    const kernel = new LinksKernel([bridge], { answers: { 22: [addressMessage("10.1.9.9", 24)] } })
    ensureGateway(kernel.socket as RouteSocket, linkOf(bridge), gateway, true)
    // RTM_NEWADDR 20, RTM_DELADDR 21. The second byte is the prefix length.
    expect(kernel.others.map(({ type, payload }) => [type, payload[1]])).toEqual([
      [21, 24],
      [20, 16],
    ])
  })

  test("may be set by another ADD at this moment", () => {
    const ensureWith = (errno: number) => {
      const kernel = new LinksKernel([bridge], { refusal: ({ type }) => (type === 20 ? errno : 0) })
      ensureGateway(kernel.socket as RouteSocket, linkOf(bridge), gateway, false)
    }
    ensureWith(17)
    expect(refusalOf(() => ensureWith(13)).message).toBe(`Cannot add 10.1.0.1/16 to bridge "${name}"`)
  })
})

describe("a port", () => {
  const port: KernelLink = { index: 8, name: "veth8", master: 5 }
  const prepare = (keys: object) => {
    const kernel = new LinksKernel([bridge, port])
    preparePort(kernel.socket as RouteSocket, { bridge: linkOf(bridge), port: "veth8" }, config(keys))
    return kernel
  }
  // IFLA_PROTINFO 12 with IFLA_BRPORT_MODE 4 (hairpin) and IFLA_BRPORT_ISOLATED 33, each one byte
  const [hairpin, isolated] = ["0500040001", "0500210001"]

  test.each([
    [{ hairpinMode: true }, [hairpin], [isolated]],
    [{ portIsolation: true }, [isolated], [hairpin]],
    [{ hairpinMode: true, portIsolation: true }, [hairpin, isolated], []],
  ])("sends back what came from it, and is isolated, where that is asked for: %o", (keys, has, hasNot) => {
    const [request, ...more] = prepare(keys).others.map(({ payload }) => payload.toHex())
    expect(more).toEqual([])
    for (const part of has) expect(request).toContain(part)
    for (const part of hasNot) expect(request).not.toContain(part)
  })

  test("that nothing is asked of is left as it is", () => {
    const kernel = prepare({})
    expect([kernel.links, kernel.others]).toEqual([[], []])
  })

  test("is put into its VLANs and taken out of the bridge's own", () => {
    // RTM_DELLINK and RTM_SETLINK with IFLA_BRIDGE_VLAN_INFO 2: flags and VLAN. The port leaves VLAN 1, then joins VLAN
    // 7 as untagged PVID.
    const [out, into, ...more] = prepare({ vlan: 7 }).others
    expect(more).toEqual([])
    expect([out?.type, into?.type]).toEqual([17, 19])
    expect(out?.payload.toHex()).toEndWith("0800020000000100")
    expect(into?.payload.toHex()).toEndWith("0800020006000700")
  })
})
