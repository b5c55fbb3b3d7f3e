import { expect, test } from "bun:test"
import { Attachment } from "./attachment.ts"
import { expectNestedApart, nestedIpam } from "./masquerade-host.ts"
import { askEcho, connect, EchoPeer, HostNamespace } from "./mod.ts"
import { dualStack, ptpNetwork } from "./ptp-network.ts"

/** A host with an uplink to an internet that has no route back to the containers. */
async function connectedHost() {
  const host = await HostNamespace.create()
  const internet = await host.addContainer("internet")
  await connect(
    { namespace: host, link: "up0", addresses: ["203.0.113.1/24", "2001:db8:113::1/64"] },
    { namespace: internet, link: "eth0", addresses: ["203.0.113.9/24", "2001:db8:113::9/64"] },
  )
  return { host, internet }
}

const outside = [
  { address: "203.0.113.9", seen: "203.0.113.1" },
  { address: "2001:db8:113::9", seen: "2001:db8:113::1" },
]

const backends = [undefined, "nftables", "iptables"].flatMap((backend) => outside.map((way) => ({ backend, ...way })))

test.each(backends)("with ipMasq by $backend the internet at $address sees the host's address", async (way) => {
  const { backend, address, seen } = way
  const { host, internet } = await connectedHost()
  await using _ = host
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, ptpNetwork({ ...dualStack, ipMasq: true, ipMasqBackend: backend }))
  const result = await attachment.add()
  await using peer = await EchoPeer.start(internet)
  for (const transport of ["tcp", "udp"] as const) {
    const { from } = await askEcho(pod, { transport, address, port: peer.port })
    expect(from.address.replace("::ffff:", "")).toBe(seen)
  }
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  await attachment.del({ ipMasq: false }, { netns: "" })
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).not.toContain(pod.name)
})

test("without ipMasq the internet, given a route back, sees the container's address", async () => {
  const { host, internet } = await connectedHost()
  await using _ = host
  await internet.exec("ip", ["route", "add", "10.9.0.0/24", "via", "203.0.113.1"])
  const pod = await host.addContainer()
  await new Attachment(host, pod, ptpNetwork(dualStack)).add()
  await using peer = await EchoPeer.start(internet)
  const { from } = await askEcho(pod, { transport: "tcp", address: "203.0.113.9", port: peer.port })
  expect(from.address.replace("::ffff:", "")).toBe("10.9.0.2")
})

test("traffic between containers of one network keeps its addresses", async () => {
  await using host = await HostNamespace.create()
  const [a, b] = [await host.addContainer(), await host.addContainer()]
  const config = ptpNetwork({ ...dualStack, ipMasq: true })
  await new Attachment(host, a, config).add()
  await new Attachment(host, b, config).add()
  await using peer = await EchoPeer.start(b)
  for (const [address, seen] of [
    ["10.9.0.3", "10.9.0.2"],
    ["fd00:9::3", "fd00:9::2"],
  ] as const) {
    const { from } = await askEcho(a, { transport: "tcp", address, port: peer.port })
    expect(from.address.replace("::ffff:", "")).toBe(seen)
  }
})

test("two networks with the same first address and different prefix lengths are told apart", async () => {
  await using host = await HostNamespace.create()
  const [large, small] = [await host.addContainer(), await host.addContainer()]
  for (const [name, pod] of [
    ["large", large],
    ["small", small],
  ] as const) {
    await new Attachment(host, pod, ptpNetwork({ name, ipam: nestedIpam(name), ipMasq: true })).add()
  }
  await expectNestedApart(large, small)
})

test("the masquerade of one attachment of a container ends with its DEL, the other's stays (KW-M1)", async () => {
  const { host, internet } = await connectedHost()
  await using _ = host
  const pod = await host.addContainer()
  const config = ptpNetwork({ ...dualStack, ipMasq: true })
  const first = new Attachment(host, pod, config)
  await first.add()
  await new Attachment(host, pod, config, { ifName: "eth1" }).add()
  await first.del()
  const { stdout } = await host.exec("nft", ["list", "ruleset"])
  expect(stdout).not.toContain("10.9.0.2")
  expect(stdout).toContain("10.9.0.3")
  await using peer = await EchoPeer.start(internet)
  const { from } = await askEcho(pod, { transport: "udp", address: "203.0.113.9", port: peer.port })
  expect(from.address.replace("::ffff:", "")).toBe("203.0.113.1")
})
