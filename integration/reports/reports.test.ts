/**
 * Tests public bug reports of users of CNI plugins: the reported steps, and the required outcome. The other files of
 * this directory contain reports about chained plugins, ports and devices. The tests of plugins cover these reports:
 *
 *   plugins#160, cni#923, podman#6114   integration/every-plugin/router-advertisements.test.ts
 *   plugins#243                         integration/vlan: "a VLAN of a master is one container's"
 *   plugins#450                         integration/dhcp/lease.test.ts: "a lease survives another hardware address"
 *   plugins#863, vlanTrunk of #965      integration/bridge/vlan.test.ts
 *   plugins#894                         integration/kernel/meta/bandwidth-others.test.ts: "a hook of each kind"
 *   plugins#1147                        integration/host-device/add.test.ts: "a device that is run from user space"
 *   plugins#1208                        integration/dhcp/lease.test.ts: "a default route that the configuration has not asked for"
 *
 * plugins#825 needs a kernel with bonding, and a switch.
 */
import { expect, test } from "bun:test"
import { copyFile, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { FlannelHost } from "../flannel/flannel-lab.ts"
import {
  Attachment,
  addressesOf,
  bridgeNetwork,
  builtPlugins,
  fail,
  HostNamespace,
  linkNames,
  ping,
  succeed,
  TemporaryDirectory,
} from "../lab/mod.ts"

test("kubevirt/cluster-network-addons-operator#948: bridge and tuning that are shipped as cnv-bridge and cnv-tuning work", async () => {
  await using host = await HostNamespace.create()
  await using bin = await TemporaryDirectory.create()
  for (const name of ["bridge", "tuning"]) await symlink(join(builtPlugins, name), bin.join(`cnv-${name}`))
  const pod = await host.addContainer()
  const path = `${bin.path}:${builtPlugins}`
  const network = { ...bridgeNetwork({ isGateway: true }), name: "lab", type: "cnv-bridge" }
  const attachment = new Attachment(host, pod, network, { bin: bin.join("cnv-bridge"), path })
  const prevResult = await attachment.add()
  const chained = { cniVersion: "1.1.0", name: "lab", type: "cnv-tuning", mac: "02:00:00:00:00:48", prevResult }
  const tuning = new Attachment(host, pod, chained, { bin: bin.join("cnv-tuning"), path })
  const result = await tuning.add()
  expect(await ping(pod, "10.22.0.1")).toBe(true)
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  expect(await tuning.check(result)).toMatchObject({ exitCode: 0 })
  await tuning.del()
  await attachment.del()
  expect(await pod.json<object[]>("ip", ["-j", "link", "show", "type", "veth"])).toEqual([])
})

test("plugins#281: the runtime's address takes the place of a gateway or a placeholder in static's addresses", async () => {
  await using host = await HostNamespace.create()
  for (const [at, addresses] of [[{ gateway: "10.22.0.1" }], [{}], [null], ["dummy"]].entries()) {
    const pod = await host.addContainer()
    const ip = `10.22.0.${at + 5}/16`
    const keys = { ipam: { type: "static", addresses }, args: { cni: { ips: [ip] } } }
    await new Attachment(host, pod, bridgeNetwork(keys)).add()
    expect(await addressesOf(pod, "eth0")).toEqual([ip])
  }
})

test("podman#17955: an address without a prefix length gets that of static's network which holds it", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const ipam = { type: "static", addresses: [{ address: "10.10.10.2/24" }] }
  const args = "IgnoreUnknown=1;IP=10.10.10.100"
  await new Attachment(host, pod, bridgeNetwork({ ipam }), { args }).add()
  expect(await addressesOf(pod, "eth0")).toContain("10.10.10.100/24")
})

test("plugins#620: an ADD with an address outside of the range leaves nothing that stops the next one", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const network = bridgeNetwork({ isGateway: true })
  const wrong = new Attachment(host, pod, network, { args: "IgnoreUnknown=1;IP=10.99.0.7" })
  for (let count = 0; count < 3; count++) await fail(wrong.run("ADD"))
  const attachment = new Attachment(host, pod, network)
  expect(await attachment.check(await attachment.add())).toMatchObject({ exitCode: 0 })
  await attachment.del()
})

