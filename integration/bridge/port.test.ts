import { describe, expect, test } from "bun:test"
import {
  Attachment,
  addressesOf,
  bridgeNetwork,
  type ContainerNamespace,
  HostNamespace,
  linkOf,
  ping,
  pingOnce,
  portOf,
  readSysctl,
  waitFor,
  writeSysctl,
} from "../lab/mod.ts"

async function hostAndPods(count = 1) {
  const host = await HostNamespace.create()
  return { host, pods: await Promise.all(Array.from({ length: count }, () => host.addContainer())) }
}

function withoutIpam(keys: object = {}): Record<string, unknown> {
  const { ipam: _none, ...config } = bridgeNetwork(keys)
  return config
}

describe("portIsolation", () => {
  test("is an attribute of the port, off by default", async () => {
    const { host, pods } = await hostAndPods(2)
    await using _ = host
    const isolation = [true, false].map(async (portIsolation, at) => {
      const result = await new Attachment(host, pods[at] as ContainerNamespace, bridgeNetwork({ portIsolation })).add()
      return (await linkOf(host, portOf(result))).linkinfo?.info_slave_data?.isolated
    })
    expect(await Promise.all(isolation)).toEqual([true, false])
  })

  test("keeps two isolated containers apart, and neither from the gateway nor from others", async () => {
    const { host, pods } = await hostAndPods(3)
    await using _ = host
    const [a, b, open] = pods as [ContainerNamespace, ContainerNamespace, ContainerNamespace]
    const config = bridgeNetwork({ isGateway: true })
    await new Attachment(host, a, { ...config, portIsolation: true }).add()
    await new Attachment(host, b, { ...config, portIsolation: true }).add()
    await new Attachment(host, open, config).add()
    expect(await pingOnce(a, "10.22.0.3")).toBe(false)
    for (const address of ["10.22.0.1", "10.22.0.4"]) expect(`${address} ${await ping(a, address)}`).toEndWith("true")
    expect(await ping(open, "10.22.0.3")).toBe(true)
  })
})

describe("hairpinMode", () => {
  /** Returns how many of its own broadcasts come back to a container that resolves an unused address. */
  async function ownBroadcasts(pod: ContainerNamespace): Promise<number> {
    const { address } = await linkOf(pod, "eth0")
    const chain = "{ type filter hook ingress device eth0 priority 0; }"
    const rule = `add rule netdev test seen ether saddr ${address} ether type arp counter`
    await pod.exec("nft", [`add table netdev test; add chain netdev test seen ${chain}; ${rule}`])
    expect(await pingOnce(pod, "10.22.0.77")).toBe(false)
    const { stdout } = await pod.exec("nft", ["list", "chain", "netdev", "test", "seen"])
    return Number(/counter packets (\d+)/.exec(stdout)?.[1])
  }

  test.each([
    [true, 1],
    [false, 0],
  ])("%p: frames come back by the port that they came in by, or do not", async (hairpinMode, least) => {
    const { host, pods } = await hostAndPods()
    await using _ = host
    const [pod] = pods as [ContainerNamespace]
    await new Attachment(host, pod, bridgeNetwork({ hairpinMode })).add()
    const count = await ownBroadcasts(pod)
    expect(hairpinMode ? count >= least : count === least).toBe(true)
  })

  test("goes together with portIsolation", async () => {
    const { host, pods } = await hostAndPods()
    await using _ = host
    const config = bridgeNetwork({ hairpinMode: true, portIsolation: true })
    const result = await new Attachment(host, pods[0] as ContainerNamespace, config).add()
    expect((await linkOf(host, portOf(result))).linkinfo?.info_slave_data).toMatchObject({
      hairpin: true,
      isolated: true,
    })
  })
})

describe("disableContainerInterface", () => {
  const config = withoutIpam({ disableContainerInterface: true })

  test("leaves the container's interface down and without addresses; CHECK and DEL accept that", async () => {
    const { host, pods } = await hostAndPods()
    await using _ = host
    const [pod] = pods as [ContainerNamespace]
    const attachment = new Attachment(host, pod, config)
    const output = await attachment.run("ADD")
    expect(output.exitCode).toBe(0)
    const result = output.json as Awaited<ReturnType<typeof attachment.add>>
    expect(result.interfaces).toHaveLength(3)
    const { stdout } = await pod.exec("ip", ["address", "show", "dev", "eth0"])
    expect(stdout).toContain("state DOWN")
    expect(stdout).not.toContain("inet")
    expect((await linkOf(host, portOf(result))).flags).toContain("UP")
    expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
    await attachment.del()
    expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
  })

  test("is not waited for: there is no carrier to come, and to wait in vain would be an error", async () => {
    const { host, pods } = await hostAndPods()
    await using _ = host
    for (const ifName of ["eth0", "eth1"]) {
      const attachment = new Attachment(host, pods[0] as ContainerNamespace, config, { ifName })
      expect(await attachment.run("ADD")).toMatchObject({ exitCode: 0 })
    }
  })
})

