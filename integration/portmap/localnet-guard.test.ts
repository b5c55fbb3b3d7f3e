import { expect, test } from "bun:test"
import { Attachment, askEcho, EchoPeer, expectNoEcho, readSysctl, ruleBackends, succeed } from "../lab/mod.ts"
import { hostAddresses, type MappedPod, PortmapLab, testEach } from "./portmap-lab.ts"

const { gateway } = hostAddresses
const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" } as const

/** Changes a container so that it can send packets to the host's 127.0.0.1. Root in a container can do the same. */
async function prepareAttack({ namespace }: MappedPod): Promise<void> {
  await namespace.exec("sysctl", ["-qw", "net.ipv4.conf.all.route_localnet=1"])
  await namespace.exec("ip", ["route", "replace", "127.0.0.1", "via", gateway])
}

/**
 * Sends two UDP packets with source `source` and two with the container's own source. Returns the number of packets
 * that arrive at the host, which the kernel counts because no program listens at the port.
 */
async function arrivals(lab: PortmapLab, { namespace }: MappedPod, source: string): Promise<number> {
  const count = async () => {
    const { stdout } = await lab.host.exec("cat", ["/proc/net/snmp"])
    const [names = [], values = []] = [...stdout.matchAll(/^Udp: (.*)$/gm)].map(([, line = ""]) => line.split(" "))
    return Number(values[names.indexOf("NoPorts")])
  }
  const send = (from: string) =>
    namespace.exec("bash", [
      "-c",
      `ip route replace ${gateway} dev eth0 src ${from}; echo >/dev/udp/${gateway}/9; echo >/dev/udp/${gateway}/9; true`,
    ])
  await namespace.exec("ip", ["address", "replace", `${source}/32`, "dev", "eth0"])
  const own = /inet (10\.22\.[\d.]+)/.exec((await namespace.exec("ip", ["addr", "show", "eth0"])).stdout)?.[1] ?? ""
  await send(own) // resolves the gateway's MAC address, so that no packet waits
  const before = await count()
  await send(source)
  await send(own)
  return (await count()) - before
}

testEach(
  "a container reaches nothing that listens on 127.0.0.1 only, nor does it pass for the host [S41]",
  async (lab) => {
    const pod = await lab.addPod()
    await using service = await EchoPeer.start(lab.host, { address: "127.0.0.1", port: 9999 })
    await succeed(pod.map([web]))
    expect(await readSysctl(lab.host, "net/ipv4/conf/br-lab/route_localnet")).toBe("1")
    await prepareAttack(pod)
    for (const transport of ["tcp", "udp"] as const)
      await expectNoEcho(pod.namespace, { transport, address: "127.0.0.1", port: service.port })
    for (const source of ["127.0.0.1", "127.0.0.2", "127.9.9.9"])
      expect({ source, arrivals: await arrivals(lab, pod, source) }).toEqual({ source, arrivals: 2 })
  },
)

test("nor would these attacks fail by themselves: without the guards they reach the host [S43]", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const pod = await lab.addPod()
  await lab.host.exec("sysctl", ["-qw", "net.ipv4.conf.br-lab.route_localnet=1"])
  await using service = await EchoPeer.start(lab.host, { address: "127.0.0.1", port: 9999 })
  await prepareAttack(pod)
  await askEcho(pod.namespace, { transport: "udp", address: "127.0.0.1", port: service.port })
  expect(await arrivals(lab, pod, "127.0.0.2")).toBe(4)
})

testEach("an interface of the container alone is guarded, too, for as long as one maps a port [S42]", async (lab) => {
  const ptp = {
    cniVersion: "1.1.0",
    name: "lab",
    type: "ptp",
    ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]] },
  }
  const pods = [await lab.host.addContainer(), await lab.host.addContainer()]
  const mapped = []
  for (const [at, pod] of pods.entries()) {
    const link = new Attachment(lab.host, pod, ptp)
    const portmap = {
      cniVersion: "1.1.0",
      name: "lab",
      type: "portmap",
      ...lab.backend.keys,
      prevResult: await link.add(),
    }
    const ports = new Attachment(lab.host, pod, portmap)
    const keys = { runtimeConfig: { portMappings: [{ ...web, hostPort: 8080 + at }] } }
    await ports.add(keys)
    mapped.push({ link, ports, keys })
  }
  const guards = async () => (await lab.host.exec("nft", ["list", "ruleset"])).stdout.match(/nor as if from/g)?.length
  const [first, second] = mapped
  await first?.ports.del(first.keys)
  await first?.link.del()
  expect(await guards()).toBe(1)
  await second?.ports.del(second.keys)
  expect(await guards()).toBeUndefined()
})

test("the guard of an interface whose setting is an administrator's does no harm to a mapping of theirs to 127.0.0.1", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const pod = await lab.addPod()
  await using service = await EchoPeer.start(lab.host, { address: "127.0.0.1", port: 9999 })
  const mapping = `table ip site { chain c { type nat hook prerouting priority -100; tcp dport 8081 dnat to 127.0.0.1:${service.port}; }\n}\n`
  await lab.host.exec("nft", ["-f", "-"], { input: mapping })
  await lab.host.exec("sysctl", ["-qw", "net.ipv4.conf.br-lab.route_localnet=1"])
  const guarded = async () => (await lab.host.exec("nft", ["list", "ruleset"])).stdout.includes("cni_hostports")
  expect(await guarded()).toBe(false)
  await succeed(pod.portmap.run("GC", { "cni.dev/valid-attachments": [], prevResult: undefined }))
  expect(await guarded()).toBe(true)
  await askEcho(pod.namespace, { transport: "tcp", address: gateway, port: 8081 })
})
