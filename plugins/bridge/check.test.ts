import { expect, test } from "bun:test"
import { bridgePortData, IFF_PROMISC, IFF_UP, linkKinds, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../../pkg/netlink/testing/links.ts"
import { hex } from "../../pkg/netlink/testing.ts"
import type { Result } from "../../pkg/types/mod.ts"
import { checkPort, requireRecordedBridge } from "./check.ts"
import type { BridgeConfig } from "./config.ts"

const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
const noVlans = { native: 0, trunk: undefined, preserveDefault: false }
const config = { bridge: "br0", mtu: 1500, hairpinMode: false, portIsolation: false, vlans: noVlans } as BridgeConfig

const data = linkKinds.bridge.encode({ vlanFiltering: 1, vlanDefaultPvid: 1 })
const bridge: KernelLink = { index: 2, name: "br0", kind: "bridge", flags: IFF_UP, mac: "0a:00:00:00:00:bb", data }
const slaveData = bridgePortData.encode({ hairpin: 1, isolated: 1 })
const port: KernelLink = { index: 5, name: "veth1", flags: IFF_UP, master: 2, alias: "lab/c1/eth0" }

// struct ifinfomsg of AF_BRIDGE for port 5; IFLA_AF_SPEC with IFLA_BRIDGE_VLAN_INFO: flags, VLAN; <linux/if_bridge.h>:
// PVID 2, untagged 4, begin and end of a range 8 and 16.
const vlans7And20To21 = hex`
  07000100 05000000 00000000 00000000
  1c001a80 08000200 06000700 08000200 08001400 08000200 10001500`
const vlans7Tagged = hex`07000100 05000000 00000000 00000000 0c001a80 08000200 00000700`
const ofAnotherPort = hex`07000100 06000000 00000000 00000000 0c001a80 08000200 06000900`

const trunk = [{ first: 20, last: 21 }]

test.each<[string, Partial<KernelLink>, Partial<BridgeConfig>, Uint8Array[], string | undefined]>([
  ["as ADD made it", {}, {}, [], undefined],
  ["of the Go suite, without an owner", { alias: "" }, {}, [], undefined],
  ["with more than was asked for", { slaveKind: "bridge", slaveData }, {}, [], undefined],
  [
    "with all that was asked for",
    { slaveKind: "bridge", slaveData },
    { hairpinMode: true, portIsolation: true },
    [],
    undefined,
  ],
  [
    "of another bridge",
    { master: 3 },
    {},
    [],
    'host interface "veth1" failed: expected a port of bridge "br0", found not one of its ports',
  ],
  ["that is down", { flags: 0 }, {}, [], 'host interface "veth1" failed: expected up, found down'],
  [
    "of another",
    { alias: "lab/c2/eth0" },
    {},
    [],
    'alias of host interface "veth1" failed: expected lab/c1/eth0, found lab/c2/eth0',
  ],
  ["with another MTU", { mtu: 1400 }, {}, [], 'MTU of host interface "veth1" failed: expected 1500, found 1400'],
  [
    "without hairpin mode",
    {},
    { hairpinMode: true },
    [],
    'hairpin mode of port "veth1" failed: expected on, found off',
  ],
  ["without isolation", {}, { portIsolation: true }, [], 'isolation of port "veth1" failed: expected on, found off'],
  [
    "of another kind of master, whose data is not read",
    { slaveKind: "bond", slaveData },
    { portIsolation: true },
    [],
    'isolation of port "veth1" failed: expected on, found off',
  ],
  ["in VLANs that nothing was said of", {}, {}, [vlans7And20To21], undefined],
  ["in its VLANs", {}, { vlans: { ...noVlans, native: 7, trunk } }, [ofAnotherPort, vlans7And20To21], undefined],
  [
    "in one VLAN more",
    {},
    { vlans: { ...noVlans, native: 7 } },
    [vlans7And20To21],
    'VLANs of port "veth1" failed: expected 7 pvid untagged, found 7 pvid untagged, 20-21',
  ],
  [
    "in one more, which it was to keep",
    {},
    { vlans: { ...noVlans, native: 7, preserveDefault: true } },
    [vlans7And20To21],
    undefined,
  ],
  [
    "without one that it was to have, with others that it was to keep",
    {},
    { vlans: { native: 8, trunk, preserveDefault: true } },
    [vlans7And20To21],
    'VLANs of port "veth1" failed: expected 8 pvid untagged, 20-21, found 7 pvid untagged, 20-21',
  ],
  [
    "in its VLAN with tags",
    {},
    { vlans: { ...noVlans, native: 7 } },
    [vlans7Tagged],
    'VLANs of port "veth1" failed: expected 7 pvid untagged, found 7',
  ],
  [
    "in none",
    {},
    { vlans: { ...noVlans, native: 7 } },
    [ofAnotherPort],
    'VLANs of port "veth1" failed: expected 7 pvid untagged, found none',
  ],
])("CHECK of a port %s", (_, link, keys, vlans, refused) => {
  const { socket } = new LinksKernel([bridge], { answers: { 18: vlans } })
  const check = () =>
    checkPort(socket, { bridge: linkOf(bridge), port: linkOf({ ...port, ...link }) }, owner, { ...config, ...keys })
  if (refused === undefined) check()
  else expect(check).toThrow(`Check of ${refused}`)
})

const recorded = (mac: string) => ({ interfaces: [{ name: "br0", mac }] }) as unknown as Result
const vlans = { ...noVlans, native: 7 }

test.each<[string, KernelLink, Partial<BridgeConfig>, Result, string | undefined]>([
  ["as ADD answered it", bridge, { vlans }, recorded("0a:00:00:00:00:BB"), undefined],
  ["of which ADD answered nothing", bridge, {}, { interfaces: [] } as unknown as Result, undefined],
  [
    "that is promiscuous as asked",
    { ...bridge, flags: IFF_UP | IFF_PROMISC },
    { promiscMode: true },
    recorded(""),
    undefined,
  ],
  [
    "that does not exist",
    { ...bridge, name: "br1" },
    {},
    recorded(""),
    'Check of "br0" failed: expected a bridge, found none',
  ],
  [
    "that is not a port",
    { ...bridge, kind: "dummy" },
    {},
    recorded(""),
    'Check of "br0" failed: expected a bridge, found kind "dummy"',
  ],
  ["that is down", { ...bridge, flags: 0 }, {}, recorded(""), 'Check of bridge "br0" failed: expected up, found down'],
  [
    "with another MAC",
    bridge,
    {},
    recorded("0a:00:00:00:00:cc"),
    'Check of MAC of "br0" failed: expected 0a:00:00:00:00:cc, found 0a:00:00:00:00:bb',
  ],
  [
    "that is not promiscuous",
    bridge,
    { promiscMode: true },
    recorded(""),
    'Check of bridge "br0" failed: expected promiscuous, found not',
  ],
  [
    "that has VLANs no more",
    { ...bridge, data: linkKinds.bridge.encode({ vlanFiltering: 0, vlanDefaultPvid: 1 }) },
    { vlans },
    recorded(""),
    'Cannot use VLANs on bridge "br0": its VLAN filtering is off',
  ],
])("CHECK of a bridge %s", (_, link, keys, prevResult, refused) => {
  const host = new LinksKernel([link]).socket as RouteSocket
  const check = () => requireRecordedBridge(host, { ...config, promiscMode: false, ...keys }, prevResult)
  if (refused === undefined) expect(check().index).toBe(2 as never)
  else expect(check).toThrow(refused)
})
