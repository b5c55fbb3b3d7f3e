import { expect, test } from "bun:test"
import { Attachment, askEcho, EchoPeer, HostNamespace } from "../lab/mod.ts"
import { connectedHost, expectNestedApart, nestedIpam } from "../masquerade/host.ts"
import { dualStack, ptpNetwork } from "./network.ts"

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

test("the masquerade of one attachment of a container ends with its DEL, the other's stays", async () => {
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
