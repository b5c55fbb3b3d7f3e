import { expect, test } from "bun:test"
import { Attachment, bridgeNetwork, expectUnchanged, isAllocationTrace, succeed, takeSnapshot } from "../lab/mod.ts"
import { createHost, dualStack, hostAddresses, seenBy, settle } from "./host.ts"

const backends = [
  { name: "nftables", keys: {}, iptables: "none" },
  { name: "iptables", keys: { ipMasqBackend: "iptables" }, iptables: "nf_tables" },
  { name: "iptables-legacy", keys: { ipMasqBackend: "iptables" }, iptables: "legacy" },
] as const

/** Creates a host with two networks of one subnet, each with its bridge and a container with the same addresses. */
async function createTwins({ keys, iptables }: (typeof backends)[number]) {
  const { host, internet } = await createHost(iptables)
  // The bridges have no gateway address, because only one of them can have the subnet's route. The tests move it.
  const config = (name: string) => {
    const gateways = { isDefaultGateway: false, isGateway: false }
    const ipam = { ...dualStack.ipam, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] }
    return bridgeNetwork({ ...dualStack, ...gateways, ...keys, name, bridge: `br-${name}`, ipam })
  }
  for (const family of ["ipv4.ip_forward", "ipv6.conf.all.forwarding"]) {
    await host.exec("sysctl", ["-qw", `net.${family}=1`])
  }
  await settle(host, config("a"))
  await settle(host, config("b"))
  const before = await takeSnapshot(host)
  const attach = async (name: string) => {
    const pod = await host.addContainer()
    const attachment = new Attachment(host, pod, config(name))
    const result = await attachment.add()
    return { pod, attachment, result, name }
  }
  const [a, b] = [await attach("a"), await attach("b")]
  /** Adds gateway addresses with routes to one network's bridge, and returns the sources that the internet sees. */
  const seen = async ({ pod, name }: typeof a) => {
    const gateways = ["10.22.0.1/16", "fd00:22::1/64"]
    for (const address of gateways) await host.exec("ip", ["address", "add", address, "dev", `br-${name}`, "nodad"])
    const addresses = await seenBy(internet, pod)
    for (const address of gateways) await host.exec("ip", ["address", "delete", address, "dev", `br-${name}`])
    return addresses
  }
  return { host, before, a, b, seen }
}

for (const backend of backends) {
  test.each([["a", "b"]] as const)(
    `${backend.name}: of two networks with one subnet both are masqueraded, and DEL of %s leaves %s's`,
    async (first, last) => {
      const { host, before, seen, ...twins } = await createTwins(backend)
      await using _ = host
      const [gone, left] = [twins[first], twins[last]]
      expect(left.result.ips[0]?.address).toBe(gone.result.ips[0]?.address ?? "")
      for (const twin of [gone, left]) {
        await succeed(twin.attachment.check(twin.result))
        expect(await seen(twin)).toEqual(hostAddresses)
      }
      for (const _again of [1, 2]) await gone.attachment.del()
      await succeed(left.attachment.check(left.result))
      expect(await seen(left)).toEqual(hostAddresses)
      const backAgain = await gone.attachment.add()
      for (const each of [
        { ...gone, result: backAgain },
        { ...left, result: left.result },
      ]) {
        await succeed(each.attachment.check(each.result))
      }
      await left.attachment.del()
      await gone.attachment.del()
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    },
  )

  test.each([["b", "a"]] as const)(
    `${backend.name}: of two networks with one subnet GC of %s leaves %s's`,
    async (first, last) => {
      const { host, before, seen, ...twins } = await createTwins(backend)
      await using _ = host
      const [gone, left] = [twins[first], twins[last]]
      const nothing = { "cni.dev/valid-attachments": [] }
      await succeed(gone.attachment.run("GC", nothing, { containerId: "", netns: "", ifName: "" }))
      await succeed(left.attachment.check(left.result))
      expect(await seen(left)).toEqual(hostAddresses)
      await left.attachment.del()
      await gone.attachment.del()
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    },
  )
}
