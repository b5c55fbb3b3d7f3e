import { expect, test } from "bun:test"
import {
  type Attached,
  casesOf,
  fail,
  type HostNamespace,
  interfacePlugins,
  linkNames,
  type PluginResult,
  pluginsAs,
  Stage,
  testPlugins,
  writeSysctl,
} from "../lab/mod.ts"

const dualStack = {
  ipam: {
    type: "host-local",
    ranges: [[{ subnet: "10.22.0.0/24" }], [{ subnet: "fd00:22::/64" }]],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "198.51.100.0/24" }],
  },
}

testPlugins(
  pluginsAs(),
  "#29, #30 %s: CHECK at once after ADD passes, prints nothing and ends with 0",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const keys = pluginsAs("interface").includes(plugin) ? dualStack : {} // other plugins would wait for IPv6 addresses
    for (const _attempt of [1, 2, 3]) {
      const { attachment } = await stage.attach({ keys })
      const result = await attachment.add()
      expect(await attachment.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
    }
  },
  { forEachKind: true },
)

test("#29 bridge: ADD has waited for duplicate address detection when it answers, so that CHECK need not", async () => {
  await using stage = await Stage.create("bridge")
  const { pod, attachment } = await stage.attach({ keys: { ...dualStack, enabledad: true } })
  const result = await attachment.add()
  const addresses = async () =>
    (await pod.exec("ip", ["-6", "address", "show", "dev", "eth0", "scope", "global"])).stdout
  expect(await addresses()).toContain("fd00:22::2/64")
  expect(await addresses()).not.toMatch(/tentative|nodad/)
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
})

interface Damage {
  plugin: string
  what: string
  forEachKind?: boolean
  damage: (stage: Stage, one: Attached) => Promise<unknown>
  /** Words of the expected error. */
  says: string | RegExp
}

/** Returns the name of the only veth on the host. */
async function hostEndOn(host: HostNamespace): Promise<string> {
  const [name] = (await linkNames(host)).filter((each) => each.startsWith("veth"))
  return name ?? "no veth"
}

/** Damage to objects that the result contains. */
const visible: Damage[] = [
  ...pluginsAs("interface").flatMap((plugin): Damage[] => [
    {
      plugin,
      what: "the interface is gone",
      damage: (_, { pod }) => pod.exec("ip", ["link", "del", "eth0"]),
      says: /interface "eth0" in ".*" failed: expected an? .+, found none/,
    },
    {
      plugin,
      what: "the address is another",
      damage: async (_, { pod }) => {
        await pod.exec("ip", ["address", "add", "10.22.0.77/24", "dev", "eth0"])
        await pod.exec("ip", ["address", "del", "10.22.0.2/24", "dev", "eth0"])
        await pod.exec("ip", ["route", "replace", "default", "via", "10.22.0.1", "dev", "eth0", "onlink"])
      },
      says: "expected 10.22.0.2/24",
    },
    {
      plugin,
      what: "the default route is gone",
      damage: (_, { pod }) => pod.exec("ip", ["route", "del", "default"]),
      says: "expected default via 10.22.0.1",
    },
    {
      plugin,
      what: "the interface is down",
      forEachKind: true,
      damage: (_, { pod }) => pod.exec("ip", ["link", "set", "eth0", "down"]),
      says: 'interface "eth0" failed: expected up, found down',
    },
    {
      plugin,
      what: "the MAC is another",
      damage: (_, { pod }) => pod.exec("ip", ["link", "set", "eth0", "address", "0a:00:00:00:00:77"]),
      says: "found 0a:00:00:00:00:77",
    },
  ]),
  ...interfacePlugins(({ hasHostEnd }) => hasHostEnd).map(
    (plugin): Damage => ({
      plugin,
      what: "the host's end of the pair is down",
      damage: async ({ host }) => host.exec("ip", ["link", "set", await hostEndOn(host), "down"]),
      says: /host interface "\w+" failed: expected up, found down/,
    }),
  ),
  {
    plugin: "bridge",
    what: "the bridge has lost the gateway's address",
    damage: ({ host }) => host.exec("ip", ["address", "flush", "dev", "br-lab"]),
    says: 'addresses of "br-lab" failed: expected 10.22.0.1/24',
  },
  {
    plugin: "bridge",
    what: "the port has left the bridge",
    damage: async ({ host }) => host.exec("ip", ["link", "set", await hostEndOn(host), "nomaster"]),
    says: 'a port of bridge "br-lab"',
  },
  {
    plugin: "loopback",
    what: "lo is down",
    damage: (_, { pod }) => pod.exec("ip", ["link", "set", "lo", "down"]),
    says: "loopback interface is down",
  },
  {
    plugin: "tuning",
    what: "the queue has another length",
    damage: (_, { pod }) => pod.exec("ip", ["link", "set", "eth0", "txqueuelen", "78"]),
    says: '"txQLen" of "eth0" failed: expected 77, found 78',
  },
]

