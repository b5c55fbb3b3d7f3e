import { expect, test } from "bun:test"
import {
  Attachment,
  askEcho,
  bridgeNetwork,
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
import { createHost, dualStack, expectNestedApart, hostAddresses, nested, nestedIpam, seenBy, settle } from "./host.ts"

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
  // The container sends packets to its own network directly, unless it has another route.
  for (const at of [0, 1]) {
    const way = [nested.small.subnets[at] ?? "", "via", nested.large.gateways[at] ?? ""]
    await large.exec("ip", ["route", "add", ...way])
  }
  await expectNestedApart(large, small)
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

test("an ADD by iptables whose second family is refused leaves nothing", async () => {
  const config = bridgeNetwork({ ...dualStack, ipMasqBackend: "iptables" })
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
  expect(await Bun.file(spy.join("calls")).text()).toContain("iptables -S") // the monitor would have reported it
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
