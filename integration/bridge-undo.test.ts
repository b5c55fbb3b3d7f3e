import { expect, test } from "bun:test"
import { Attachment, bridgeNetwork, builtPlugins, fail, isAllocationTrace } from "./attachment.ts"
import { type ContainerNamespace, expectUnchanged, HostNamespace, programEnv, takeSnapshot } from "./mod.ts"

const masquerading = { isDefaultGateway: true, ipMasq: true }

/** For every step of ADD one way to make it fail. What each needs beforehand is set up before the first snapshot. */
const breakages: {
  step: string
  setUp?: (host: HostNamespace, pod: ContainerNamespace) => Promise<unknown>
  keys: object
  code: number
  says: string
}[] = [
  {
    step: "the namespace does not exist",
    keys: {},
    setUp: (host, pod) => host.removeContainer(pod),
    code: 4,
    says: "does not exist",
  },
  {
    step: "the container has the interface already",
    keys: masquerading,
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
    keys: { ...masquerading, args: { cni: { ips: ["10.22.0.1"] } } },
    code: 999,
    says: "gateway",
  },
  {
    step: "the bridge's name belongs to something else",
    keys: { ...masquerading },
    setUp: (host) => host.exec("ip", ["link", "add", "br-lab", "type", "veth", "peer", "name", "other"]),
    code: 7,
    says: '"br-lab" already exists but is not a bridge',
  },
  {
    step: "the VLANs of the configuration are wrong",
    keys: { ...masquerading, vlan: 100, vlanTrunk: [{ minID: 5, maxID: 4 }] },
    code: 7,
    says: "minID is greater than maxID in trunk parameter",
  },
  {
    step: "the VLAN's gateway interface would have too long a name (KW-B10)",
    keys: { ...masquerading, bridge: "bridge-of-lab", vlan: 4000 },
    code: 7,
    says: '"bridge-of-lab.4000" has 18 bytes',
  },
  {
    step: "there is an IPAM plugin for an interface that is to stay down",
    keys: { disableContainerInterface: true },
    code: 7,
    says: "cannot use IPAM when DisableContainerInterface flag is set",
  },
  {
    step: "an interface with that MAC cannot be made",
    keys: { ...masquerading, runtimeConfig: { mac: "01:00:5e:00:00:01" } },
    code: 999,
    says: 'Cannot create interface "eth0"',
  },
  {
    step: "the source MAC cannot be checked",
    keys: { ...masquerading, macspoofchk: true },
    setUp: (host) =>
      host.exec("nft", [
        "add table bridge cni_spoofcheck; add map bridge cni_spoofcheck allowed { type mark : mark; }",
      ]),
    code: 999,
    says: "Cannot guard port",
  },
  {
    step: "an address cannot be added",
    keys: { ...masquerading, mtu: 1000, ipam: { type: "host-local", ranges: [[{ subnet: "fd00:22::/64" }]] } },
    code: 999,
    says: "Cannot add address fd00:22::2/64",
  },
  {
    step: "a route cannot be added",
    keys: {
      ...masquerading,
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.22.0.0/16" }]],
        routes: [{ dst: "192.0.2.0/24", gw: "198.51.100.1" }],
      },
    },
    code: 999,
    says: "Cannot add the routes",
  },
  {
    step: "the masquerade's set is of another type",
    keys: { ...masquerading, macspoofchk: true },
    setUp: (host) =>
      host.exec("nft", ["add table ip cni_masquerade; add set ip cni_masquerade containers { type mark; }"]),
    code: 999,
    says: "Cannot masquerade",
  },
  {
    step: "the gateway's address is in the way of another",
    keys: { ...masquerading, macspoofchk: true, portIsolation: true, hairpinMode: true },
    setUp: async (host) => {
      await host.exec("ip", ["link", "add", "br-lab", "up", "address", "0a:00:00:00:00:01", "type", "bridge"])
      await host.exec("ip", ["addr", "add", "10.22.9.9/24", "dev", "br-lab"])
    },
    code: 999,
    says: "already has an IP address different from",
  },
  {
    step: "forwarding cannot be switched on",
    keys: masquerading,
    setUp: readOnlyForwarding,
    code: 999,
    says: "Cannot enable forwarding",
  },
]

/** Bind mounts in the host's own mount namespace: nothing else on the machine sees them. */
async function readOnlyForwarding(host: HostNamespace): Promise<void> {
  const file = "/proc/sys/net/ipv4/ip_forward"
  await host.exec("mount", ["--bind", file, file])
  await host.exec("mount", ["-o", "remount,bind,ro", file])
}

test.each(breakages)(
  "when $step, ADD says so and everything is as before (KW-B2)",
  async ({ setUp, keys, code, says }) => {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    await setUp?.(host, pod)
    const before = await takeSnapshot(host)
    const inside = await takeSnapshot(pod).catch(() => undefined)
    const error = await fail(new Attachment(host, pod, bridgeNetwork(keys)).run("ADD"))
    expect(`${error.msg}; ${error.details ?? ""}`).toContain(says)
    expect(error.code).toBe(code)
    expect(error.cniVersion).toBe("1.1.0")
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    if (inside) expectUnchanged(inside, await takeSnapshot(pod))
  },
)

test("a result that the caller's version cannot hold is an error, and everything as before (KW-F2)", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const before = await takeSnapshot(host)
  const { ipam: _none, ...config } = bridgeNetwork({ cniVersion: "0.2.0" })
  const error = await fail(new Attachment(host, pod, config).run("ADD"))
  expect(error.msg).toContain("cannot convert: no valid IP addresses")
  expectUnchanged(before, await takeSnapshot(host))
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
})

test("an ADD that is repeated fails, and what the first one made stays", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, bridgeNetwork(masquerading))
  await attachment.add()
  const before = await takeSnapshot(host)
  const inside = await takeSnapshot(pod)
  expect((await fail(attachment.run("ADD"))).msg).toContain('"eth0"')
  expectUnchanged(before, await takeSnapshot(host))
  expectUnchanged(inside, await takeSnapshot(pod))
})

test("an ADD killed at any moment leaves nothing behind the next DEL", async () => {
  await using host = await HostNamespace.create()
  const config = bridgeNetwork(masquerading)
  const first = new Attachment(host, await host.addContainer(), config)
  await first.add()
  await first.del()
  const before = await takeSnapshot(host)
  for (let afterMs = 1; afterMs <= 16; afterMs++) {
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
  const command = ["timeout", "-s", "KILL", (afterMs / 1000).toFixed(3), `${builtPlugins}/bridge`]
  const env = {
    ...programEnv,
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: pod.name,
    CNI_NETNS: pod.path,
    CNI_IFNAME: "eth0",
    CNI_PATH: builtPlugins,
  }
  await host.tryExec(command[0] ?? "", command.slice(1), { env, input: JSON.stringify(config) })
}
