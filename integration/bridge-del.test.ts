import { expect, test } from "bun:test"
import { Attachment, bridgeNetwork, builtPlugins, isAllocationTrace } from "./attachment.ts"
import { type ContainerNamespace, expectUnchanged, HostNamespace, type Snapshot, takeSnapshot } from "./mod.ts"

const masquerading = { isDefaultGateway: true, ipMasq: true }

/** A host on which the bridge is there already, one container, and the snapshot to come back to. */
async function usedHost(): Promise<{ host: HostNamespace; pod: ContainerNamespace; before: Snapshot }> {
  const host = await HostNamespace.create()
  const first = new Attachment(host, await host.addContainer(), bridgeNetwork(masquerading))
  await first.add()
  await first.del()
  return { host, pod: await host.addContainer(), before: await takeSnapshot(host) }
}

test("DEL takes back all that ADD made, except the bridge, and a second DEL succeeds", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const inside = await takeSnapshot(pod)
  const attachment = new Attachment(host, pod, bridgeNetwork(masquerading))
  await attachment.add()
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  expectUnchanged(inside, await takeSnapshot(pod))
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL without CNI_NETNS removes interface, masquerade and address all the same (KW-B12)", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, bridgeNetwork(masquerading))
  await attachment.add()
  await attachment.del({}, { netns: "" })
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL after the namespace has gone removes masquerade and address (KW-B12)", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, bridgeNetwork(masquerading))
  await attachment.add()
  await host.removeContainer(pod)
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL after the addresses were taken off inside the container removes the masquerade (KW-B13)", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, bridgeNetwork(masquerading))
  await attachment.add()
  await pod.exec("ip", ["addr", "flush", "dev", "eth0"])
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL with a configuration that changed or broke since ADD leaves nothing", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, bridgeNetwork(masquerading))
  await attachment.add()
  const broken = { bridge: "gone/wrong", ipMasq: "perhaps", mtu: "wide", runtimeConfig: { mac: 5 }, prevResult: "?" }
  await attachment.del(broken, { args: "no=pair=here" })
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL leaves an interface of that name that another network's bridge made (KW-H6)", async () => {
  const { host, pod } = await usedHost()
  await using _ = host
  await new Attachment(host, pod, bridgeNetwork({ name: "other", bridge: "br-other" })).add()
  const inside = await takeSnapshot(pod)
  await new Attachment(host, pod, bridgeNetwork(masquerading)).del()
  expectUnchanged(inside, await takeSnapshot(pod))
})

test("a failing step does not keep DEL from the others, and its error is reported", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, bridgeNetwork(masquerading))
  await attachment.add()
  const { exitCode, json } = await attachment.run("DEL", { ipam: { type: "no-such-plugin" } })
  expect(exitCode).toBe(1)
  expect(json).toMatchObject({ msg: expect.stringContaining("no-such-plugin") })
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("GC keeps the valid attachments and removes interfaces, masquerades and addresses of all others", async () => {
  const { host, pod } = await usedHost()
  await using _ = host
  const gone = await host.addContainer()
  const foreign = await host.addContainer()
  const config = bridgeNetwork(masquerading)
  await new Attachment(host, pod, config).add()
  await new Attachment(host, foreign, bridgeNetwork({ ...masquerading, name: "lab-2" })).add()
  const wanted = await takeSnapshot(host)
  await new Attachment(host, gone, config).add()
  const valid = { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: "eth0" }] }
  const collected = await new Attachment(host, pod, { ...config, ...valid }).run("GC")
  expect(collected).toMatchObject({ exitCode: 0, stdout: "" })
  expectUnchanged(wanted, await takeSnapshot(host), isAllocationTrace)
})

test("GC without a list of valid attachments is refused and removes nothing", async () => {
  const { host, pod } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, bridgeNetwork(masquerading))
  await attachment.add()
  const before = await takeSnapshot(host)
  for (const keys of [{}, { "cni.dev/valid-attachments": null }]) {
    const { exitCode, json } = await attachment.run("GC", keys)
    expect(exitCode).toBe(1)
    expect(json).toMatchObject({ code: 7 })
  }
  expectUnchanged(before, await takeSnapshot(host))
})

test("DEL here takes back what the Go bridge plugin added", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const config = bridgeNetwork({ isDefaultGateway: true, cniVersion: "1.0.0" })
  await new Attachment(host, pod, config, { bin: "/usr/lib/cni/bridge", path: "/usr/lib/cni" }).add()
  await new Attachment(host, pod, config, { bin: `${builtPlugins}/bridge` }).del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})