describe("a second network of a container", () => {
  const first = { name: "lab", bridge: "br-lab" }
  const second = { name: "second", bridge: "br-second" }
  const ipam = (v4: string, v6: string) => ({
    type: "host-local",
    ranges: [[{ subnet: v4 }], [{ subnet: v6 }]],
    routes: [{ dst: "192.0.2.0/24" }],
  })

  test("may have a default route too; the first one's stays the first", async () => {
    const { host, pods } = await hostAndPods()
    await using _ = host
    const [pod] = pods as [ContainerNamespace]
    const keys = { isDefaultGateway: true }
    const a = bridgeNetwork({ ...keys, ...first, ipam: ipam("10.22.0.0/16", "fd00:22::/64") })
    const b = bridgeNetwork({ ...keys, ...second, ipam: ipam("10.23.0.0/16", "fd00:23::/64") })
    const attachments = [new Attachment(host, pod, a), new Attachment(host, pod, b, { ifName: "net1" })]
    const results = [await attachments[0]?.add(), await attachments[1]?.add()]
    const defaults = await pod.json<{ gateway: string; dev: string }[]>("ip", ["-j", "route", "show", "default"])
    expect(defaults.map(({ gateway, dev }) => `${gateway} ${dev}`)).toEqual(["10.22.0.1 eth0", "10.23.0.1 net1"])
    const { stdout } = await pod.exec("ip", ["-6", "route", "show", "default"])
    for (const gateway of ["fd00:22::1", "fd00:23::1"]) expect(stdout).toContain(gateway)
    for (const [at, attachment] of attachments.entries()) {
      expect(await attachment.check(results[at] ?? {})).toMatchObject({ exitCode: 0 })
    }
    for (const gateway of ["10.22.0.1", "10.23.0.1", "fd00:22::1", "fd00:23::1"]) {
      expect(`${gateway} ${await ping(pod, gateway)}`).toBe(`${gateway} true`)
    }
    await attachments[1]?.del()
    expect(await pod.json<object[]>("ip", ["-j", "route", "show", "default"])).toHaveLength(1)
  })
})

describe("IPv6 disabled by sysctl", () => {
  const dualStack = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }], [{ subnet: "fd00:22::/64" }]] }

  async function withoutIpv6() {
    const { host, pods } = await hostAndPods()
    const [pod] = pods as [ContainerNamespace]
    for (const where of [host, pod]) {
      for (const scope of ["all", "default"]) await writeSysctl(where, `net/ipv6/conf/${scope}/disable_ipv6`, "1")
    }
    return { host, pod }
  }

  test("is not an obstacle for IPv4", async () => {
    const { host, pod } = await withoutIpv6()
    await using _ = host
    const attachment = new Attachment(host, pod, bridgeNetwork({ isDefaultGateway: true, ipMasq: true }))
    expect(await attachment.check(await attachment.add())).toMatchObject({ exitCode: 0 })
    expect(await ping(pod, "10.22.0.1")).toBe(true)
    expect(await readSysctl(host, "net/ipv6/conf/br-lab/disable_ipv6")).toBe("1")
    await attachment.del()
  })

  test("is enabled where there are IPv6 addresses, and only there", async () => {
    const { host, pod } = await withoutIpv6()
    await using _ = host
    await host.exec("ip", ["link", "add", "other", "type", "bridge"])
    const attachment = new Attachment(host, pod, bridgeNetwork({ isDefaultGateway: true, ipam: dualStack }))
    expect(await attachment.check(await attachment.add())).toMatchObject({ exitCode: 0 })
    expect(await addressesOf(host, "br-lab")).toEqual(["10.22.0.1/16", "fd00:22::1/64"])
    expect(await waitFor(() => pingOnce(pod, "fd00:22::1"), "the IPv6 gateway to answer")).toBe(true)
    expect(await readSysctl(host, "net/ipv6/conf/other/disable_ipv6")).toBe("1")
  })
})

describe("DNS", () => {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]], resolvConf: "/run/cni/resolv.conf" }

  test.each([
    ["is the IPAM plugin's without any of its own", undefined, { nameservers: ["192.0.2.53"] }],
    ["is the configuration's when it has any", { domain: "a.example" }, { domain: "a.example" }],
    ["is empty with an empty list, which takes the IPAM plugin's away", { nameservers: [] }, undefined],
  ])("%s", async (_, dns, answered) => {
    const { host, pods } = await hostAndPods()
    await using _host = host
    await host.exec("tee", ["/run/cni/resolv.conf"], { input: "nameserver 192.0.2.53\n" })
    const keys = dns === undefined ? { ipam } : { ipam, dns }
    const result = await new Attachment(host, pods[0] as ContainerNamespace, bridgeNetwork(keys)).add()
    expect(result.dns).toEqual(answered)
  })
})

test("first ADDs that fail do not make others fail at the same time", async () => {
  const config = bridgeNetwork({ isDefaultGateway: true })
  const unreachable = { dst: "198.51.100.0/24", gw: "192.0.2.1" }
  const bad = { ...config, ipam: { ...config.ipam, routes: [unreachable] } } // fails after it has created the bridge
  for (let round = 0; round < 3; round++) {
    const { host, pods } = await hostAndPods(6)
    await using _ = host
    const isBad = (at: number) => at % 2 === 0
    const calls = pods.map((pod, at) => new Attachment(host, pod, isBad(at) ? bad : config).run("ADD"))
    for (const [at, { exitCode, stdout }] of (await Promise.all(calls)).entries()) {
      expect(`${exitCode} ${stdout}`).toStartWith(isBad(at) ? "1 " : "0 ")
    }
    expect(await host.json<object[]>("ip", ["-j", "link", "show", "master", "br-lab"])).toHaveLength(3)
  }
})

test("a bridge that goes while ADD asks for its address, of which /sys then says EINVAL, is not an error", async () => {
  const { host, pods } = await hostAndPods()
  await using _ = host
  await host.exec("ip", ["link", "add", "br-lab", "type", "bridge"])
  // Reading the speed of such a link always fails with EINVAL, as does every file of a link while the link is being
  // deleted.
  await host.exec("mount", ["--bind", "/sys/class/net/lo/speed", "/sys/class/net/br-lab/address"])
  const { stdout } = await host.exec("sh", ["-c", "cat /sys/class/net/br-lab/address 2>&1 || true"])
  expect(stdout).toContain("Invalid argument")
  await new Attachment(host, pods[0] as ContainerNamespace, bridgeNetwork({ isDefaultGateway: true })).add()
})
