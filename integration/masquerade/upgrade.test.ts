import { describe, expect, test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  chooseIptables,
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

/** The call options for Debian's Go plugin bridge. */
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
      // The veth pair has no owner in its alias, so only the kernel deletes it, some time after its namespace.
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

/** The rules of the Go plugins since 1.6, backend nftables, for `eth0` and `net1` of `ctr-1` in `mynet`. */
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
