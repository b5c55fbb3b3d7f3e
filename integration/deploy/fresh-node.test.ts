/**
 * Tests that the containers of deploy/kubernetes set up a working pod network on a node where nothing was ever
 * installed.
 */
import { expect, test } from "bun:test"
import { pluginNames } from "../../suite/plugins.ts"
import { addressesOf, askEcho, connectOutside, EchoPeer, isOfMachine, ping, waitFor } from "../lab/mod.ts"
import { apiEnv, NodeApi } from "./api.ts"
import { readDaemonSet } from "./manifests.ts"
import { FreshNode } from "./node.ts"

const places = ["/opt/cni/bin", "/etc/cni/net.d", "/run/cni", "/var/lib/cni"]
/** Returns a Node object like that of kubelet and the controller of ranges. */
const nodeObject = (number: number, addresses: readonly string[]) => ({
  metadata: { name: `node-${number}` },
  spec: { podCIDRs: [`10.244.${number}.0/24`, `fd00:10:244:${number}::/64`] },
  status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
})

test("a fresh node gets plugins and configuration, its range, pods, and its rules back; and is left clean [S182]", async () => {
  const { spec } = (await readDaemonSet()).spec.template
  await using node = await FreshNode.create(spec)
  const { host } = node
  for (const path of places) expect(await node.list(path)).toEqual([])

  const installed = await node.run("install")
  expect({ exitCode: installed.exitCode, stderr: installed.stderr }).toMatchObject({ exitCode: 0 })
  expect(await node.list("/opt/cni/bin")).toEqual([...pluginNames, "cni", "cnitool"].sort())
  expect(await node.list("/etc/cni/net.d")).toEqual(["10-pods.conflist"])

  // The agent has not written the node's range yet.
  const [pod, other] = [await host.addContainer(), await host.addContainer()]
  await using peer = await EchoPeer.start(pod)
  const ports = JSON.stringify({ portMappings: [{ hostPort: 8080, containerPort: peer.port, protocol: "tcp" }] })
  const add = () => node.cni(["add", "pods", pod.path], { CAP_ARGS: ports })
  expect(await add()).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("/run/cni/ranges/pods.json") })

  // The machine at the other end of the uplink acts as the second node. It has addresses of pods in its range.
  const outside = await connectOutside(host, "node-2")
  const links = [
    ["203.0.113.1", "2001:db8:113::1"],
    ["203.0.113.9", "2001:db8:113::9"],
  ] as const
  for (const via of links[1]) await host.exec("ip", ["route", "add", "default", "via", via])
  const remote = ["10.244.2.2", "fd00:10:244:2::2"]
  for (const address of remote) await outside.exec("ip", ["address", "add", address, "dev", "lo"])
  for (const [at, range] of ["10.244.1.0/24", "fd00:10:244:1::/64"].entries())
    await outside.exec("ip", ["route", "add", range, "via", links[0][at] ?? ""])
  await using api = await NodeApi.start(
    host,
    links.map((addresses, at) => nodeObject(at + 1, addresses)),
  )
  await node.writeAccount("ca.crt", api.ca)
  await node.writeAccount("token", "the token")
  const agent = await node.start("agent", { NODE_NAME: "node-1", HOST_IP: "127.0.0.1", ...apiEnv })
  const listener = await node.start("reconcile")
  const ready = () => host.tryExec("busybox", ["wget", "-q", "-O", "-", "http://127.0.0.1:9817/readyz"])
  const isReady = async () => {
    if (agent.exitCode !== null) throw new Error(await node.logOf("agent"))
    return (await ready()).exitCode === 0
  }
  await waitFor(isReady, "the agent to be ready")
  expect(await node.list("/run/cni/ranges")).toEqual(["pods.json"])

  expect(await add()).toMatchObject({ exitCode: 0 })
  expect(await node.cni(["add", "pods", other.path])).toMatchObject({ exitCode: 0 })
  expect(await addressesOf(pod, "eth0")).toEqual(expect.arrayContaining(["10.244.1.2/24", "fd00:10:244:1::2/64"]))
  for (const address of ["10.244.1.2", "fd00:10:244:1::2"]) expect(await ping(other, address)).toBe(true)
  // A pod of the other node sees the pod's own address. Machines outside the cluster see the node's address.
  await using far = await EchoPeer.start(outside)
  const seenAt = async (address: string) =>
    (await askEcho(pod, { transport: "tcp", address, port: far.port })).from.address.replace("::ffff:", "")
  expect(await Promise.all([...remote, ...links[1]].map(seenAt))).toEqual([
    "10.244.1.2",
    "fd00:10:244:1::2",
    ...links[0],
  ])
  const routes = await host.json<{ dst: string; gateway?: string }[]>("ip", ["-j", "route", "show", "proto", "73"])
  expect(routes).toContainEqual(expect.objectContaining({ dst: "10.244.2.0/24", gateway: "203.0.113.9" }))

  const answers = () => askEcho(outside, { transport: "tcp", address: "203.0.113.1", port: 8080 })
  expect((await answers()).from.address).toContain("203.0.113.9")

  // The listener restores what the host loses: rules, the bridge, settings.
  await host.exec("nft", ["flush", "ruleset"])
  await host.exec("ip", ["link", "delete", "cni0"])
  await host.exec("sysctl", ["-w", "net.ipv4.ip_forward=0"])
  const isBack = async () => (await host.tryExec("sysctl", ["-n", "net.ipv4.ip_forward"])).stdout === "1\n"
  await waitFor(isBack, "the listener to restore the host")
  await waitFor(async () => (await answers()).from.address.includes("203.0.113.9"), "the published port to answer")

  // The check in README.md, for which the tool enters the namespaces of pods.
  const { stdout } = await node.run("reconcile", ["doctor", "--json"])
  const findings = (JSON.parse(stdout) as { findings: { rule: string }[] }).findings.map(({ rule }) => rule)
  expect(findings.filter((rule) => !isOfMachine(rule))).toEqual([])

  // The uninstallation in README.md, which runs in the running pod.
  const uninstall = () => node.run("reconcile", ["install", "--bin-dir=/host/bin", "--uninstall"])
  expect(await uninstall()).toMatchObject({ exitCode: 3 }) // refused while pods are attached
  expect(await node.list("/etc/cni/net.d")).toEqual([])
  for (const { path } of [pod, other]) expect(await node.cni(["del", "pods", path])).toMatchObject({ exitCode: 0 })
  expect(await uninstall()).toMatchObject({ exitCode: 0 })
  expect(await node.list("/opt/cni/bin")).toEqual([])
  expect([agent.exitCode, listener.exitCode]).toEqual([null, null])
})
