import { expect, test } from "bun:test"
import {
  Attachment,
  casesOf,
  expectUnchanged,
  fail,
  HostNamespace,
  isAllocationTrace,
  type PluginResult,
  pluginsAs,
  Stage,
  succeed,
  takeSnapshot,
  testPlugins,
} from "../lab/mod.ts"

/** A result with every key of version 1.1.0. */
const full = {
  cniVersion: "1.1.0",
  interfaces: [
    { name: "host7", mac: "0a:00:00:00:00:06", mtu: 1400 },
    {
      name: "eth0",
      mac: "0a:00:00:00:00:07",
      mtu: 1400,
      sandbox: "/run/netns/elsewhere",
      socketPath: "/run/vhost.sock",
      pciID: "0000:00:1f.6",
    },
  ],
  ips: [
    { address: "192.0.2.7/24", gateway: "192.0.2.1", interface: 1 },
    { address: "192.0.2.8/24", interface: 0 },
    { address: "2001:db8::7/64", interface: -1 },
    { address: "2001:db8::8/64" },
  ],
  routes: [
    { dst: "0.0.0.0/0", gw: "192.0.2.1" },
    { dst: "198.51.100.0/24", mtu: 1300, advmss: 1200, priority: 7, table: 0, scope: 0 },
  ],
  dns: { nameservers: ["192.0.2.53"], domain: "lab", search: ["a.lab"], options: ["ndots:5"] },
}

/** The same result with only the keys of version 0.4.0. */
const older = {
  ...full,
  cniVersion: "0.4.0",
  interfaces: full.interfaces.map(
    ({ mtu: _mtu, socketPath: _path, pciID: _id, ...rest }: Record<string, unknown>) => rest,
  ),
  ips: full.ips.map((ip) => ({ ...ip, version: ip.address.includes(":") ? "6" : "4" })),
}

/** The plugins that do nothing with some configuration, and the keys of that configuration. */
const idle = [
  { plugin: "loopback", keys: {} },
  { plugin: "portmap", keys: { runtimeConfig: { portMappings: [] } } },
  { plugin: "tuning", keys: { sysctl: {} } },
]

test.each(idle)("#10 $plugin: ADD with nothing to change answers prevResult with the same content", async (idler) => {
  await using host = await HostNamespace.create()
  const { plugin, keys } = idler
  for (const prevResult of [full, { ...full, cniVersion: "1.0.0" }, older, { ...older, cniVersion: "0.3.1" }]) {
    const { cniVersion } = prevResult
    const config = { cniVersion, name: "lab", type: plugin, prevResult, ...keys }
    const result: unknown = await new Attachment(host, await host.addContainer(), config, { ifName: "lo" }).add()
    expect(result).toEqual(prevResult)
  }
})

test("#10 portmap: ADD that maps ports answers prevResult with the same content", async () => {
  await using stage = await Stage.create("portmap")
  const { attachment } = await stage.attach()
  const result: unknown = await attachment.add()
  expect(result).toEqual(attachment.config.prevResult)
})

testPlugins(
  pluginsAs(),
  "%s: there is no unknown key that could not be accepted, so that none is refused with code 2",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { attachment, pod, ifName } = await stage.attach()
    const keys = {
      "cni.dev/new": { a: 1 },
      "org.example/key": [null],
      surprise: "value",
      runtimeConfig: runtimeConfigOf(attachment),
    }
    const result = await attachment.add(keys)
    expect(await attachment.check(result, keys)).toMatchObject({ exitCode: 0, stdout: "" })
    const valid = { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: ifName }] }
    for (const verb of ["STATUS", "GC", "DEL"] as const) {
      expect(await attachment.run(verb, { ...keys, ...valid })).toMatchObject({ exitCode: 0, stdout: "" })
    }
  },
)

/** Returns the runtimeConfig of the attachment, with a capability that the plugin does not know. */
function runtimeConfigOf({ config }: Attachment): object {
  return { ...(config.runtimeConfig as object), "org.example/capability": { deep: [1] } }
}

