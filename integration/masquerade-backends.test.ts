import { describe, expect, test } from "bun:test"
import { Attachment, bridgeNetwork, fail, isAllocationTrace, type PluginResult, succeed } from "./attachment.ts"
import type { ContainerNamespace } from "./container-namespace.ts"
import { chooseIptables, type IptablesKind } from "./iptables-kind.ts"
import {
  askEcho,
  connect,
  EchoPeer,
  expectUnchanged,
  HostNamespace,
  ping,
  type Snapshot,
  TemporaryDirectory,
  takeSnapshot,
  waitFor,
} from "./mod.ts"
import { testWith } from "./test-with.ts"

const dualStack = {
  isDefaultGateway: true,
  ipMasq: true,
  ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }], [{ subnet: "fd00:22::/64" }]] },
}

/** The same cases for each way of masquerading. */
const backends = [
  { name: "nftables", needs: ["nf_tables"], keys: {}, iptables: "none" },
  { name: "iptables", needs: ["nf_tables"], keys: { ipMasqBackend: "iptables" }, iptables: "nf_tables" },
  {
    name: "iptables-legacy",
    needs: ["iptables", "ip6tables"],
    keys: { ipMasqBackend: "iptables" },
    iptables: "legacy",
  },
] as const

type Backend = (typeof backends)[number]

/** A host with an uplink to an internet that knows a way back to the containers. */
async function createHost(kind: IptablesKind) {
  const host = await HostNamespace.create()
  await chooseIptables(host, kind)
  const internet = await host.addContainer("internet")
  await connect(
    { namespace: host, link: "up0", addresses: ["203.0.113.1/24", "2001:db8:113::1/64"] },
    { namespace: internet, link: "eth0", addresses: ["203.0.113.9/24", "2001:db8:113::9/64"] },
  )
  await internet.exec("ip", ["route", "add", "10.0.0.0/8", "via", "203.0.113.1"])
  await internet.exec("ip", ["-6", "route", "add", "fd00::/8", "via", "2001:db8:113::1"])
  return { host, internet }
}

/** Brings the host to where every attachment leaves it: bridge, forwarding, and the empty tables that iptables keeps. */
async function settle(host: HostNamespace, config: Record<string, unknown>): Promise<Snapshot> {
  const attachment = new Attachment(host, await host.addContainer(), config)
  await attachment.add()
  await attachment.del()
  return takeSnapshot(host)
}

/** A container that is attached to one network twice. */
function twoInterfaces(host: HostNamespace, pod: ContainerNamespace, config: Record<string, unknown>) {
  const attach = (ifName: string) => new Attachment(host, pod, config, { ifName })
  return [attach("eth0"), attach("net1")] as const
}

/** Who the internet sees behind a connection over TCP and a datagram, for both families: one address for each. */
async function seenBy(internet: ContainerNamespace, pod: ContainerNamespace): Promise<string[]> {
  await using peer = await EchoPeer.start(internet)
  const seen = new Set<string>()
  for (const address of ["203.0.113.9", "2001:db8:113::9"]) {
    for (const transport of ["tcp", "udp"] as const) {
      const { from } = await askEcho(pod, { transport, address, port: peer.port })
      seen.add(from.address.replace("::ffff:", ""))
    }
  }
  return [...seen]
}

const hostAddresses = ["203.0.113.1", "2001:db8:113::1"]

function each(name: string, run: (backend: Backend) => Promise<void>): void {
  for (const backend of backends) testWith([...backend.needs], `${backend.name}: ${name}`, () => run(backend))
}

each("the internet sees the host, other containers see the container", async ({ keys, iptables }) => {
  const { host, internet } = await createHost(iptables)
  await using _ = host
  const config = bridgeNetwork({ ...dualStack, ...keys })
  const [a, b] = [await host.addContainer(), await host.addContainer()]
  await new Attachment(host, a, config).add()
  await new Attachment(host, b, config).add()
  expect(await seenBy(internet, a)).toEqual(hostAddresses)
  await using peer = await EchoPeer.start(b)
  const { from } = await askEcho(a, { transport: "tcp", address: "10.22.0.3", port: peer.port })
  expect(from.address.replace("::ffff:", "")).toBe("10.22.0.2")
})

