import { expect, test } from "bun:test"
import type { AttachingPlugin } from "./attaching-plugins.ts"
import { Attachment } from "./attachment.ts"
import { connectedHost } from "./masquerade-host.ts"
import { askEcho, EchoPeer, HostNamespace } from "./mod.ts"

const outside = [
  { address: "203.0.113.9", seen: "203.0.113.1" },
  { address: "2001:db8:113::9", seen: "2001:db8:113::1" },
]

/** An address as IPv4 writes it, where an IPv6 socket has it mapped. */
function unmapped(address: string): string {
  return address.replace("::ffff:", "")
}

/** Tests whose address is seen at which end; `backends` are those to be asked for by name. */
export function testMasquerade(plugin: AttachingPlugin, backends: readonly string[] = []): void {
  const choices = [
    { by: "what the kernel has", keys: {} },
    ...backends.map((backend) => ({ by: backend, keys: { ipMasqBackend: backend } })),
  ]

  test.each(choices.flatMap((choice) => outside.map((way) => ({ ...choice, ...way }))))(
    "with ipMasq by $by the internet at $address sees the host's address, for TCP and UDP",
    async ({ keys, address, seen }) => {
      const { host, internet } = await connectedHost()
      await using _ = host
      const pod = await host.addContainer()
      const attachment = new Attachment(host, pod, plugin.network({ ...plugin.dualStack, ipMasq: true, ...keys }))
      const result = await attachment.add()
      await using peer = await EchoPeer.start(internet)
      for (const transport of ["tcp", "udp"] as const) {
        const { from } = await askEcho(pod, { transport, address, port: peer.port })
        expect(unmapped(from.address)).toBe(seen)
      }
      expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
      await attachment.del({ ipMasq: false }, { netns: "" })
      // Without nf_tables this says nothing; what comes after a DEL is looked at below.
      expect((await host.tryExec("nft", ["list", "ruleset"])).stdout).not.toContain(pod.name)
    },
  )

  test("without ipMasq the internet, given a route back, sees the container's address", async () => {
    const { host, internet } = await connectedHost()
    await using _ = host
    await internet.exec("ip", ["route", "add", plugin.subnet, "via", "203.0.113.1"])
    const pod = await host.addContainer()
    await new Attachment(host, pod, plugin.network(plugin.dualStack)).add()
    await using peer = await EchoPeer.start(internet)
    const { from } = await askEcho(pod, { transport: "tcp", address: "203.0.113.9", port: peer.port })
    expect(unmapped(from.address)).toBe(plugin.pairs[0].first)
  })

  test("the masquerade ends with DEL", async () => {
    const { host, internet } = await connectedHost()
    await using _ = host
    await internet.exec("ip", ["route", "add", plugin.subnet, "via", "203.0.113.1"])
    const pod = await host.addContainer()
    const attachment = new Attachment(host, pod, plugin.network({ ...plugin.dualStack, ipMasq: true }))
    await attachment.add()
    await attachment.del()
    const { first } = plugin.pairs[0]
    const plain = plugin.network({ ...plugin.dualStack, args: { cni: { ips: [first] } } })
    await new Attachment(host, pod, plain).add()
    await using peer = await EchoPeer.start(internet)
    const { from } = await askEcho(pod, { transport: "udp", address: "203.0.113.9", port: peer.port })
    expect(unmapped(from.address)).toBe(first)
  })

  test("traffic between containers of one network keeps its addresses", async () => {
    await using host = await HostNamespace.create()
    const [a, b] = [await host.addContainer(), await host.addContainer()]
    const config = plugin.network({ ...plugin.dualStack, ipMasq: true })
    await new Attachment(host, a, config).add()
    await new Attachment(host, b, config).add()
    await using peer = await EchoPeer.start(b)
    for (const { first, second } of plugin.pairs) {
      const { from } = await askEcho(a, { transport: "tcp", address: second, port: peer.port })
      expect(unmapped(from.address)).toBe(first)
    }
  })
}
