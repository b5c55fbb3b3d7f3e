import { expect, test } from "bun:test"
import { Attachment, builtPlugins, fail, isAllocationTrace } from "./attachment.ts"
import {
  type ContainerNamespace,
  expectUnchanged,
  HostNamespace,
  programEnv,
  takeSnapshot,
  writeSysctl,
} from "./mod.ts"
import { dualStack, ptpNetwork, staticIpam } from "./ptp-network.ts"

const everything = { ...dualStack, ipMasq: true }
const path = `${builtPlugins}:/usr/lib/cni`

/** For every step of ADD one way to make it fail. What each needs beforehand is set up before the first snapshot. */
const breakages: {
  step: string
  setUp?: (host: HostNamespace, pod: ContainerNamespace) => Promise<unknown>
  keys: object
  code: number
  says: string
}[] = [
  {
    step: "the configuration is wrong",
    keys: { ...everything, mtu: "wide" },
    code: 7,
    says: 'Cannot use "mtu"',
  },
  {
    step: "there is no IPAM plugin",
    keys: { ipam: undefined },
    code: 7,
    says: 'no "ipam.type"',
  },
  {
    step: "the namespace does not exist",
    keys: everything,
    setUp: (host, pod) => host.removeContainer(pod),
    code: 4,
    says: "does not exist",
  },
  {
    step: "the container has the interface already",
    keys: everything,
    setUp: (_, pod) => pod.exec("ip", ["link", "add", "eth0", "type", "bridge"]),
    code: 999,
    says: "already exists",
  },
  {
    step: "the IPAM plugin is not there",
    keys: { ipam: { type: "no-such-plugin" } },
    code: 999,
    says: 'failed to find plugin "no-such-plugin"',
  },
  {
    step: "the address is taken",
    keys: { ...everything, args: { cni: { ips: ["10.9.0.1"] } } },
    code: 999,
    says: "gateway",
  },
  {
    step: "the gateway is the container's own address",
    keys: { ...everything, ...staticIpam({ address: "10.9.0.5/24", gateway: "10.9.0.5" }), cniVersion: "1.0.0" },
    code: 7,
    says: "Cannot use gateway 10.9.0.5",
  },
  {
    step: "an interface with that MAC cannot be made",
    keys: { ...everything, runtimeConfig: { mac: "01:00:5e:00:00:01" } },
    code: 999,
    says: 'Cannot create interface "eth0"',
  },
  {
    step: "an address cannot be added",
    keys: { ...everything, mtu: 1000 },
    code: 999,
    says: "Cannot add address fd00:9::2/64",
  },
  {
    step: "a route cannot be added",
    keys: { ...everything, ipam: { ...dualStack.ipam, routes: [{ dst: "192.0.2.0/24", gw: "198.51.100.1" }] } },
    code: 999,
    says: "Cannot add the routes",
  },
  {
    step: "the host has a route to the address already",
    keys: everything,
    setUp: (host) => host.exec("ip", ["route", "add", "10.9.0.2", "dev", "lo"]),
    code: 999,
    says: 'the host has a route to it already; it leads to "lo"',
  },
  {
    step: "the host cannot have the gateway's address",
    keys: everything,
    setUp: async (host) => {
      await writeSysctl(host, "net/ipv6/conf/default/disable_ipv6", "1")
      await host.exec("mount", ["-t", "tmpfs", "cni-test", "/proc/sys/net/ipv6"]) // nothing can be switched on again
    },
    code: 999,
    says: "Cannot add gateway fd00:9::1/128",
  },
  {
    step: "the masquerade's set is of another type",
    keys: everything,
    setUp: (host) =>
      host.exec("nft", ["add table ip cni_masquerade; add set ip cni_masquerade containers { type mark; }"]),
    code: 999,
    says: "Cannot masquerade",
  },
  {
    step: "forwarding cannot be switched on (KW-P2)",
    keys: everything,
    setUp: (host) => makeReadOnly(host, "/proc/sys/net/ipv4/ip_forward"),
    code: 999,
    says: "Cannot enable forwarding",
  },
]

/** In the host's own mount namespace only. */
async function makeReadOnly(host: HostNamespace, file: string): Promise<void> {
  await host.exec("mount", ["--bind", file, file])
  await host.exec("mount", ["-o", "remount,bind,ro", file])
}

test.each(breakages)("when $step, ADD says so and everything is as before", async ({ setUp, keys, code, says }) => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await setUp?.(host, pod)
  const before = await takeSnapshot(host)
  const inside = await takeSnapshot(pod).catch(() => undefined)
  const error = await fail(new Attachment(host, pod, ptpNetwork(keys), { path }).run("ADD"))
  expect(`${error.msg}; ${error.details ?? ""}`).toContain(says)
  expect(error.code).toBe(code)
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  if (inside) expectUnchanged(inside, await takeSnapshot(pod))
})

test("an IPAM plugin that gives no address is told to release, and everything is as before (KW-P2)", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const script = `#!/bin/sh
echo $CNI_COMMAND >> /run/cni/calls
[ $CNI_COMMAND = DEL ] || echo '{"cniVersion":"1.0.0"}'
`
  await host.exec("tee", ["/run/cni/empty"], { input: script })
  await host.exec("chmod", ["+x", "/run/cni/empty"])
  const before = await takeSnapshot(host, [])
  const config = ptpNetwork({ cniVersion: "1.0.0", ipam: { type: "empty" } })
  const { msg } = await fail(new Attachment(host, pod, config, { path: "/run/cni" }).run("ADD"))
  expect(msg).toBe("IPAM plugin returned missing IP config")
  expect((await host.exec("cat", ["/run/cni/calls"])).stdout).toBe("ADD\nDEL\n")
  expectUnchanged(before, await takeSnapshot(host, []))
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
})

test("an ADD that is repeated fails, and what the first one made stays", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, ptpNetwork(everything))
  await attachment.add()
  const before = await takeSnapshot(host)
  const inside = await takeSnapshot(pod)
  expect((await fail(attachment.run("ADD"))).msg).toContain('"eth0"')
  expectUnchanged(before, await takeSnapshot(host))
  expectUnchanged(inside, await takeSnapshot(pod))
})

test("an ADD killed at any moment leaves nothing behind the next DEL", async () => {
  await using host = await HostNamespace.create()
  const config = ptpNetwork(everything)
  const first = new Attachment(host, await host.addContainer(), config)
  await first.add()
  await first.del()
  const before = await takeSnapshot(host)
  for (let afterMs = 3; afterMs <= 16; afterMs++) {
    const pod = await host.addContainer()
    const attachment = new Attachment(host, pod, config)
    await killedAdd(host, pod, config, afterMs)
    await attachment.del()
    expect(await pod.json<{ ifname: string }[]>("ip", ["-j", "link"])).toMatchObject([{ ifname: "lo" }])
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  }
})

/** Runs an ADD and ends it with SIGKILL after some milliseconds. */
async function killedAdd(host: HostNamespace, pod: ContainerNamespace, config: object, afterMs: number): Promise<void> {
  const env = {
    ...programEnv,
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: pod.name,
    CNI_NETNS: pod.path,
    CNI_IFNAME: "eth0",
    CNI_PATH: builtPlugins,
  }
  const command = ["-s", "KILL", (afterMs / 1000).toFixed(3), `${builtPlugins}/ptp`]
  await host.tryExec("timeout", command, { env, input: JSON.stringify(config) })
}
