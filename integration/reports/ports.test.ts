/** Tests public bug reports about published ports: the reported steps, and the required outcome. */
import { expect, test } from "bun:test"
import {
  Attachment,
  askEcho,
  bridgeNetwork,
  EchoPeer,
  HostNamespace,
  hasFeature,
  newest,
  succeed,
  writeSysctl,
} from "../lab/mod.ts"

/** Creates a container on a bridge without hairpin mode, and runs portmap for it. */
async function addPod(host: HostNamespace, portMappings: readonly object[]) {
  const pod = await host.addContainer()
  const keys = { isDefaultGateway: true, hairpinMode: false }
  const prevResult = await new Attachment(host, pod, bridgeNetwork(keys)).add()
  const config = { cniVersion: newest, name: "lab", type: "portmap", runtimeConfig: { portMappings }, prevResult }
  return { pod, portmap: new Attachment(host, pod, config) }
}

test("nomad#24648: without hairpin mode a container reaches another one by its host port", async () => {
  const settings = hasFeature("br_netfilter") ? ["0", "1"] : [undefined]
  for (const filtered of settings) {
    await using host = await HostNamespace.create()
    if (filtered) await writeSysctl(host, "net/bridge/bridge-nf-call-iptables", filtered)
    const { pod, portmap } = await addPod(host, [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }])
    const { pod: other } = await addPod(host, [])
    await portmap.add()
    await using _peer = await EchoPeer.start(pod, { port: 80 })
    await askEcho(other, { transport: "tcp", address: "10.22.0.1", port: 8080 })
  }
})

test("podman#1357: 10,000 UDP ports are mapped, checked and taken back with 1024 descriptors", async () => {
  await using host = await HostNamespace.create()
  const mappings = Array.from({ length: 10_000 }, (_, at) => ({
    hostPort: 20_000 + at,
    containerPort: 20_000 + at,
    protocol: "udp",
  }))
  const { pod, portmap } = await addPod(host, mappings)
  const limited = { under: ["prlimit", "--nofile=1024"] }
  await succeed(portmap.run("ADD", {}, limited))
  for (const port of [20_000, 29_999]) {
    await using _peer = await EchoPeer.start(pod, { port })
    await askEcho(host, { transport: "udp", address: "10.22.0.1", port })
  }
  await succeed(portmap.run("CHECK", {}, limited))
  await succeed(portmap.run("DEL", {}, limited))
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).not.toContain(pod.name)
})

test("containerd#4321: an SCTP port is mapped beside a TCP port of the same number", async () => {
  await using host = await HostNamespace.create()
  const mapping = (protocol: string, containerPort: number) => ({ hostPort: 8080, containerPort, protocol })
  const { pod, portmap } = await addPod(host, [mapping("tcp", 80), mapping("sctp", 81)])
  await portmap.add()
  await succeed(portmap.run("CHECK"))
  const { stdout } = await host.exec("nft", ["list", "map", "ip", "cni_hostports", "ports"])
  const owner = `lab/${pod.name}/eth0`
  expect(stdout).toContain(`tcp . 8080 comment "${owner}" : 10.22.0.2 . 80`)
  expect(stdout).toContain(`sctp . 8080 comment "${owner}" : 10.22.0.2 . 81`)
  await portmap.del()
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).not.toContain(pod.name)
})