/** Damage to objects that the result does not contain. */
const hidden: Damage[] = [
  ...interfacePlugins(({ masquerades }) => masquerades).flatMap((plugin): Damage[] => [
    {
      plugin,
      what: "the masquerade is gone",
      damage: ({ host }) => host.exec("nft", ["flush", "ruleset"]),
      says: "masquerade of lab/",
    },
    {
      plugin,
      what: "the host no longer forwards",
      damage: ({ host }) => writeSysctl(host, "net/ipv4/ip_forward", "0"),
      says: 'sysctl "net/ipv4/ip_forward" failed: expected 1, found 0',
    },
  ]),
  ...[...pluginsAs("interface"), "host-local"].flatMap((plugin): Damage[] => [
    {
      plugin,
      what: "the lease is gone",
      forEachKind: true,
      damage: ({ host }) => host.exec("rm", ["/var/lib/cni/networks/lab/10.22.0.2"]),
      says: "10.22.0.2 is not reserved",
    },
    {
      plugin,
      what: "the lease is another container's",
      damage: ({ host }) => host.exec("tee", ["/var/lib/cni/networks/lab/10.22.0.2"], { input: "another-one\r\neth0" }),
      says: "10.22.0.2 is reserved for",
    },
  ]),
  {
    plugin: "firewall",
    what: "the rules are gone",
    damage: ({ host }) => host.exec("nft", ["flush", "ruleset"]),
    says: "Cannot find the firewall rules of lab/",
  },
  {
    plugin: "portmap",
    what: "the rules are gone",
    damage: ({ host }) => host.exec("nft", ["flush", "ruleset"]),
    says: "Cannot find a port mapping of lab/",
  },
  {
    plugin: "tuning",
    what: "a sysctl has another value",
    damage: (_, { pod }) => writeSysctl(pod, "net/ipv4/conf/eth0/arp_filter", "0"),
    says: "arp_filter",
  },
]

testPlugins(visible, "#26 $plugin: CHECK fails when $what", expectFailure)
testPlugins(hidden, "#28 $plugin: CHECK fails when $what", expectFailure)

async function expectFailure({ plugin, damage, says }: Damage): Promise<void> {
  await using stage = await Stage.create(plugin)
  const one = await stage.attach()
  const result = await one.attachment.add()
  expect(await one.attachment.check(result)).toMatchObject({ exitCode: 0 })
  await damage(stage, one)
  const { msg, details } = await fail(one.attachment.check(result))
  expect(`${msg}; ${details ?? ""}`).toMatch(says)
}

test("#26 static: CHECK fails when the result lacks an address of the configuration", async () => {
  await using stage = await Stage.create("static")
  const { attachment } = await stage.attach()
  const result = await attachment.add()
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  const { msg } = await fail(attachment.check({ ...result, ips: [{ address: "10.44.0.8/24" }] }))
  expect(msg).toContain("10.44.0.7/24")
})

/** Changes of routes by a later plugin of the chain, and the prevResult that this plugin returns. */
const changes: {
  what: string
  forEachKind?: boolean
  commands: string[]
  tell: (result: PluginResult) => PluginResult
}[] = [
  {
    what: "adds a route and does not tell",
    commands: ["add 203.0.113.0/24 via 10.22.0.1 dev eth0"],
    tell: (result) => result,
  },
  {
    what: "redirects the default route and does not tell",
    forEachKind: true,
    commands: ["del default", "add default via 10.22.0.99 dev eth0 onlink"],
    tell: (result) => result,
  },
  {
    what: "removes a route and tells",
    commands: ["del 198.51.100.0/24"],
    tell: (result) => ({ ...result, routes: result.routes?.filter(({ dst }) => dst !== "198.51.100.0/24") ?? [] }),
  },
  {
    what: "moves a route to another table and tells",
    commands: ["del 198.51.100.0/24", "add 198.51.100.0/24 via 10.22.0.1 dev eth0 table 100"],
    tell: (result) => ({
      ...result,
      routes: result.routes?.map((route) => (route.dst === "198.51.100.0/24" ? { ...route, table: 100 } : route)) ?? [],
    }),
  },
]

testPlugins(
  casesOf(pluginsAs("interface"), changes),
  "#27 $plugin: CHECK passes when a later plugin $what",
  async ({ plugin, commands, tell }) => {
    await using stage = await Stage.create(plugin)
    const { pod, attachment } = await stage.attach({ keys: dualStack })
    const result = await attachment.add()
    for (const command of commands) await pod.exec("ip", ["route", ...command.split(" ")])
    expect(await attachment.check(tell(result))).toMatchObject({ exitCode: 0, stdout: "" })
  },
)
