import { describe, expect, test } from "bun:test"
import {
  Attachment,
  askEcho,
  bridgeNetwork,
  type ContainerNamespace,
  chooseIptables,
  EchoPeer,
  expectUnchanged,
  type HostNamespace,
  isAllocationTrace,
  linkNames,
  type PluginResult,
  pingOnce,
  succeed,
  takeSnapshot,
  waitFor,
} from "../lab/mod.ts"
import { createHost, dualStack, hostAddresses, seenBy, settle, twoInterfaces } from "./host.ts"

/** Debian's reference plugins. */
const goBridge = { bin: "/usr/lib/cni/bridge", path: "/usr/lib/cni" }

describe("a container of the Go suite", () => {
  const network = bridgeNetwork({ ...dualStack, cniVersion: "1.0.0" })
  const kinds = [
    { kind: "nf_tables", without: "none" },
    { kind: "legacy", without: "legacy" },
  ] as const

  for (const { kind, without } of kinds) {
    const title = kind === "legacy" ? "iptables-legacy" : "iptables, which has been uninstalled since"
    const config = network

    test(`leaves nothing after DEL, with its rules made by ${title}`, async () => {
      const { host } = await createHost(kind)
      await using _ = host
      const before = await settle(host, config, goBridge)
      const attachment = new Attachment(host, await host.addContainer(), config)
      await succeed(attachment.run("ADD", {}, goBridge))
      await chooseIptables(host, without)
      await attachment.del()
      await chooseIptables(host, kind)
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    })

    test(`leaves nothing after GC, with its rules made by ${title}`, async () => {
      const { host } = await createHost(kind)
      await using _ = host
      const before = await settle(host, config, goBridge)
      const pod = await host.addContainer()
      const attachment = new Attachment(host, pod, config)
      await succeed(attachment.run("ADD", {}, goBridge))
      const links = await linkNames(host)
      await host.removeContainer(pod)
      // The pair has no owner's name: it goes with the namespace, which the kernel does in its own time.
      await waitFor(async () => (await linkNames(host)).length < links.length, "the kernel to remove the pair")
      await chooseIptables(host, without)
      const keys = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] }
      await succeed(attachment.run("GC", keys, { containerId: "", netns: "", ifName: "" }))
      await chooseIptables(host, kind)
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    })
  }

  test("with two interfaces in a network keeps the other one's masquerade", async () => {
    const { host, internet } = await createHost("nf_tables")
    await using _ = host
    const config = network
    const before = await settle(host, config, goBridge)
    const pod = await host.addContainer()
    const [eth0, net1] = twoInterfaces(host, pod, config)
    await succeed(net1.run("ADD", { isDefaultGateway: false, isGateway: true }, goBridge))
    await succeed(eth0.run("ADD", {}, goBridge))
    await chooseIptables(host, "none")
    await net1.del()
    await waitFor(() => pingOnce(pod, "fd00:22::1"), "the gateway answers: upstream gives it an address with detection")
    expect(await seenBy(internet, pod)).toEqual(hostAddresses)
    await eth0.del()
    await chooseIptables(host, "nf_tables")
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  })

  test("passes our CHECK, with each backend of today", async () => {
    const { host } = await createHost("nf_tables")
    await using _ = host
    const attachment = new Attachment(host, await host.addContainer(), network)
    const { json } = await succeed(attachment.run("ADD", {}, goBridge))
    await chooseIptables(host, "none")
    expect(await attachment.check(json as PluginResult)).toMatchObject({ exitCode: 0, stdout: "" })
    expect(await attachment.check(json as PluginResult, { ipMasqBackend: "iptables" })).toMatchObject({ exitCode: 0 })
  })
})

test("the Go suite's DEL leaves nothing of a container that our iptables backend has made", async () => {
  const { host } = await createHost("nf_tables")
  await using _ = host
  const config = bridgeNetwork({ ...dualStack, ipMasqBackend: "iptables", cniVersion: "1.0.0" })
  const before = await settle(host, config)
  const attachment = new Attachment(host, await host.addContainer(), config)
  const result = await attachment.add()
  await succeed(attachment.run("DEL", { prevResult: result }, goBridge))
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

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

  test("go with DEL, by network, container and interface", async () => {
    const { host } = await createHost("none")
    await using _ = host
    await host.exec("nft", ["-f", "-"], { input: goNftables })
    const attachment = new Attachment(host, await host.addContainer(), config, { containerId: "ctr-1", netns: "" })
    await attachment.del()
    expect(await remaining(host)).toEqual(["d23676b4f2d9fe04-0000000000000000", "0000000000000000-0000000000000000"])
  })

  test("go with GC, unless they are valid or another network's", async () => {
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

/** The table as early versions of this project have made it: one set of address ranges for all prefix lengths. */
const earlyTable = (...holders: { address: string; network: string; comment: string }[]) => `
table ip cni_masquerade {
  comment "CNI: elements are commented network/containerID/ifname"
  set containers {
    type ipv4_addr
    elements = { ${holders.map(({ address, comment }) => `${address} comment "${comment}"`).join(", ")} }
  }
  set networks {
    type ipv4_addr . ipv4_addr
    flags interval
    elements = { ${holders.map(({ address, network, comment }) => `${address} . ${network} comment "${comment}"`).join(", ")} }
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr @containers ip daddr != 224.0.0.0/4 ip saddr . ip daddr != @networks masquerade comment "from containers to beyond their network"
  }
}`

describe("a table with address ranges", () => {
  const config = bridgeNetwork({ isDefaultGateway: true, ipMasq: true })
  const owner = (pod: { name: string }) => `lab/${pod.name}/eth0`

  /** A host with a container whose masquerade is in such a table. */
  async function earlyHost() {
    const { host, internet } = await createHost("none")
    const before = await settle(host, config)
    const pod = await host.addContainer()
    const attachment = new Attachment(host, pod, config)
    const { ips } = await attachment.add()
    const address = ips[0]?.address.split("/")[0] ?? ""
    await host.exec("nft", ["delete", "table", "ip", "cni_masquerade"])
    const table = earlyTable({ address, network: "10.22.0.0/16", comment: owner(pod) })
    await host.exec("nft", ["-f", "-"], { input: table })
    return { host, internet, before, pod, attachment, address }
  }

  const seenIpv4 = async (to: ContainerNamespace, address: string, from: ContainerNamespace) => {
    await using peer = await EchoPeer.start(to)
    return (await askEcho(from, { transport: "tcp", address, port: peer.port })).from.address
  }

  test("goes with the DEL of its last container", async () => {
    const { host, before, attachment } = await earlyHost()
    await using _ = host
    for (const _again of [1, 2]) await attachment.del()
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  })

  test("becomes today's with the next ADD, and its containers keep what they had", async () => {
    const { host, internet, before, pod, attachment, address } = await earlyHost()
    await using _ = host
    const next = await host.addContainer()
    const second = new Attachment(host, next, config)
    const result = await second.add()
    expect(await second.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
    for (const each of [pod, next]) expect(await seenIpv4(internet, "203.0.113.9", each)).toBe("203.0.113.1")
    await host.tryExec("sysctl", ["-w", "net.bridge.bridge-nf-call-iptables=1"]) // makes the host look at it
    expect(await seenIpv4(next, result.ips[0]?.address.split("/")[0] ?? "", pod)).toBe(address)
    await attachment.del()
    expect((await host.exec("nft", ["list", "set", "ip", "cni_masquerade", "containers"])).stdout).not.toContain(
      address,
    )
    await second.del()
    await host.tryExec("sysctl", ["-w", "net.bridge.bridge-nf-call-iptables=0"])
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  })
})
