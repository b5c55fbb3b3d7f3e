import { expect, test } from "bun:test"
import { Attachment, bridgeNetwork, type ContainerNamespace, fail, HostNamespace, ping } from "../lab/mod.ts"

const ipam = {
  type: "static",
  addresses: [{ address: "10.44.0.7/24", gateway: "10.44.0.1" }, { address: "fd00:44::7/64" }],
  routes: [{ dst: "0.0.0.0/0" }],
  dns: { nameservers: ["192.0.2.53"] },
}

async function addressesOf(pod: ContainerNamespace): Promise<string[]> {
  const [eth0] = await pod.json<{ addr_info: { scope: string; local: string; prefixlen: number }[] }[]>("ip", [
    ...["-j", "addr", "show", "eth0"],
  ])
  const global = (eth0?.addr_info ?? []).filter(({ scope }) => scope === "global")
  return global.map(({ local, prefixlen }) => `${local}/${prefixlen}`)
}

test("a bridge attachment gets the addresses, routes and name servers of the configuration", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, bridgeNetwork({ isGateway: true, ipam }))
  const result = await attachment.add()
  expect(await addressesOf(pod)).toEqual(["10.44.0.7/24", "fd00:44::7/64"])
  expect(await ping(pod, "10.44.0.1")).toBe(true)
  expect(result.routes).toEqual([{ dst: "0.0.0.0/0" }])
  expect(result.dns).toEqual({ nameservers: ["192.0.2.53"] })
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
  await attachment.del()
  await attachment.del()
})

test("CNI_ARGS add addresses with their gateways; runtimeConfig replaces all", async () => {
  await using host = await HostNamespace.create()
  const [first, second] = [await host.addContainer(), await host.addContainer()]
  const args = "IgnoreUnknown=1;IP=10.55.0.9/24;GATEWAY=10.55.0.1"
  const { json } = await new Attachment(host, first, bridgeNetwork({ ipam }), { args }).run("ADD")
  expect(json).toMatchObject({
    ips: expect.arrayContaining([expect.objectContaining({ address: "10.55.0.9/24", gateway: "10.55.0.1" })]),
  })
  const runtimeConfig = { ips: ["10.66.0.5/24"] }
  await new Attachment(host, second, bridgeNetwork({ ipam, runtimeConfig })).add()
  expect(await addressesOf(second)).toEqual(["10.66.0.5/24"])
})

test("an address without a prefix is refused, and nothing was made", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const wrong = { type: "static", addresses: [{ address: "10.44.0.7" }] }
  const error = await fail(new Attachment(host, pod, bridgeNetwork({ ipam: wrong })).run("ADD"))
  expect(error.code).toBe(7)
  expect(`${error.msg}; ${error.details ?? ""}`).toContain("10.44.0.7")
  expect(await host.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
})

test("the runtime's address takes the place of a placeholder, and gets the prefix length of the network that holds it", async () => {
  await using host = await HostNamespace.create()
  const [first, second] = [await host.addContainer(), await host.addContainer()]
  const placeholder = { type: "static", addresses: [{ gateway: "10.66.0.1" }] }
  const runtimeConfig = { ips: ["10.66.0.5/24"] }
  const attachment = new Attachment(host, first, bridgeNetwork({ ipam: placeholder, runtimeConfig }))
  expect((await attachment.check(await attachment.add())).exitCode).toBe(0)
  expect(await addressesOf(first)).toEqual(["10.66.0.5/24"])
  const args = "IgnoreUnknown=1;IP=10.44.0.100"
  expect((await new Attachment(host, second, bridgeNetwork({ ipam }), { args }).run("ADD")).exitCode).toBe(0)
  expect(await addressesOf(second)).toContain("10.44.0.100/24")
})
