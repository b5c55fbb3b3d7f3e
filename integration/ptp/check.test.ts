import { expect, test } from "bun:test"
import { Attachment, type ContainerNamespace, fail, HostNamespace, type PluginResult, writeSysctl } from "../lab/mod.ts"
import { dualStack, ptpNetwork } from "./network.ts"

const config = ptpNetwork({ ...dualStack, ipMasq: true, mtu: 1400 })

async function attached() {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, config)
  const result = await attachment.add()
  return { host, pod, attachment, result, end: result.interfaces[0]?.name ?? "" }
}

test("CHECK passes for the same namespace under another path", async () => {
  const { host, pod, attachment, result } = await attached()
  await using _ = host
  const [pid] = (await host.exec("ip", ["netns", "pids", host.name])).stdout.trim().split("\n")
  const netns = `/proc/${pid}/root${pod.path}`
  const checked = await attachment.run("CHECK", { prevResult: result }, { netns })
  expect(checked).toMatchObject({ exitCode: 0, stdout: "" })
})

test("CHECK ignores interfaces of prevResult that other plugins of the chain have made", async () => {
  const { host, attachment, result } = await attached()
  await using _ = host
  const others = [{ name: "ifb0" }, { name: "tap0", sandbox: "/run/netns/elsewhere" }]
  expect(await attachment.check({ ...result, interfaces: [...result.interfaces, ...others] })).toMatchObject({
    exitCode: 0,
  })
})

test("CHECK without prevResult says that it is missing", async () => {
  const { host, attachment } = await attached()
  await using _ = host
  const { code, msg } = await fail(attachment.run("CHECK"))
  expect(code).toBe(7)
  expect(msg).toContain("prevResult is missing")
})

const damages: {
  what: string
  damage: (host: HostNamespace, pod: ContainerNamespace, end: string, result: PluginResult) => Promise<unknown>
  says: string[]
}[] = [
  {
    what: "the interface is of another kind",
    damage: async (_, pod) => {
      await pod.exec("ip", ["link", "del", "eth0"])
      await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
    },
    says: ['interface "eth0"', 'found kind "bridge"'],
  },
  {
    what: "the IPv6 address has another prefix",
    damage: async (_, pod) => {
      await pod.exec("ip", ["addr", "del", "fd00:9::2/64", "dev", "eth0"])
      await pod.exec("ip", ["addr", "add", "fd00:9::2/128", "dev", "eth0"])
    },
    says: ["expected fd00:9::2/64", "fd00:9::2/128"],
  },
  {
    what: "the route to the gateway is gone",
    damage: (_, pod) => pod.exec("ip", ["-6", "route", "del", "fd00:9::1", "dev", "eth0"]),
    says: ["expected fd00:9::1/128 dev eth0, found no route to it"],
  },
  {
    what: "the route to the network leads somewhere else",
    damage: (_, pod) => pod.exec("ip", ["route", "replace", "10.9.0.0/24", "dev", "eth0"]),
    says: ["expected 10.9.0.0/24 via 10.9.0.1 dev eth0, found 10.9.0.0/24 dev eth0"],
  },
  {
    what: "the container is no longer masqueraded",
    damage: (host) => host.exec("nft", ["flush", "set", "ip6", "cni_masquerade", "containers"]),
    says: ["masquerade of wire/", "fd00:9::2"],
  },
  {
    what: "the masquerade's table is dormant",
    damage: (host) => host.exec("nft", ["add table ip cni_masquerade { flags dormant; }"]),
    says: ["masquerade of wire/", 'found table ip cni_masquerade with "flags dormant"'],
  },
]

/** Changes on the host, which CHECK of the Go plugin does not notice. */
const hostDamages: typeof damages = [
  {
    what: "the host's end was renamed",
    damage: async (host, _, end) => {
      await host.exec("ip", ["link", "set", end, "down"])
      await host.exec("ip", ["link", "set", end, "name", "other0", "up"])
    },
    says: ['peer of "eth0"', 'found "other0"'],
  },
  {
    what: "the host's end has moved away",
    damage: async (host, pod, end) => host.exec("ip", ["link", "set", end, "netns", pod.name]),
    says: ['interface "eth0"', "a veth with its peer on the host"],
  },
  {
    what: "the host's end is another attachment's",
    damage: (host, _, end) => host.exec("ip", ["link", "set", end, "alias", "wire/other/eth0"]),
    says: ["alias of host interface", "found wire/other/eth0"],
  },
  {
    what: "the gateway address is gone",
    damage: (host, _, end) => host.exec("ip", ["addr", "del", "10.9.0.1/32", "dev", end]),
    says: ["expected 10.9.0.1/32", "found fd00:9::1/128"],
  },
  {
    what: "the host's route to the container is gone",
    damage: (host, _, end) => host.exec("ip", ["route", "del", "10.9.0.2", "dev", end]),
    says: ["routes", "expected 10.9.0.2/32 dev veth", "found no route to it"],
  },
  {
    what: "the host's IPv6 route to the container leads elsewhere",
    damage: (host) => host.exec("ip", ["-6", "route", "replace", "fd00:9::2", "dev", "lo"]),
    says: ["expected fd00:9::2/128 dev veth", "found fd00:9::2/128 dev lo"],
  },
  {
    what: "the host has stopped forwarding",
    damage: (host) => writeSysctl(host, "net/ipv6/conf/all/forwarding", "0"),
    says: ["net/ipv6/conf/all/forwarding", "expected 1, found 0"],
  },
]

test.each(damages)("CHECK names it when $what", ({ damage, says }) => expectNamed(damage, says))
test.each(hostDamages)("CHECK names it when $what", ({ damage, says }) => expectNamed(damage, says))

async function expectNamed(damage: (typeof damages)[number]["damage"], says: string[]): Promise<void> {
  const { host, pod, attachment, result, end } = await attached()
  await using _ = host
  await damage(host, pod, end, result)
  const { msg, details } = await fail(attachment.check(result))
  for (const words of says) expect(`${msg}; ${details ?? ""}`).toContain(words)
}