const unknownArgs = [
  { labels: [{ key: "app", value: "web" }] },
  { cni: { labels: [{ key: "app", value: "web" }], unheard: { of: ["it"] } }, "org.example": 5 },
  { cni: {} },
]

testPlugins(
  pluginsAs(),
  "#41, #49 %s: what it does not know in args is ignored, and so are capabilities",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    await stage.settle()
    const { attachment, pod } = await stage.attach()
    const answers: unknown[] = []
    const states = []
    for (const args of [undefined, ...unknownArgs]) {
      const keys = args && { args, capabilities: { mac: true, ips: true, portMappings: true, other: false } }
      answers.push(shapeOf(await attachment.add(keys)))
      states.push(await takeSnapshot(pod))
      await succeed(attachment.run("DEL", keys))
    }
    for (const answer of answers) expect(answer).toEqual(answers[0])
    for (const state of states)
      expectUnchanged(states[0] ?? {}, state, ({ line }) => /address |10\.22\.0\.\d/.test(line))
  },
)

/** Returns a result without its random parts: names on the host, addresses from a pool, and MAC addresses. */
function shapeOf(result: PluginResult): string {
  return JSON.stringify(result)
    .replaceAll(/veth[0-9a-f]{8}/g, "veth")
    .replaceAll(/10\.22\.0\.\d+/g, "10.22.0.x")
    .replaceAll(/"mac":"[^"]+"/g, '"mac"')
}

const mac = { what: "a MAC", runtimeConfig: { Mac: "0a:00:00:00:00:07" }, seen: '"mac":"0a:00:00:00:00:07"' }

/** Capabilities with capitalized keys, as containerd writes them, and their values in the result. */
const capitalised = [
  ...casesOf([...pluginsAs("interface"), "tuning"], [mac]),
  {
    plugin: "host-local",
    what: "a range",
    runtimeConfig: { IpRanges: [[{ Subnet: "10.25.0.0/24", RangeStart: "10.25.0.50", Gateway: "10.25.0.9" }]] },
    seen: '{"address":"10.25.0.50/24","gateway":"10.25.0.9"}',
  },
  { plugin: "host-local", what: "an address", runtimeConfig: { Ips: ["10.22.0.77"] }, seen: '"10.22.0.77/24"' },
  { plugin: "static", what: "an address", runtimeConfig: { Ips: ["10.45.0.7/24"] }, seen: '"10.45.0.7/24"' },
]

testPlugins(
  capitalised,
  "#48 $plugin: $what under a capitalised key is taken",
  async ({ plugin, runtimeConfig, seen }) => {
    await using stage = await Stage.create(plugin)
    const { attachment } = await stage.attach()
    expect(JSON.stringify(await attachment.add({ runtimeConfig }))).toContain(seen)
  },
)

test("#48 portmap: a port mapping with capitalised keys is made", async () => {
  await using stage = await Stage.create("portmap")
  const { attachment } = await stage.attach()
  const mapping = { HostPort: 8099, ContainerPort: 81, Protocol: "udp", HostIP: "192.0.2.1" }
  await attachment.add({ runtimeConfig: { PortMappings: [mapping] } })
  const rules = (await stage.host.exec("nft", ["list", "ruleset"])).stdout
  expect(rules).toContain("192.0.2.1 . udp . 8099")
  expect(rules).toContain("10.22.0.2 . 81")
})

testPlugins(
  [...pluginsAs("interface", "ipam"), "tuning"],
  "#250 %s: a value in CNI_ARGS that cannot be read is code 4 that names both, and nothing is changed",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    await stage.settle()
    const { attachment } = await stage.attach()
    const before = await takeSnapshot(stage.host)
    const { code, msg } = await fail(attachment.run("ADD", {}, { args: "IgnoreUnknown=1;MAC=zz;IP=zz" }))
    expect({ code, msg }).toEqual({ code: 4, msg: expect.stringMatching(/^CNI_ARGS: .*zz/) })
    expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
    await attachment.run("DEL", {}, { args: "IgnoreUnknown=1;MAC=zz;IP=zz" })
  },
)
