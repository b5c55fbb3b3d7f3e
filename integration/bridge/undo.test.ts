import { expect, test } from "bun:test"
import {
  Attachment,
  type Breakage,
  bridgeNetwork,
  expectUnchanged,
  fail,
  HostNamespace,
  isSharedBridge,
  takeSnapshot,
  testBreakages,
} from "../lab/mod.ts"

const masquerading = { isDefaultGateway: true, ipMasq: true }

/** A breakage for each step that only this plugin has. */
const breakages: Breakage[] = [
  {
    step: "the bridge's name belongs to something else",
    keys: { ...masquerading },
    setUp: (host) => host.exec("ip", ["link", "add", "br-lab", "type", "veth", "peer", "name", "other"]),
    code: 7,
    says: '"br-lab" already exists but is not a bridge',
    everyAdd: true,
  },
  {
    step: "the VLANs of the configuration are wrong",
    keys: { ...masquerading, vlan: 100, vlanTrunk: [{ minID: 5, maxID: 4 }] },
    code: 7,
    says: "minID is greater than maxID in trunk parameter",
    everyAdd: true,
  },
  {
    step: "the VLAN's gateway interface would have too long a name",
    keys: { ...masquerading, bridge: "bridge-of-lab", vlan: 4000 },
    code: 7,
    says: '"bridge-of-lab.4000" has 18 bytes',
    everyAdd: true,
  },
  {
    step: "there is an IPAM plugin for an interface that is to stay down",
    keys: { disableContainerInterface: true },
    code: 7,
    says: "cannot use IPAM when DisableContainerInterface flag is set",
    everyAdd: true,
  },
  {
    step: "the bridge is to be promiscuous and the port in hairpin mode",
    keys: { ...masquerading, promiscMode: true, hairpinMode: true },
    code: 7,
    says: 'Cannot use "promiscMode": expected false when hairpinMode is true',
    everyAdd: true,
  },
  {
    step: "a network has no room for the gateway that is asked for",
    keys: { ...masquerading, ipam: { type: "static", addresses: [{ address: "10.22.0.5/32" }] } },
    code: 7,
    says: "Cannot choose a gateway for 10.22.0.5/32",
    everyAdd: true,
  },
  {
    step: "the source MAC cannot be checked",
    keys: { ...masquerading, macspoofchk: true },
    setUp: (host) =>
      host.exec("nft", [
        "add table bridge cni_spoofcheck; add map bridge cni_spoofcheck allowed { type mark : mark; }",
      ]),
    code: 999,
    says: "Cannot guard port",
    everyAdd: false,
  },
  {
    step: "the gateway's address is in the way of another",
    keys: { ...masquerading, macspoofchk: true, portIsolation: true, hairpinMode: true },
    setUp: async (host) => {
      await host.exec("ip", ["link", "add", "br-lab", "up", "address", "0a:00:00:00:00:01", "type", "bridge"])
      await host.exec("ip", ["addr", "add", "10.22.9.9/24", "dev", "br-lab"])
    },
    code: 999,
    says: "already has an IP address different from",
    everyAdd: true,
  },
]

testBreakages(bridgeNetwork, breakages)

test("a result that the caller's version cannot hold is an error, and all but the bridge is as before", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const before = await takeSnapshot(host)
  const { ipam: _none, ...config } = bridgeNetwork({ cniVersion: "0.2.0" })
  const error = await fail(new Attachment(host, pod, config).run("ADD"))
  expect(error.msg).toContain("cannot convert: no valid IP addresses")
  expectUnchanged(before, await takeSnapshot(host), isSharedBridge)
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
})

test("an ADD that fails leaves the bridge up and without a port, and the next ADD joins it", async () => {
  await using host = await HostNamespace.create()
  const routes = [{ dst: "198.51.100.0/24", gw: "192.0.2.1" }]
  const { ipam, ...config } = bridgeNetwork(masquerading)
  const unreachable = new Attachment(host, await host.addContainer(), { ...config, ipam: { ...ipam, routes } })
  expect((await fail(unreachable.run("ADD"))).msg).toContain("Cannot add the routes")
  const bridges = () =>
    host.json<{ ifindex: number; flags: string[] }[]>("ip", ["-j", "link", "show", "type", "bridge"])
  const ports = () => host.json<object[]>("ip", ["-j", "link", "show", "master", "br-lab"])
  const [left] = await bridges()
  expect(left?.flags).toContain("UP")
  expect(await ports()).toEqual([])
  await new Attachment(host, await host.addContainer(), { ...config, ipam }).add()
  expect((await bridges()).map(({ ifindex }) => ifindex)).toEqual([left?.ifindex ?? 0])
  expect(await ports()).toHaveLength(1)
})
