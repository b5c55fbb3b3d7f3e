/** Public bug reports of people who run CNI plugins, one case for each: what they did, and what has to happen. */
import { expect, test } from "bun:test"
import { symlink } from "node:fs/promises"
import { join } from "node:path"
import {
  Attachment,
  addressesOf,
  bridgeNetwork,
  builtPlugins,
  fail,
  HostNamespace,
  ping,
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