each("DEL needs neither namespace nor configuration, and leaves nothing; again is well", async ({ keys, iptables }) => {
  const { host } = await createHost(iptables)
  await using _ = host
  const config = bridgeNetwork({ ...dualStack, ...keys })
  const before = await settle(host, config)
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  await host.removeContainer(pod)
  for (const _again of [1, 2]) await attachment.del({ ipMasqBackend: "broken", ipMasq: false }, { netns: "" })
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

each("CHECK passes, and says what is missing", async ({ name, keys, iptables }) => {
  const { host } = await createHost(iptables)
  await using _ = host
  const attachment = new Attachment(host, await host.addContainer(), bridgeNetwork({ ...dualStack, ...keys }))
  const result = await attachment.add()
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  const damage = name === "nftables" ? ["nft", "flush", "ruleset"] : ["iptables", "-t", "nat", "-F", "POSTROUTING"]
  await host.exec("env", damage)
  const { msg } = await fail(attachment.check(result))
  expect(msg).toStartWith("Cannot find the masquerade of lab/")
  expect(msg).toMatch(/expected .*; found/)
})

each("DEL of one interface leaves the container's other one in the same network (KW-M1)", async (backend) => {
  const { host, internet } = await createHost(backend.iptables)
  await using _ = host
  const config = bridgeNetwork({ ...dualStack, ...backend.keys })
  const before = await settle(host, config)
  const pod = await host.addContainer()
  const [eth0, net1] = twoInterfaces(host, pod, config)
  const result = await eth0.add()
  const apart = { isGateway: true, isDefaultGateway: false }
  const second = await net1.add(apart)
  await eth0.del()
  for (const [family, to] of [
    ["-4", "10.22.0.1"],
    ["-6", "fd00:22::1"],
  ] as const) {
    await pod.exec("ip", [family, "route", "replace", "default", "via", to])
  }
  expect(await seenBy(internet, pod)).toEqual(hostAddresses)
  expect(await net1.check(second, apart)).toMatchObject({ exitCode: 0 })
  await eth0.del({ prevResult: result })
  expect(await net1.check(second, apart)).toMatchObject({ exitCode: 0 })
  await net1.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

each("GC removes what is stale in its network, and nothing else", async ({ keys, iptables }) => {
  const { host, internet } = await createHost(iptables)
  await using _ = host
  const config = bridgeNetwork({ ...dualStack, ...keys })
  const other = { ...config, name: "other", ipam: { type: "host-local", ranges: [[{ subnet: "10.22.128.0/17" }]] } }
  await settle(host, config)
  const [kept, foreign] = [await host.addContainer(), await host.addContainer()]
  await new Attachment(host, kept, config).add()
  await new Attachment(host, foreign, { ...other, isDefaultGateway: false }).add()
  const before = await takeSnapshot(host)
  const stale = await host.addContainer()
  for (const ifName of ["eth0", "net1"]) {
    await new Attachment(host, stale, { ...config, isDefaultGateway: false, isGateway: true }, { ifName }).add()
  }
  await new Attachment(host, kept, { ...config, isDefaultGateway: false, isGateway: true }, { ifName: "net1" }).add()
  await host.removeContainer(stale)
  const attachments = [{ containerID: kept.name, ifname: "eth0" }]
  const gc = new Attachment(host, kept, { ...config, "cni.dev/valid-attachments": attachments })
  await succeed(gc.run("GC", {}, { containerId: "", netns: "", ifName: "" }))
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  expect(await seenBy(internet, kept)).toEqual(hostAddresses)
})

testWith(["nf_tables"], "iptables: the rules are upstream's, and a mark for each address", async () => {
  const { host } = await createHost("nf_tables")
  await using _ = host
  const pod = await host.addContainer()
  await new Attachment(host, pod, bridgeNetwork({ ...dualStack, ipMasqBackend: "iptables", name: "mynet" }), {
    containerId: "ctr-1",
  }).add()
  const rules = async (program: string) => {
    const { stdout } = await host.exec(program, ["-t", "nat"])
    return stdout.split("\n").filter((line) => line.startsWith("-A"))
  }
  const chain = "CNI-76edbb2e17c69aeb6041d986"
  const comment = String.raw`-m comment --comment "name: \"mynet\" id: \"ctr-1\""`
  expect(await rules("iptables-save")).toEqual([
    `-A POSTROUTING -s 10.22.0.2/32 ${comment} -j ${chain}`,
    `-A ${chain} -d 10.22.0.0/16 ${comment} -j ACCEPT`,
    `-A ${chain} ! -d 224.0.0.0/4 ${comment} -j MASQUERADE`,
    `-A ${chain} -s 10.22.0.2/32 -d 10.22.0.0/16 -m comment --comment "mynet/ctr-1/eth0"`,
  ])
  expect(await rules("ip6tables-save")).toEqual([
    `-A POSTROUTING -s fd00:22::2/128 ${comment} -j ${chain}`,
    `-A ${chain} -d fd00:22::/64 ${comment} -j ACCEPT`,
    `-A ${chain} ! -d ff00::/8 ${comment} -j MASQUERADE`,
    `-A ${chain} -s fd00:22::2/128 -d fd00:22::/64 -m comment --comment "mynet/ctr-1/eth0"`,
  ])
})

testWith(["nf_tables"], "a backend of another name is a configuration error, and nothing is touched", async () => {
  await using host = await HostNamespace.create()
  const before = await takeSnapshot(host)
  const attachment = new Attachment(host, await host.addContainer(), bridgeNetwork({ ...dualStack, ipMasqBackend: "" }))
  const { code, msg } = await fail(attachment.run("ADD"))
  expect(code).toBe(7)
  expect(msg).toBe('Cannot use "ipMasqBackend": expected "nftables" or "iptables", found ""')
  expectUnchanged(before, await takeSnapshot(host))
})

describe("an ADD that fails in the iptables backend leaves nothing", () => {
  const config = bridgeNetwork({ ...dualStack, ipMasqBackend: "iptables" })

  testWith(["nf_tables"], "without the program, and says which package has it", async () => {
    const { host } = await createHost("nf_tables")
    await using _ = host
    const before = await settle(host, config)
    await chooseIptables(host, "none")
    const { msg, details } = await fail(new Attachment(host, await host.addContainer(), config).run("ADD"))
    expect(msg).toBe("Cannot masquerade 10.22.0.3/16 and fd00:22::3/64 by iptables")
    expect(details).toContain('"iptables-save" and "iptables-restore" in /usr/sbin')
    expect(details).toContain("Debian's package")
    await chooseIptables(host, "nf_tables")
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  })

  testWith(["nf_tables"], "when only the second family is refused", async () => {
    const { host } = await createHost("nf_tables")
    await using _ = host
    const before = await settle(host, config)
    await using links = await TemporaryDirectory.create()
    await host.exec("cp", ["-a", "/etc/alternatives/.", links.path])
    await host.exec("ln", ["-sf", "/bin/false", links.join("ip6tables-restore")])
    await host.exec("mount", ["--bind", links.path, "/etc/alternatives"])
    const { msg, details } = await fail(new Attachment(host, await host.addContainer(), config).run("ADD"))
    expect(msg).toContain("by iptables")
    expect(details).toContain("Cannot change table nat by /usr/sbin/ip6tables-restore")
    await host.exec("umount", ["/etc/alternatives"])
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  })
})

testWith(["nf_tables"], "DEL and GC run no program while iptables has nothing", async () => {
  const { host } = await createHost("nf_tables")
  await using _ = host
  await using spy = await TemporaryDirectory.create()
  await Bun.write(spy.join("spy"), `#!/bin/sh\necho "$0 $*" >> ${spy.join("calls")}\n`)
  await host.exec("chmod", ["+x", spy.join("spy")])
  for (const multi of ["nft", "legacy"]) {
    await host.exec("mount", ["--bind", spy.join("spy"), `/usr/sbin/xtables-${multi}-multi`])
  }
  const attachment = new Attachment(host, await host.addContainer(), bridgeNetwork(dualStack))
  await attachment.add()
  await attachment.del()
  await succeed(attachment.run("GC", { "cni.dev/valid-attachments": [] }, { containerId: "", netns: "", ifName: "" }))
  expect(await Bun.file(spy.join("calls")).exists()).toBe(false)
  await host.exec("iptables", ["-S"])
  expect(await Bun.file(spy.join("calls")).text()).toContain("iptables -S") // the spy would have noticed
})

/** Debian's reference plugins. */
const goBridge = { bin: "/usr/lib/cni/bridge", path: "/usr/lib/cni" }

describe("a container of the Go suite", () => {
  const network = bridgeNetwork({ ...dualStack, cniVersion: "1.0.0" })
  const kinds = [
    { kind: "nf_tables", needs: ["nf_tables"], without: "none" },
    { kind: "legacy", needs: ["iptables", "ip6tables"], without: "legacy" },
  ] as const

  for (const { kind, needs, without } of kinds) {
    const title = kind === "legacy" ? "iptables-legacy" : "iptables, which has been uninstalled since"
    const config = network

    testWith([...needs], `leaves nothing after DEL, with its rules made by ${title}`, async () => {
      const { host } = await createHost(kind)
      await using _ = host
      const before = await settleByGo(host, config)
      const attachment = new Attachment(host, await host.addContainer(), config)
      await succeed(attachment.run("ADD", {}, goBridge))
      await chooseIptables(host, without)
      await attachment.del()
      await chooseIptables(host, kind)
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    })

    testWith([...needs], `leaves nothing after GC, with its rules made by ${title}`, async () => {
      const { host } = await createHost(kind)
      await using _ = host
      const before = await settleByGo(host, config)
      const pod = await host.addContainer()
      const attachment = new Attachment(host, pod, config)
      await succeed(attachment.run("ADD", {}, goBridge))
      await host.removeContainer(pod)
      await chooseIptables(host, without)
      const keys = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] }
      await succeed(attachment.run("GC", keys, { containerId: "", netns: "", ifName: "" }))
      await chooseIptables(host, kind)
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    })
  }

  testWith(["nf_tables"], "with two interfaces in a network keeps the other one's masquerade (KW-M1)", async () => {
    const { host, internet } = await createHost("nf_tables")
    await using _ = host
    const config = network
    const before = await settleByGo(host, config)
    const pod = await host.addContainer()
    const [eth0, net1] = twoInterfaces(host, pod, config)
    await succeed(net1.run("ADD", { isDefaultGateway: false, isGateway: true }, goBridge))
    await succeed(eth0.run("ADD", {}, goBridge))
    await chooseIptables(host, "none")
    await net1.del()
    await waitFor(() => ping(pod, "fd00:22::1"), "the gateway answers: upstream gives it an address with detection")
    expect(await seenBy(internet, pod)).toEqual(hostAddresses)
    await eth0.del()
    await chooseIptables(host, "nf_tables")
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  })

  testWith(["nf_tables"], "passes our CHECK, whatever the backend of today", async () => {
    const { host } = await createHost("nf_tables")
    await using _ = host
    const attachment = new Attachment(host, await host.addContainer(), network)
    const { json } = await succeed(attachment.run("ADD", {}, goBridge))
    await chooseIptables(host, "none")
    expect(await attachment.check(json as PluginResult)).toMatchObject({ exitCode: 0, stdout: "" })
    expect(await attachment.check(json as PluginResult, { ipMasqBackend: "iptables" })).toMatchObject({ exitCode: 0 })
  })
})

/** Like `settle`, with the Go suite, whose iptables makes its tables here. */
async function settleByGo(host: HostNamespace, config: Record<string, unknown>): Promise<Snapshot> {
  const attachment = new Attachment(host, await host.addContainer(), config, goBridge)
  await attachment.add()
  await attachment.del()
  return takeSnapshot(host)
}

testWith(
  ["nf_tables"],
  "the Go suite's DEL leaves nothing of a container that our iptables backend has made",
  async () => {
    const { host } = await createHost("nf_tables")
    await using _ = host
    const config = bridgeNetwork({ ...dualStack, ipMasqBackend: "iptables", cniVersion: "1.0.0" })
    const before = await settle(host, config)
    const attachment = new Attachment(host, await host.addContainer(), config)
    const result = await attachment.add()
    await succeed(attachment.run("DEL", { prevResult: result }, goBridge))
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  },
)

/** What the Go suite's nftables backend makes from v1.6 on: `mynet`, `eth0` of `ctr-1`, and the same container's `net1`. */
const goNftables = `table inet cni_plugins_masquerade {
  comment "Masquerading for plugins from github.com/containernetworking/plugins"
  chain masq_checks {
    ip saddr 10.22.0.2 ip daddr != 10.22.0.0/16 masquerade comment "d23676b4f2d9fe04-1c8f6ae798001240, net: mynet, if: eth0, id: ctr-1"
    ip6 saddr fd00:22::2 ip6 daddr != fd00:22::/64 masquerade comment "d23676b4f2d9fe04-1c8f6ae798001240, net: mynet, if: eth0, id: ctr-1"
    ip saddr 10.22.0.9 ip daddr != 10.22.0.0/16 masquerade comment "d23676b4f2d9fe04-0000000000000000, net: mynet, if: net1, id: ctr-1"
    ip saddr 10.99.0.9 ip daddr != 10.99.0.0/16 masquerade comment "0000000000000000-0000000000000000, net: other, if: eth0, id: ctr-1"
  }
  chain postrouting {
    type nat hook postrouting priority 100
    ip daddr 224.0.0.0/4 return
    ip6 daddr ff00::/8 return
    goto masq_checks
  }
}`

describe("the rules of the Go suite's nftables backend", () => {
  const config = bridgeNetwork({ ...dualStack, name: "mynet" })
  const remaining = async (host: HostNamespace) => {
    const { stdout } = await host.exec("nft", ["list", "chain", "inet", "cni_plugins_masquerade", "masq_checks"])
    return [...stdout.matchAll(/comment "(\S+),/g)].map(([, prefix]) => prefix)
  }

  testWith(["nf_tables"], "go with DEL, by network, container and interface", async () => {
    const { host } = await createHost("none")
    await using _ = host
    await host.exec("nft", ["-f", "-"], { input: goNftables })
    const attachment = new Attachment(host, await host.addContainer(), config, { containerId: "ctr-1", netns: "" })
    await attachment.del()
    expect(await remaining(host)).toEqual(["d23676b4f2d9fe04-0000000000000000", "0000000000000000-0000000000000000"])
  })

  testWith(["nf_tables"], "go with GC, unless they are valid or another network's", async () => {
    const { host } = await createHost("none")
    await using _ = host
    await host.exec("nft", ["-f", "-"], { input: goNftables })
    const valid = { "cni.dev/valid-attachments": [{ containerID: "ctr-1", ifname: "eth0" }] }
    const gc = new Attachment(host, await host.addContainer(), { ...config, ...valid })
    await succeed(gc.run("GC", {}, { containerId: "", netns: "", ifName: "" }))
    const eth0 = "d23676b4f2d9fe04-1c8f6ae798001240"
    expect(await remaining(host)).toEqual([eth0, eth0, "0000000000000000-0000000000000000"])
  })
})

test("STATUS says what is missing for the backend", async () => {
  const { host } = await createHost("none")
  await using _ = host
  const pod = await host.addContainer()
  const status = (keys: object) =>
    new Attachment(host, pod, bridgeNetwork({ ...dualStack, ...keys })).run(
      "STATUS",
      {},
      { containerId: "", netns: "" },
    )
  const { code, msg, details } = await fail(status({ ipMasqBackend: "iptables" }))
  expect(code).toBe(50)
  expect(`${msg}: ${details}`).toContain('the program "iptables-restore" is missing')
})

testWith(["no_nf_tables", "iptables"], "without nf_tables for IP, iptables-legacy is chosen by itself", async () => {
  await using host = await HostNamespace.create()
  const config = bridgeNetwork({ isDefaultGateway: true, ipMasq: true })
  const before = await settle(host, config)
  const attachment = new Attachment(host, await host.addContainer(), config)
  const result = await attachment.add()
  const { stdout } = await host.exec("iptables-legacy-save", ["-t", "nat"])
  expect(stdout).toContain("-j MASQUERADE")
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  expect((await host.exec("iptables-legacy-save", ["-t", "nat"])).stdout).not.toContain("CNI-")
})
