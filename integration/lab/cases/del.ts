import { expect, test } from "bun:test"
import type { AttachingPlugin } from "../attaching-plugins.ts"
import { Attachment, fail, isAllocationTrace } from "../attachment.ts"
import type { ContainerNamespace } from "../container-namespace.ts"
import { HostNamespace } from "../host-namespace.ts"
import { listNamespaces } from "../namespace-names.ts"
import { expectUnchanged, type Snapshot, takeSnapshot } from "../snapshot/snapshot.ts"

/** A host on which the plugin has been before, one container, and the snapshot to come back to. */
export async function usedHost(
  plugin: AttachingPlugin,
): Promise<{ host: HostNamespace; pod: ContainerNamespace; before: Snapshot }> {
  const host = await HostNamespace.create()
  const first = new Attachment(host, await host.addContainer(), plugin.network(plugin.everything))
  await first.add()
  await first.del()
  return { host, pod: await host.addContainer(), before: await takeSnapshot(host) }
}

/** What may happen between ADD and DEL, or be asked of DEL, after which nothing is left all the same. */
const ways: {
  what: string
  happens?: (host: HostNamespace, pod: ContainerNamespace) => Promise<unknown>
  keys?: object
  call?: object
}[] = [
  { what: "without CNI_NETNS", call: { netns: "" } },
  { what: "after the namespace has gone", happens: (host, pod) => host.removeContainer(pod) },
  {
    what: "after the interface has gone",
    happens: (_, pod) => pod.exec("ip", ["link", "del", "eth0"]),
  },
  {
    what: "after the interface was renamed inside the container",
    happens: async (_, pod) => {
      await pod.exec("ip", ["link", "set", "eth0", "down"])
      await pod.exec("ip", ["link", "set", "eth0", "name", "net0"])
    },
  },
  {
    what: "after the addresses were taken off inside the container",
    happens: (_, pod) => pod.exec("ip", ["addr", "flush", "dev", "eth0"]),
  },
  { what: "with a path at which something else lies by now", call: { netns: "/etc/hostname" } },
  {
    what: "with a configuration that changed or broke since ADD",
    keys: {
      bridge: "gone/wrong",
      ipMasq: "perhaps",
      ipMasqBackend: 7,
      mtu: "wide",
      runtimeConfig: { mac: 5 },
      dns: 1,
      prevResult: "?",
    },
    call: { args: "no=pair=here" },
  },
]

/** Tests that DEL and GC take back what ADD has made, and nothing else. */
export function testDel(plugin: AttachingPlugin): void {
  const config = plugin.network(plugin.everything)

  test("DEL takes back all that ADD made, and a second DEL succeeds", async () => {
    const { host, pod, before } = await usedHost(plugin)
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
    const { host, pod, before } = await usedHost(plugin)
    await using _ = host
    await new Attachment(host, pod, config).del()
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  })

  test.each(ways)("DEL $what removes interface, packet filter rules and addresses", async ({ happens, keys, call }) => {
    const { host, pod, before } = await usedHost(plugin)
    await using _ = host
    const attachment = new Attachment(host, pod, config)
    await attachment.add()
    await happens?.(host, pod)
    await attachment.del(keys, call)
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    if ((await listNamespaces(pod.name)).length > 0) {
      expect(await pod.json<object[]>("ip", ["-j", "link"])).toMatchObject([{ ifname: "lo" }])
    }
  })

  test("DEL leaves an interface of that name that another network made", async () => {
    const { host, pod } = await usedHost(plugin)
    await using _ = host
    await new Attachment(host, pod, plugin.network(plugin.stranger)).add()
    const inside = await takeSnapshot(pod)
    await new Attachment(host, pod, config).del()
    expectUnchanged(inside, await takeSnapshot(pod))
  })

  test("a failing step does not keep DEL from the others, and its error is reported", async () => {
    const { host, pod, before } = await usedHost(plugin)
    await using _ = host
    const attachment = new Attachment(host, pod, config)
    await attachment.add()
    expect((await fail(attachment.run("DEL", { ipam: { type: "no-such-plugin" } }))).msg).toContain("no-such-plugin")
    expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
    await attachment.del()
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  })

  test("GC keeps the valid attachments and removes all that others of the network have", async () => {
    const { host, pod } = await usedHost(plugin)
    await using _ = host
    const gone = await host.addContainer()
    const foreign = await host.addContainer()
    const kept = new Attachment(host, pod, config)
    const result = await kept.add()
    await new Attachment(host, foreign, plugin.network({ ...plugin.everything, ...plugin.neighbour })).add()
    const wanted = await takeSnapshot(host)
    await new Attachment(host, gone, config).add()
    await new Attachment(host, pod, config, { ifName: "eth1" }).add()
    const valid = { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: "eth0" }] }
    expect(await kept.run("GC", valid)).toMatchObject({ exitCode: 0, stdout: "" })
    expectUnchanged(wanted, await takeSnapshot(host), isAllocationTrace)
    expect(await kept.check(result)).toMatchObject({ exitCode: 0 })
  })
}
