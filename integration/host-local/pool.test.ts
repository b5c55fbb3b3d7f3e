import { expect, test } from "bun:test"
import { Attachment, answering, connect, HostNamespace, newest, runTraced, succeed } from "../lab/mod.ts"

/** Writes the file of pool "pods" as the agent of a node does. */
async function ownBlocks(host: HostNamespace, blocks: readonly string[], blocks6: readonly string[]): Promise<void> {
  const common = { draining: [], reserved: [] }
  const sets = [
    { prefix: "10.64.0.0/16", blockLength: 29, blocks, ...common },
    { prefix: "fd00:64::/48", blockLength: 120, blocks: blocks6, ...common },
  ]
  const machineId = await host.tryExec("cat", ["/etc/machine-id"])
  const node = { name: host.name, uid: host.name, machineId: machineId.stdout.trim() }
  const routes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }]
  const store = "/var/lib/cni/networks/pods"
  const body = JSON.stringify({ version: 1, pool: "pods", epoch: 1, node, store, sets, routes, fixed: {} }).slice(0, -1)
  const text = `${body},"checksum":"${Bun.hash.crc32(body).toString(16).padStart(8, "0")}"}`
  await host.exec("sh", ["-c", `mkdir -p /var/lib/cni/pools && echo '${text}' >/var/lib/cni/pools/pods.json`])
}

const network = {
  cniVersion: newest,
  name: "pods",
  type: "bridge",
  bridge: "cni0",
  isGateway: true,
  ipam: { type: "host-local", pool: "pods" },
}

test("containers of two nodes, in blocks of one pool, reach each other", async () => {
  await using one = await HostNamespace.create("one")
  await using two = await HostNamespace.create("two")
  await connect(
    { namespace: one, link: "uplink", addresses: ["192.0.2.1/24", "2001:db8::1/64"] },
    { namespace: two, link: "uplink", addresses: ["192.0.2.2/24", "2001:db8::2/64"] },
  )
  await ownBlocks(one, ["10.64.0.0/29", "10.64.0.16/29"], ["fd00:64::/120"])
  await ownBlocks(two, ["10.64.0.8/29"], ["fd00:64::100/120"])
  const routes: [HostNamespace, string, string][] = [
    [one, "10.64.0.8/29", "192.0.2.2"],
    [one, "fd00:64::100/120", "2001:db8::2"],
    [two, "10.64.0.0/29", "192.0.2.1"],
    [two, "10.64.0.16/29", "192.0.2.1"],
    [two, "fd00:64::/120", "2001:db8::1"],
  ]
  for (const [host, to, via] of routes) await host.exec("ip", ["route", "add", to, "via", via])
  const attach = async (host: HostNamespace) => {
    const pod = await host.addContainer()
    const { ips } = await new Attachment(host, pod, network).add()
    return { pod, addresses: ips.map(({ address }) => address.split("/")[0] ?? "") }
  }
  const far = await attach(two)
  const near = [] // six containers: the first block has room for five
  for (let count = 0; count < 6; count++) near.push(await attach(one))
  expect([...near, far].map(({ addresses: [first] }) => first)).toEqual([
    ...[2, 3, 4, 5, 6, 18].map((host) => `10.64.0.${host}`),
    "10.64.0.10",
  ])
  const others = [...(near[5]?.addresses ?? []), ...far.addresses]
  expect(others).toHaveLength(4)
  expect(await answering(near[0]?.pod ?? one, others, others)).toEqual(others)
})

test("no verb opens a socket", async () => {
  await using host = await HostNamespace.create()
  await ownBlocks(host, ["10.64.0.0/29"], ["fd00:64::/120"])
  const attachment = new Attachment(host, await host.addContainer(), { ...network, type: "host-local" })
  const sockets = ["trace=socket,socketpair,connect"]
  const added = await runTraced(attachment, "ADD", sockets)
  const prevResult = (await succeed(Promise.resolve(added.output))).json as object
  const checked = await runTraced(attachment, "CHECK", sockets, { prevResult })
  const deleted = await runTraced(attachment, "DEL", sockets)
  const status = await runTraced(attachment, "STATUS", sockets)
  for (const { output, text } of [added, checked, deleted, status]) expect([output.exitCode, text]).toEqual([0, ""])
})