test("hashicorp/nomad#15159: a copy of flannel named flannel-wg serves a second network beside the first", async () => {
  await using net = await FlannelHost.create()
  await using bin = await TemporaryDirectory.create()
  await copyFile(join(builtPlugins, "flannel"), bin.join("flannel-wg"))
  const path = `${bin.path}:${builtPlugins}`
  const [wgFile, dataDir] = ["/run/cni/wg.env", "/var/lib/cni/flannel-wg"]
  const node = "FLANNEL_NETWORK=10.245.0.0/16\nFLANNEL_SUBNET=10.245.1.1/24\nFLANNEL_MTU=1420\nFLANNEL_IPMASQ=false\n"
  await Bun.write(net.host.file(wgFile), node)
  const delegate = { bridge: "cni1", isDefaultGateway: true }
  const [one, other] = [await net.host.addContainer(), await net.host.addContainer("other")]
  const first = net.attachment(one, {}, { path })
  const keys = { name: "wgnet", type: "flannel-wg", subnetFile: wgFile, dataDir, delegate }
  const second = net.attachment(other, keys, { path, bin: bin.join("flannel-wg") })
  const [result, wgResult] = [await first.add(), await second.add()]
  const [ip = "", wgIp = ""] = [result, wgResult].map(({ ips }) => ips[0]?.address.split("/")[0])
  expect([ip.startsWith("10.244.1."), wgIp.startsWith("10.245.1.")]).toEqual([true, true])
  expect([await ping(one, wgIp), await ping(other, ip)]).toEqual([true, true])
  expect(await first.check(result)).toMatchObject({ exitCode: 0 })
  expect(await second.check(wgResult)).toMatchObject({ exitCode: 0 })
  await second.del()
  expect(await first.check(result)).toMatchObject({ exitCode: 0 })
  await first.del()
  const { stdout } = await net.host.exec("find", ["/var/lib/cni/flannel", dataDir, "-type", "f"])
  expect(stdout).toBe("")
})

test("plugins#965: a bridge that is diverted to bridge.distrib works behind a script of its name", async () => {
  await using host = await HostNamespace.create()
  await using bin = await TemporaryDirectory.create()
  await copyFile(join(builtPlugins, "bridge"), bin.join("bridge.distrib"))
  await writeFile(bin.join("bridge"), '#!/bin/sh\nexec "$0.distrib" "$@"\n', { mode: 0o755 })
  const pod = await host.addContainer()
  const call = { bin: bin.join("bridge"), path: `${bin.path}:${builtPlugins}` }
  const attachment = new Attachment(host, pod, bridgeNetwork({ isGateway: true }), call)
  const result = await attachment.add()
  expect(await ping(pod, "10.22.0.1")).toBe(true)
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  await attachment.del()
  expect(await pod.json<object[]>("ip", ["-j", "link", "show", "type", "veth"])).toEqual([])
})

test("cni#391: a range that starts at the network's own address does not give that one out", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const ipam = { type: "host-local", subnet: "10.1.0.0/16", rangeStart: "10.1.0.0" }
  const { json } = await succeed(new Attachment(host, pod, bridgeNetwork({ cniVersion: "0.2.0", ipam })).run("ADD"))
  expect(json).toMatchObject({ ip4: { ip: "10.1.0.2/16", gateway: "10.1.0.1" } })
})

test("cni#303: addresses in args beside cni are ignored, as by the Go plugins, also without a version", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const { cniVersion: _, ...config } = bridgeNetwork({ args: { ips: ["10.22.0.77/16"] } })
  await succeed(new Attachment(host, pod, config).run("ADD"))
  expect(await addressesOf(pod, "eth0")).toEqual(["10.22.0.2/16"])
})

test("multus#995: loopback that is asked for lo1 with addresses sets up lo alone", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const ipam = { type: "static", addresses: [{ address: "10.9.9.9/32" }] }
  const config = { cniVersion: "1.0.0", name: "lo1", type: "loopback", ipam }
  const attachment = new Attachment(host, pod, config, { ifName: "lo1" })
  const result = await attachment.add()
  expect(result.ips.map(({ address }) => address)).toContain("127.0.0.1/8")
  expect((await pod.exec("ip", ["address"])).stdout).not.toContain("10.9.9.9")
  expect(await linkNames(pod)).toEqual(["lo"])
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  await attachment.del()
})
