import { expect, test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  type ContainerNamespace,
  expectUnchanged,
  fail,
  HostNamespace,
  isSharedBridge,
  linkNames,
  linkOf,
  type PluginResult,
  ping,
  pingOnce,
  takeSnapshot,
} from "../lab/mod.ts"

/** Creates a host and a container with an interface from an earlier plugin of the chain. */
async function chained() {
  const host = await HostNamespace.create()
  return { host, ...(await addPod(host)) }
}

async function addPod(host: HostNamespace, port = "given0", address = "10.9.0.2") {
  const pod = await host.addContainer()
  await host.exec("ip", ["link", "add", port, "up", "type", "veth", "peer", "name", "eth0", "netns", pod.name])
  await pod.exec("ip", ["link", "set", "eth0", "up"])
  await pod.exec("ip", ["address", "add", `${address}/24`, "dev", "eth0"])
  const given = await resultOf(host, pod, port)
  const prevResult: PluginResult = { ...given, ips: [{ address: `${address}/24`, interface: 1 }] }
  return { pod, prevResult }
}

async function resultOf(host: HostNamespace, pod: ContainerNamespace, port = "given0"): Promise<PluginResult> {
  return {
    cniVersion: "1.1.0",
    interfaces: [
      { name: port, mac: (await linkOf(host, port)).address },
      { name: "eth0", mac: (await linkOf(pod, "eth0")).address, sandbox: pod.path },
    ],
    ips: [],
  }
}

const firewallNetwork = (ingressPolicy: string) => {
  return { cniVersion: "1.1.0", name: "lab", type: "firewall", backend: "nftables", ingressPolicy }
}

function chain(host: HostNamespace, pod: ContainerNamespace, keys: object): Attachment {
  const { ipam: _none, ...config } = bridgeNetwork()
  return new Attachment(host, pod, { ...config, ...keys })
}

test("#11, #15, #16 an interface that an earlier plugin made joins the bridge, and its result is answered with the bridge", async () => {
  const { host, pod, prevResult } = await chained()
  await using _ = host
  const attachment = chain(host, pod, { prevResult, portIsolation: true, macspoofchk: true })
  const result = await attachment.add()
  const port = await linkOf(host, "given0")
  expect(port).toMatchObject({ master: "br-lab", linkinfo: { info_slave_data: { isolated: true } } })
  expect(port.flags).toContain("UP")
  expect(await linkNames(host)).toEqual(["lo", "given0", "br-lab"])
  expect(result.ips).toEqual(prevResult.ips)
  expect(result.interfaces.slice(0, 2)).toEqual(prevResult.interfaces)
  expect(result.interfaces[2]).toMatchObject({ name: "br-lab", mac: (await linkOf(host, "br-lab")).address })
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).toContain(`"given0" comment "lab/${pod.name}/eth0"`)
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
  await attachment.del({ prevResult: result })
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).toBe("")
})

test("firewall behind it keeps containers apart on the bridge, by their ports", async () => {
  await using host = await HostNamespace.create()
  const pods: ContainerNamespace[] = []
  for (const [at, policy] of ["open", "open", "isolated"].entries()) {
    const { pod, prevResult } = await addPod(host, `given${at}`, `10.9.0.${at + 2}`)
    const result = await chain(host, pod, { prevResult }).add()
    const firewall = new Attachment(host, pod, firewallNetwork(policy))
    await firewall.add({ prevResult: result })
    pods.push(pod)
    if (at === 1) expect(await ping(pod, "10.9.0.2")).toBe(true)
    if (at === 2) expect(await firewall.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
  }
  expect(await pingOnce(pods[2] as ContainerNamespace, "10.9.0.2")).toBe(false)
})

test("a host interface that is not a pair's end leaves the bridge with DEL, and stays", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  // Interfaces that a plugin for virtual machines may create: a device on the host, and a different link in the
  // container.
  await host.exec("ip", ["link", "add", "given0", "type", "veth", "peer", "name", "machine"])
  await pod.exec("ip", ["link", "add", "eth0", "up", "type", "bridge"])
  const prevResult = await resultOf(host, pod)
  const attachment = chain(host, pod, { prevResult })
  const result = await attachment.add()
  expect((await linkOf(host, "given0")).master).toBe("br-lab")
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  await attachment.del({ prevResult: result })
  expect((await linkOf(host, "given0")).master).toBeUndefined()
})

/** Keys that are not possible with an interface of an earlier plugin. */
const refusals: { what: string; keys: object; setUp?: (host: HostNamespace) => unknown; says: string }[] = [
  { what: "ipam", keys: { ipam: { type: "host-local" } }, says: 'Cannot use "ipam" with an interface of an earlier' },
  {
    what: "a gateway",
    keys: { isDefaultGateway: true },
    says: 'Cannot use "isGateway" with an interface of an earlier',
  },
  { what: "a masquerade", keys: { ipMasq: true }, says: 'Cannot use "ipMasq" with an interface of an earlier' },
  {
    what: "another bridge's port",
    keys: {},
    setUp: async (host) => {
      await host.exec("ip", ["link", "add", "other", "type", "bridge"])
      await host.exec("ip", ["link", "set", "given0", "master", "other"])
    },
    says: 'Cannot join "given0" to bridge "br-lab": it belongs to "other"',
  },
  {
    what: "a MAC that cannot be checked",
    keys: { macspoofchk: true },
    setUp: (host) =>
      host.exec("nft", ["add table bridge cni_spoofcheck; add set bridge cni_spoofcheck guarded { type mark; }"]),
    says: "Cannot guard port",
  },
]

test.each(refusals)("$what: ADD says so and leaves nothing but the shared bridge", async ({ keys, setUp, says }) => {
  const { host, pod, prevResult } = await chained()
  await using _ = host
  await setUp?.(host)
  const before = await takeSnapshot(host)
  expect((await fail(chain(host, pod, { ...keys, prevResult }).run("ADD"))).msg).toContain(says)
  expectUnchanged(before, await takeSnapshot(host), isSharedBridge)
})

test("a result without the container's interface does not matter: ADD makes one", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const prevResult = { cniVersion: "1.1.0", interfaces: [{ name: "lo", sandbox: pod.path }], ips: [] }
  const result = await new Attachment(host, pod, bridgeNetwork({ prevResult })).add()
  expect(result.interfaces.map(({ name }) => name.replace(/^veth.*/, "veth"))).toEqual(["br-lab", "veth", "eth0"])
})

test("an ADD that is repeated with its own result fails, and what the first one made stays", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, bridgeNetwork())
  const prevResult = await attachment.add()
  const before = await takeSnapshot(host)
  expect((await attachment.run("ADD", { prevResult })).exitCode).toBe(1)
  expectUnchanged(before, await takeSnapshot(host))
})
