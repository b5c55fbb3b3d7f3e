import { expect } from "bun:test"
import { open } from "node:fs/promises"
import {
  askEcho,
  EchoPeer,
  expectNoEcho,
  expectUnchanged,
  fail,
  outside,
  ruleBackends,
  succeed,
  takeSnapshot,
  testWith,
  waitFor,
} from "../lab/mod.ts"
import { hostAddresses, PortmapLab, testEach } from "./portmap-lab.ts"

const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" } as const
const dns = { hostPort: 53, containerPort: 5353, protocol: "udp" } as const

testEach("ADD answers what the earlier plugin has answered, and a second time changes nothing", async (lab) => {
  const pod = await lab.addPod()
  const { json } = await succeed(pod.map([web, dns]))
  expect(json).toEqual(pod.result)
  const before = await takeSnapshot(lab.host)
  await succeed(pod.map([web, dns]))
  expectUnchanged(before, await takeSnapshot(lab.host))
})

testEach("an ADD with other mappings replaces the earlier ones", async (lab) => {
  const pod = await lab.addPod()
  await using peer = await EchoPeer.start(pod.namespace)
  const to = (hostPort: number) => ({ hostPort, containerPort: peer.port, protocol: "tcp" }) as const
  await succeed(pod.map([to(8080), to(8081)]))
  await succeed(pod.map([to(8081), to(8082)]))
  const at = (port: number) => ({ transport: "tcp", address: hostAddresses.ip, port }) as const
  await askEcho(lab.outside, at(8081))
  await askEcho(lab.outside, at(8082))
  await expectNoEcho(lab.outside, at(8080))
})

testEach("fifty ports of two protocols are mapped at once", async (lab) => {
  const pod = await lab.addPod()
  await using peer = await EchoPeer.start(pod.namespace)
  const mappings = (["tcp", "udp"] as const).flatMap((protocol) =>
    Array.from({ length: 25 }, (_, n) => ({ hostPort: 30_000 + n, containerPort: peer.port, protocol })),
  )
  await succeed(pod.map(mappings))
  for (const { hostPort: port, protocol: transport } of mappings) {
    const { from } = await askEcho(lab.outside, { transport, address: hostAddresses.ip, port })
    expect(from.address).toBe(outside.ip)
  }
  const before = await takeSnapshot(lab.host)
  expect(await pod.check()).toMatchObject({ exitCode: 0, stdout: "" })
  expectUnchanged(before, await takeSnapshot(lab.host))
})

testEach("a port of a living container is refused with its name, before anything has changed", async (lab) => {
  const [holder, other] = [await lab.addPod(), await lab.addPod()]
  await succeed(holder.map([web, dns]))
  const before = await takeSnapshot(lab.host)
  const error = await fail(other.map([{ ...dns, hostPort: 54 }, dns]))
  expect(error.msg).toStartWith(`Cannot map host port 53/udp to ${other.ip}:5353 for lab/${other.namespace.name}/eth0`)
  expect(error.msg).toEndWith(`it is mapped to ${holder.ip}:5353 for lab/${holder.namespace.name}/eth0`)
  expectUnchanged(before, await takeSnapshot(lab.host))
})

testEach("a port of a container whose namespace is gone is taken over", async (lab) => {
  const [holder, other] = [await lab.addPod(), await lab.addPod()]
  await succeed(holder.map([web, dns]))
  await lab.host.removeContainer(holder.namespace)
  await using peer = await EchoPeer.start(other.namespace)
  await succeed(other.map([{ ...web, containerPort: peer.port }]))
  await askEcho(lab.outside, { transport: "tcp", address: hostAddresses.ip, port: web.hostPort })
})

testWith(
  ["ifb"],
  "a port of a container that is gone is taken over, though it has left the device of bandwidth",
  async () => {
    await using lab = await PortmapLab.create(ruleBackends[0])
    const [holder, other] = [await lab.addPod(), await lab.addPod()]
    await succeed(holder.map([web]))
    await lab.host.exec("ip", ["link", "add", "bwp1", "type", "ifb"])
    await lab.host.exec("ip", ["link", "set", "bwp1", "alias", `lab/${holder.namespace.name}/eth0`])
    await lab.host.removeContainer(holder.namespace)
    await succeed(other.map([web]))
    expect(await lab.rules()).toContain(`lab/${other.namespace.name}/eth0`)
  },
)

testEach("a port is taken over from a container that the kernel is just deleting", async (lab) => {
  const [holder, other] = [await lab.addPod(), await lab.addPod()]
  await succeed(holder.map([web]))
  const last = await open(holder.namespace.path)
  await lab.host.removeContainer(holder.namespace)
  await using peer = await EchoPeer.start(other.namespace)
  const adding = succeed(other.map([{ ...web, containerPort: peer.port }]))
  // Columns of /proc/net/netlink: address, protocol (0 is rtnetlink), port, groups as a hexadecimal mask
  await waitFor(
    async () => /^\S+\s+0\s+\d+\s+00000001\s/m.test((await lab.host.exec("cat", ["/proc/net/netlink"])).stdout),
    "ADD to wait for the interface to go",
  )
  await last.close()
  await adding
  await askEcho(lab.outside, { transport: "tcp", address: hostAddresses.ip, port: web.hostPort })
})

testEach("a port whose holder had the address that is this container's now is taken over", async (lab) => {
  const pod = await lab.addPod()
  await succeed(pod.map([web]))
  await succeed(pod.map([web], {}, { containerId: "next" }))
  const rules = await lab.rules()
  expect(rules).toContain("lab/next/eth0")
  expect(rules).not.toContain(`lab/${pod.namespace.name}/eth0`)
})

testEach("a container without an IPv6 address gets the IPv4 mappings, and CHECK passes", async (lab) => {
  const pod = await lab.addPod({ isIpv4Only: true })
  await using peer = await EchoPeer.start(pod.namespace)
  await succeed(
    pod.map([
      { ...web, containerPort: peer.port },
      { ...dns, hostIP: "::" },
    ]),
  )
  await askEcho(lab.outside, { transport: "tcp", address: hostAddresses.ip, port: web.hostPort })
  expect(await pod.check()).toMatchObject({ exitCode: 0, stdout: "" })
})

testEach("keys may be capitalised, as containerd writes them, and protocols too", async (lab) => {
  const pod = await lab.addPod()
  const portMappings = [{ HostPort: 8080, ContainerPort: 80, Protocol: "TCP", HostIP: "" }]
  await succeed(pod.map([], { runtimeConfig: { portMappings } }))
  expect(await pod.check({ runtimeConfig: { portMappings: [web] } })).toMatchObject({ exitCode: 0 })
})

testEach("with snat off the container sees who calls, also from beside it; with masqAll the host only", async (lab) => {
  for (const [keys, seen] of [
    [{ snat: false }, outside.ip],
    [{ masqAll: true }, hostAddresses.gateway],
  ] as const) {
    const pod = await lab.addPod()
    await using peer = await EchoPeer.start(pod.namespace)
    await succeed(pod.map([{ ...web, containerPort: peer.port }], keys))
    const { from } = await askEcho(lab.outside, { transport: "tcp", address: hostAddresses.ip, port: web.hostPort })
    expect(from.address).toBe(seen)
    expect(await pod.check(keys)).toMatchObject({ exitCode: 0 })
    await succeed(pod.unmap(keys))
  }
})
