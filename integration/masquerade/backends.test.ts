import { describe, expect, test } from "bun:test"
import {
  Attachment,
  askEcho,
  bridgeNetwork,
  chooseIptables,
  EchoPeer,
  expectUnchanged,
  fail,
  HostNamespace,
  isAllocationTrace,
  succeed,
  TemporaryDirectory,
  takeSnapshot,
  testWith,
} from "../lab/mod.ts"
import {
  createHost,
  dualStack,
  expectNestedApart,
  hostAddresses,
  nested,
  nestedIpam,
  seenBy,
  settle,
  twoInterfaces,
} from "./host.ts"

/** The same cases for each way of masquerading. */
const backends = [
  { name: "nftables", keys: {}, iptables: "none" },
  { name: "iptables", keys: { ipMasqBackend: "iptables" }, iptables: "nf_tables" },
  {
    name: "iptables-legacy",
    keys: { ipMasqBackend: "iptables" },
    iptables: "legacy",
  },
] as const

type Backend = (typeof backends)[number]

function each(name: string, run: (backend: Backend) => Promise<void>): void {
  for (const backend of backends) test(`${backend.name}: ${name}`, () => run(backend))
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

each("two networks with the same first address are told apart by their prefix lengths", async ({ keys, iptables }) => {
  const { host } = await createHost(iptables)
  await using _ = host
  const attach = async (name: keyof typeof nested) => {
    const pod = await host.addContainer()
    const network = { name, bridge: `br-${name}`, ipam: nestedIpam(name) }
    await new Attachment(host, pod, bridgeNetwork({ ...dualStack, ...keys, ...network })).add()
    return pod
  }
  const [large, small] = [await attach("large"), await attach("small")]
  // Every address of its own network is a neighbor to the container, unless a route says otherwise.
  for (const at of [0, 1]) {
    const way = [nested.small.subnets[at] ?? "", "via", nested.large.gateways[at] ?? ""]
    await large.exec("ip", ["route", "add", ...way])
  }
  await expectNestedApart(large, small)
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

each("DEL of one interface leaves the container's other one in the same network", async (backend) => {
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

each("eight containers at once come and go, and leave nothing", async ({ keys, iptables }) => {
  const { host } = await createHost(iptables)
  await using _ = host
  const config = bridgeNetwork({ ...dualStack, ...keys })
  const before = await settle(host, config)
  const pods = await Promise.all(Array.from({ length: 8 }, () => host.addContainer()))
  const attachments = pods.map((pod) => new Attachment(host, pod, config))
  const results = await Promise.all(attachments.map((attachment) => attachment.add()))
  for (const [at, attachment] of attachments.entries()) {
    expect(await attachment.check(results[at] ?? {})).toMatchObject({ exitCode: 0 })
  }
  await Promise.all(attachments.map((attachment) => attachment.del()))
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

test("iptables: the rules are upstream's, and a mark for each address", async () => {
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

test("a backend of another name is a configuration error, and nothing is touched", async () => {
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

  test("without the program, and says which package has it", async () => {
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

  test("when only the second family is refused", async () => {
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

test("DEL and GC run no program while iptables has nothing", async () => {
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
