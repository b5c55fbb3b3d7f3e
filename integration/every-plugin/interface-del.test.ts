import { expect } from "bun:test"
import {
  Attachment,
  type Change,
  type ContainerNamespace,
  expectUnchanged,
  fail,
  type HostNamespace,
  interfacePlugin,
  interfacePlugins,
  isAllocationTrace,
  isLeftToKernel,
  listNamespaces,
  takeSnapshot,
  testPlugin,
  usedHost,
} from "../lab/mod.ts"

/** Events between ADD and DEL, or inputs of DEL. DEL must delete everything nevertheless. */
const ways: {
  what: string
  happens?: (host: HostNamespace, pod: ContainerNamespace) => Promise<unknown>
  keys?: object
  call?: object
  /**
   * Whether DEL can reach the interface only through its peer. If so, the kernel deletes the remaining objects later.
   */
  isOutOfReach?: boolean
}[] = [
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
  { what: "with a path at which something else lies by now", call: { netns: "/etc/hostname" }, isOutOfReach: true },
  {
    what: "with a configuration that changed or broke since ADD",
    keys: {
      bridge: "gone/wrong",
      ipMasq: "perhaps",
      ipMasqBackend: 7,
      master: "a/b",
      linkInContainer: "yes",
      mode: "l9",
      flag: 1,
      bcqueuelen: -1,
      vlanId: 9999,
      protocol: 1,
      owner: "another",
      selinuxContext: 7,
      mac: 5,
      mtu: "wide",
      runtimeConfig: { mac: 5 },
      dns: 1,
      prevResult: "?",
    },
    call: { args: "no=pair=here" },
  },
]

for (const name of interfacePlugins()) {
  const plugin = interfacePlugin(name)
  const config = plugin.network(plugin.everything)

  for (const { what, happens, keys, call, isOutOfReach = false } of ways) {
    testPlugin(name, `${name}: DEL ${what} removes interface, packet filter rules and addresses`, async () => {
      const { host, pod, before } = await usedHost(name)
      await using _ = host
      const attachment = new Attachment(host, pod, config)
      await attachment.add()
      await happens?.(host, pod)
      await attachment.del(keys, call)
      const isLeft = (change: Change) => isOutOfReach && isLeftToKernel(name, change)
      expectUnchanged(before, await takeSnapshot(host), (change) => isAllocationTrace(change) || isLeft(change))
      if ((await listNamespaces(pod.name)).length > 0 && (plugin.hasHostEnd || !isOutOfReach)) {
        expect(await pod.json<object[]>("ip", ["-j", "link"])).toMatchObject([{ ifname: "lo" }])
      }
    })
  }

  testPlugin(name, `${name}: DEL leaves an interface of that name that another network made`, async () => {
    const { host, pod } = await usedHost(name)
    await using _ = host
    await new Attachment(host, pod, plugin.network(plugin.stranger)).add()
    const inside = await takeSnapshot(pod)
    await new Attachment(host, pod, config).del()
    expectUnchanged(inside, await takeSnapshot(pod))
  })

  testPlugin(name, `${name}: a failing step does not keep DEL from the others, and its error is reported`, async () => {
    const { host, pod, before } = await usedHost(name)
    await using _ = host
    const attachment = new Attachment(host, pod, config)
    await attachment.add()
    expect((await fail(attachment.run("DEL", { ipam: { type: "no-such-plugin" } }))).msg).toContain("no-such-plugin")
    expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
    await attachment.del()
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  })
}
