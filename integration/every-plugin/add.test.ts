import { expect, test } from "bun:test"
import {
  type ContainerNamespace,
  casesOf,
  expectUnchanged,
  fail,
  interfacePlugin,
  linkNames,
  linkOf,
  pluginsAs,
  Stage,
  succeed,
  takeSnapshot,
  testPlugin,
  testPlugins,
} from "../lab/mod.ts"

/** The versions of the specification whose results contain `interfaces`. */
const withInterfaces = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
const names = ["net7", "n23456789abcdef", "vlan.7_é"] // the second name has the maximum of 15 bytes

for (const plugin of pluginsAs("interface")) {
  for (const ifName of names)
    testPlugin(
      plugin,
      `#8 ${plugin}: the container's interface is called "${ifName}", as CNI_IFNAME says`,
      async () => {
        await using stage = await Stage.create(plugin)
        const { pod, attachment } = await stage.attach({ ifName })
        const { interfaces } = await attachment.add()
        expect(await linkNames(pod)).toEqual(["lo", ifName])
        expect(interfaces.filter(({ sandbox }) => sandbox).map(({ name }) => name)).toEqual([ifName])
      },
      { forEachKind: ifName === "vlan.7_é" },
    )

  testPlugin(
    plugin,
    `#9 ${plugin}: ADD fails when there is an interface of that name, and nothing has changed`,
    async () => {
      await using stage = await Stage.create(plugin)
      const { pod, attachment } = await stage.attach()
      await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
      const [before, inside] = [await takeSnapshot(stage.host), await takeSnapshot(pod)]
      expect((await fail(attachment.run("ADD"))).msg).toContain("already exists")
      expectUnchanged(before, await takeSnapshot(stage.host))
      expectUnchanged(inside, await takeSnapshot(pod))
    },
  )

  const own = `#9 ${plugin}: ADD fails for its own interface, too, which stays as it is`
  const addTwice = async () => {
    await using stage = await Stage.create(plugin)
    const { pod, attachment } = await stage.attach()
    const result = await attachment.add()
    const [before, inside] = [await takeSnapshot(stage.host), await takeSnapshot(pod)]
    expect((await fail(attachment.run("ADD"))).msg).toContain("already exists")
    expectUnchanged(before, await takeSnapshot(stage.host))
    expectUnchanged(inside, await takeSnapshot(pod))
    expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  }
  testPlugin(plugin, own, addTwice, { forEachKind: true })
}

const requests = [{}, { mtu: 1400 }, { mtu: 9000 }, { runtimeConfig: { mac: "0a:00:00:00:00:07" } }].map((keys) => ({
  request: JSON.stringify(keys),
  keys,
}))

testPlugins(
  casesOf(pluginsAs("interface", "loopback", "chained"), requests),
  "#11 $plugin with $request: the result has the MACs and MTUs that the kernel has",
  async ({ plugin, keys }) => {
    await using stage = await Stage.create(plugin)
    await (await stage.attach()).attachment.add() // another container on the host
    const { pod, attachment } = await stage.attach({ keys })
    const { interfaces } = await attachment.add()
    for (const { name, mac, mtu, sandbox } of interfaces) {
      const { address, mtu: found } = await linkOf(sandbox ? pod : stage.host, name)
      expect({ name, mac, mtu }).toEqual({ name, mac: address, mtu: found })
    }
  },
)

test("#8 tuning: CNI_IFNAME is tuned and no other interface, and a name that does not exist is an error", async () => {
  await using stage = await Stage.create("tuning")
  const first = await stage.attach({ ifName: "net1" })
  const second = await stage.attach({ pod: first.pod, ifName: "net2" })
  await second.attachment.add()
  const queues = [await linkOf(first.pod, "net1"), await linkOf(first.pod, "net2")].map(({ txqlen }) => txqlen)
  expect(queues).toEqual([1000, 77])
  expect((await fail(second.attachment.run("ADD", {}, { ifName: "net3" }))).details).toContain("net3")
})

test("#8 portmap: ports lead to the addresses of CNI_IFNAME", async () => {
  await using stage = await Stage.create("portmap")
  const { pod } = await stage.attach({ ifName: "net1" })
  const { attachment } = await stage.attach({ pod, ifName: "net2" })
  const { ips } = await attachment.add()
  const rules = (await stage.host.exec("nft", ["list", "ruleset"])).stdout
  expect(ips.map(({ address }) => address)).toEqual(["10.22.0.3/24"])
  expect(rules).toContain("10.22.0.3 . 80")
  expect(rules).not.toContain("10.22.0.2 . 80")
})

test("#8 loopback: it is lo that comes up and is in the result, with any CNI_IFNAME", async () => {
  await using stage = await Stage.create("loopback")
  const { pod, attachment } = await stage.attach({ ifName: "eth0" })
  const { interfaces } = await attachment.add()
  expect(interfaces.map(({ name }) => name)).toEqual(["lo"])
  expect(await linkNames(pod)).toEqual(["lo"])
})

testPlugins(
  casesOf(
    pluginsAs("interface", "loopback"),
    withInterfaces.map((cniVersion) => ({ cniVersion, forEachKind: cniVersion === "1.1.0" })),
  ),
  "#15, #16 $plugin: interfaces of the container have the sandbox CNI_NETNS, those of the host none ($cniVersion)",
  async ({ plugin, cniVersion }) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    const { pod, attachment } = await stage.attach({ cniVersion })
    const { interfaces } = await attachment.add()
    const [inside, outside] = [await linkNames(pod), await linkNames(host)]
    for (const { name, sandbox } of interfaces) {
      if (inside.includes(name)) expect({ name, sandbox }).toEqual({ name, sandbox: pod.path })
      else
        expect({ name, sandbox, isOnHost: outside.includes(name) }).toEqual({
          name,
          sandbox: undefined,
          isOnHost: true,
        })
    }
    const own = interfaces.filter(({ sandbox }) => sandbox !== undefined)
    expect(own).toHaveLength(1)
    expect(interfaces.length > 1).toBe(plugin !== "loopback" && interfacePlugin(plugin).hasHostEnd)
  },
)

testPlugins(
  casesOf(
    pluginsAs("ipam"),
    ["0.1.0", "0.2.0", ...withInterfaces].map((cniVersion) => ({ cniVersion })),
  ),
  "#20 $plugin: the result has no interfaces, and no address points to one ($cniVersion)",
  async ({ plugin, cniVersion }) => {
    await using stage = await Stage.create(plugin)
    const { attachment } = await stage.attach({ cniVersion })
    const { stdout, json } = await succeed(attachment.run("ADD"))
    expect(stdout).toMatch(/"(ip|address)": "10\./)
    expect(stdout).not.toContain("interface")
    expect(Object.keys(json as object)).not.toContain("interfaces")
  },
)

test.each([
  ["bridge", { isDefaultGateway: false, isGateway: true }],
  ["ptp", { ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/24" }]] } }],
])("#21 %s: the gateway of an IPAM result is not a default route", async (plugin, keys) => {
  await using stage = await Stage.create(plugin)
  const { pod, attachment } = await stage.attach({ keys })
  const result = await attachment.add()
  expect(result.ips[0]?.gateway).toBe("10.22.0.1")
  expect(result.routes).toBeUndefined()
  expect(await destinations(pod)).toSatisfy((all: string[]) => all.every((each) => each.startsWith("10.22.0.")))
})

async function destinations(pod: ContainerNamespace): Promise<string[]> {
  return (await pod.json<{ dst: string }[]>("ip", ["-j", "route", "show"])).map(({ dst }) => dst)
}
