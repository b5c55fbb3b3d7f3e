import { expect } from "bun:test"
import { createHash } from "node:crypto"
import {
  Attachment,
  askEcho,
  EchoPeer,
  fail,
  HostNamespace,
  interfacePlugin,
  interfacePlugins,
  testPlugin,
  testWith,
} from "../lab/mod.ts"
import { connectedHost } from "../masquerade/host.ts"

const outside = [
  { address: "203.0.113.9", seen: "203.0.113.1" },
  { address: "2001:db8:113::9", seen: "2001:db8:113::1" },
]

/** The identity of an attachment. */
interface Owner {
  network: string
  containerId: string
  ifName: string
}

/** Returns an address without the prefix of IPv4-mapped addresses, which IPv6 sockets add. */
function unmapped(address: string): string {
  return address.replace("::ffff:", "")
}

/** Returns the nftables table of the Go plugins since 1.6 for an attachment with `addresses`. */
function upstreamTable({ network, containerId, ifName }: Owner, addresses: readonly string[]): string {
  const digits = (text: string) => createHash("sha512").update(text).digest("hex").slice(0, 16)
  const comment = `${digits(network)}-${digits(`${ifName}:${containerId}`)}, net: ${network}, if: ${ifName}, id: ${containerId}`
  const rules = addresses.map((address) => {
    const [ip = "", family] = [address.split("/")[0], address.includes(":") ? "ip6" : "ip"]
    return `${family} saddr ${ip} ${family} daddr != ${address} masquerade comment "${comment}"`
  })
  return `table inet cni_plugins_masquerade {
    chain masq_checks {
      ${rules.join("\n      ")}
    }
    chain postrouting {
      type nat hook postrouting priority 100
      ip daddr 224.0.0.0/4 return
      ip6 daddr ff00::/8 return
      goto masq_checks
    }
  }
`
}

/** The values of `ipMasqBackend`. */
const backends = ["nftables", "iptables"]

for (const name of interfacePlugins(({ masquerades }) => masquerades)) {
  const plugin = interfacePlugin(name)
  const choices = [
    { by: "what the kernel has", keys: {} },
    ...backends.map((backend) => ({ by: backend, keys: { ipMasqBackend: backend } })),
  ]

  for (const { by, keys, address, seen } of choices.flatMap((choice) =>
    outside.map((way) => ({ ...choice, ...way })),
  )) {
    testPlugin(
      name,
      `${name}: with ipMasq by ${by} the internet at ${address} sees the host's address, for TCP and UDP`,
      async () => {
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
        // On a kernel without nf_tables this proves nothing. Another test checks the rules after DEL.
        expect((await host.tryExec("nft", ["list", "ruleset"])).stdout).not.toContain(pod.name)
      },
    )
  }

  testWith(
    ["nf_tables"],
    `${name}: CHECK takes the masquerade that the Go suite's nftables backend has made`,
    async () => {
      await using host = await HostNamespace.create()
      const pod = await host.addContainer()
      const config = plugin.network({ ...plugin.dualStack, ipMasq: true })
      const attachment = new Attachment(host, pod, config)
      const result = await attachment.add()
      const owner = { network: String(config.name), containerId: pod.name, ifName: "eth0" }
      const addresses = result.ips.map(({ address }) => address)
      const table = (...left: string[]) => `flush ruleset\n${upstreamTable(owner, left)}`
      const check = async (text: string, keys: object = {}) => {
        await host.exec("nft", ["-f", "-"], { input: text })
        return attachment.check(result, keys)
      }
      for (const keys of [{}, ...backends.map((ipMasqBackend) => ({ ipMasqBackend }))]) {
        expect(await check(table(...addresses), keys)).toMatchObject({ exitCode: 0, stdout: "" })
      }
      const damaged = {
        "an address has no rule": table(...addresses.slice(1)),
        "the other has none": table(...addresses.slice(0, 1)),
        "nothing leads there": table(...addresses).replace("goto masq_checks", ""),
        "it is another attachment's": `flush ruleset\n${upstreamTable({ ...owner, ifName: "eth1" }, addresses)}`,
        "it is for what they get": table(...addresses).replace(/(\w+) saddr (\S+) \w+ daddr != \S+/g, "$1 daddr != $2"),
        "it does not masquerade": table(...addresses).replaceAll(" masquerade ", " accept "),
      }
      for (const text of Object.values(damaged)) {
        expect((await fail(check(text))).msg).toContain("Cannot find the masquerade of")
      }
      await attachment.del()
    },
  )

  testPlugin(
    name,
    `${name}: without ipMasq the internet, given a route back, sees the container's address`,
    async () => {
      const { host, internet } = await connectedHost()
      await using _ = host
      await internet.exec("ip", ["route", "add", plugin.subnet, "via", "203.0.113.1"])
      const pod = await host.addContainer()
      await new Attachment(host, pod, plugin.network(plugin.dualStack)).add()
      await using peer = await EchoPeer.start(internet)
      const { from } = await askEcho(pod, { transport: "tcp", address: "203.0.113.9", port: peer.port })
      expect(unmapped(from.address)).toBe(plugin.pairs[0].first)
    },
  )

  for (const ipMasqBackend of backends) {
    testPlugin(name, `${name}: with ${ipMasqBackend}, ipMasqBeyond keeps the address within a cluster`, async () => {
      const { host, internet } = await connectedHost()
      await using _ = host
      // The host has a route to another node of the cluster. Containers there must see the container's own address.
      const remote = ["10.200.0.9", "fd00:ffff::9"]
      for (const [at, address] of remote.entries()) {
        await internet.exec("ip", ["address", "add", address, "dev", "lo"])
        await host.exec("ip", ["route", "add", address, "via", outside[at]?.address ?? ""])
      }
      for (const { first } of plugin.pairs)
        await internet.exec("ip", [
          "route",
          "add",
          first,
          "via",
          first.includes(":") ? "2001:db8:113::1" : "203.0.113.1",
        ])
      const pod = await host.addContainer()
      const keys = { ipMasq: true, ipMasqBackend, ipMasqBeyond: ["192.168.0.0/16", "10.0.0.0/8", "fd00::/16"] }
      const attachment = new Attachment(host, pod, plugin.network({ ...plugin.dualStack, ...keys }))
      const result = await attachment.add()
      await using peer = await EchoPeer.start(internet)
      const seenAt = async (address: string) =>
        unmapped((await askEcho(pod, { transport: "tcp", address, port: peer.port })).from.address)
      expect(await Promise.all(remote.map(seenAt))).toEqual(plugin.pairs.map(({ first }) => first))
      for (const { address, seen } of outside) expect(await seenAt(address)).toBe(seen)
      expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
      await attachment.del({}, { netns: "" })
      expect((await host.exec("nft", ["list", "ruleset"])).stdout).not.toContain(pod.name)
    })
  }

  testPlugin(name, `${name}: the masquerade ends with DEL`, async () => {
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

  testPlugin(name, `${name}: traffic between containers of one network keeps its addresses`, async () => {
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
