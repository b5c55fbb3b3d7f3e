import { expect, test } from "bun:test"
import { Attachment, builtPlugins, fail, isAllocationTrace } from "./attachment.ts"
import { type ContainerNamespace, expectUnchanged, HostNamespace, type Snapshot, takeSnapshot } from "./mod.ts"
import { dualStack, ptpNetwork } from "./ptp-network.ts"

const config = ptpNetwork({ ...dualStack, ipMasq: true })

/** A host that forwards already, one container, and the snapshot to come back to. */
async function usedHost(): Promise<{ host: HostNamespace; pod: ContainerNamespace; before: Snapshot }> {
  const host = await HostNamespace.create()
  const first = new Attachment(host, await host.addContainer(), config)
  await first.add()
  await first.del()
  return { host, pod: await host.addContainer(), before: await takeSnapshot(host) }
}

test("DEL takes back all that ADD made, and a second DEL succeeds", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const inside = await takeSnapshot(pod)
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  expectUnchanged(inside, await takeSnapshot(pod))
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL without an ADD succeeds and changes nothing", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  await new Attachment(host, pod, config).del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL without CNI_NETNS removes interface, masquerade and address all the same (KW-P7)", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  await attachment.del({}, { netns: "" })
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
})

test("DEL after the namespace has gone removes masquerade and address (KW-P7)", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  await host.removeContainer(pod)
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL after the interface has gone removes masquerade and address (KW-P7)", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  await pod.exec("ip", ["link", "del", "eth0"])
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL after the interface was renamed inside the container finds it by its owner", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  await pod.exec("ip", ["link", "set", "eth0", "down"])
  await pod.exec("ip", ["link", "set", "eth0", "name", "net0"])
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL with a path at which something else lies by now removes everything", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  await attachment.del({}, { netns: "/etc/hostname" })
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL with a configuration that changed or broke since ADD leaves nothing", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  const broken = {
    ipMasq: "perhaps",
    ipMasqBackend: 7,
    mtu: "wide",
    runtimeConfig: { mac: 5 },
    dns: 1,
    prevResult: "?",
  }
  await attachment.del(broken, { args: "no=pair=here" })
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("DEL leaves an interface of that name that another network made (KW-H6)", async () => {
  const { host, pod } = await usedHost()
  await using _ = host
  await new Attachment(host, pod, ptpNetwork({ name: "other" })).add()
  const inside = await takeSnapshot(pod)
  await new Attachment(host, pod, config).del()
  expectUnchanged(inside, await takeSnapshot(pod))
})

test("a failing step does not keep DEL from the others, and its error is reported", async () => {
  const { host, pod, before } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  expect((await fail(attachment.run("DEL", { ipam: { type: "no-such-plugin" } }))).msg).toContain("no-such-plugin")
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
  await attachment.del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("GC keeps the valid attachments and removes interfaces, masquerades and addresses of all others", async () => {
  const { host, pod } = await usedHost()
  await using _ = host
  const gone = await host.addContainer()
  const foreign = await host.addContainer()
  const kept = new Attachment(host, pod, config)
  const result = await kept.add()
  const otherNetwork = { name: "wire-2", ipam: { type: "host-local", ranges: [[{ subnet: "10.8.0.0/24" }]] } }
  await new Attachment(host, foreign, ptpNetwork({ ipMasq: true, ...otherNetwork })).add()
  const wanted = await takeSnapshot(host)
  await new Attachment(host, gone, config).add()
  await new Attachment(host, pod, config, { ifName: "eth1" }).add()
  const valid = { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: "eth0" }] }
  expect(await kept.run("GC", valid)).toMatchObject({ exitCode: 0, stdout: "" })
  expectUnchanged(wanted, await takeSnapshot(host), isAllocationTrace)
  expect(await kept.check(result)).toMatchObject({ exitCode: 0 })
})

test("GC without a list of valid attachments is refused and removes nothing", async () => {
  const { host, pod } = await usedHost()
  await using _ = host
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  const before = await takeSnapshot(host)
  for (const keys of [{}, { "cni.dev/valid-attachments": null }]) {
    expect((await fail(attachment.run("GC", keys))).code).toBe(7)
  }
  expectUnchanged(before, await takeSnapshot(host))
})

test("DEL here takes back what the Go ptp plugin added, its masquerade by iptables included", async () => {
  const { host, pod } = await usedHost()
  await using _ = host
  // The table and its base chain come with the first rule, and are the host's.
  for (const program of ["iptables", "ip6tables"]) {
    for (const change of ["-A", "-D"]) await host.exec(program, ["-t", "nat", change, "POSTROUTING", "-j", "RETURN"])
  }
  const before = await takeSnapshot(host)
  const keys = { ...config, cniVersion: "1.0.0" }
  await new Attachment(host, pod, keys, { bin: "/usr/lib/cni/ptp", path: "/usr/lib/cni" }).add()
  expect((await host.exec("iptables-save", ["-t", "nat"])).stdout).toContain("MASQUERADE")
  await new Attachment(host, pod, keys, { bin: `${builtPlugins}/ptp` }).del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("STATUS is that of the IPAM plugin", async () => {
  await using host = await HostNamespace.create()
  const attachment = new Attachment(host, await host.addContainer(), config)
  expect(await attachment.run("STATUS")).toMatchObject({ exitCode: 0, stdout: "" })
  expect((await fail(attachment.run("STATUS", { ipam: { type: "no-such-plugin" } }))).msg).toContain("no-such-plugin")
  expect((await fail(attachment.run("STATUS", { ipam: {} }))).code).toBe(7)
})
