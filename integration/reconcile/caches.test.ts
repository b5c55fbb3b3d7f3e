/** Tests which attachments `cni reconcile` finds: in the runtime's cache, in caches below it, and of delegates. */
import { expect, test } from "bun:test"
import { chmod, rename, rm } from "node:fs/promises"
import { podsNetwork } from "../cni/node-lab.ts"
import { madeFor, type Published, ReconcileLab } from "./reconcile-lab.ts"

const [bridge = {}, portmap = {}] = podsNetwork.plugins as readonly Record<string, unknown>[]
const flush = ({ host }: ReconcileLab) => host.exec("nft", ["flush", "ruleset"])
const both = (pod: Published) => [madeFor(pod, "bridge", "masquerade"), madeFor(pod, "portmap", "published ports")]

test("programs that attach by themselves keep caches below the runtime's: Multus its delegates, Firecracker each machine", async () => {
  await using lab = await ReconcileLab.create()
  const pods = (await lab.addPods(3)) as [Published, Published, Published]
  for (const [directory, { pod }] of [["multus", pods[1]] as const, ["vm-7f3a", pods[2]] as const])
    await lab.host.exec("sh", [
      "-ec",
      `cd /var/lib/cni; mkdir -m 700 -p ${directory}/results; mv results/pods-${pod.name}-eth0 ${directory}/results`,
    ])
  await flush(lab)
  await lab.expectNoTraffic(pods)
  const { restored } = await lab.reconcile()
  expect(restored).toHaveLength(6)
  for (const pod of pods) for (const item of both(pod)) expect(restored).toContainEqual(item)
  await lab.expectTraffic(pods)
  await lab.expectNothingToDo()
})

const dataDir = "/var/lib/cni/flannel"
const { type: _type, bridge: name, ipam: _ipam, ...delegate } = bridge
/** The network of flannel on a node for which flanneld has written the subnet file. */
const flannelNetwork = {
  ...podsNetwork,
  plugins: [{ type: "flannel", subnetFile: "/run/cni/subnet.env", delegate: { ...delegate, bridge: name } }, portmap],
}

async function createFlannelLab(): Promise<ReconcileLab> {
  const lab = await ReconcileLab.create(flannelNetwork)
  const lines = [
    "FLANNEL_NETWORK=10.85.0.0/16",
    "FLANNEL_SUBNET=10.85.0.1/24",
    "FLANNEL_MTU=1410",
    "FLANNEL_IPMASQ=true",
  ]
  await Bun.write(lab.host.file("/run/cni/subnet.env"), `${lines.join("\n")}\n`)
  return lab
}

test("flannel's delegate restores its objects on the host, from the configuration that flannel or the Go plugin has stored", async () => {
  await using lab = await createFlannelLab()
  const pods = (await lab.addPods(2)) as [Published, Published]
  const [byName, byContainer] = pods
  const file = (name: string) => lab.host.file(`${dataDir}/${name}`)
  await rename(file(`pods:${byContainer.pod.name}:eth0.json`), file(byContainer.pod.name))
  await flush(lab)
  await lab.host.exec("ip", ["link", "delete", "cni0"])
  const { restored, foreign } = await lab.reconcile()
  expect(foreign).toEqual([])
  expect(restored).toContainEqual({ plugin: "bridge", network: "pods", what: 'bridge "cni0"' })
  for (const item of [...both(byName), ...both(byContainer)]) expect(restored).toContainEqual(item)
  await lab.expectTraffic(pods)
  await lab.expectNothingToDo()
})

test("where flannel's record is gone, or others can change it, the rest of the chain comes back, and the reason is told [S143]", async () => {
  await using lab = await createFlannelLab()
  const pods = (await lab.addPods(2)) as [Published, Published]
  const [lost, whole] = pods
  await rm(lab.host.file(`${dataDir}/pods:${lost.pod.name}:eth0.json`))
  await flush(lab)
  const first = await lab.node.cni(["reconcile", "-o", "json"])
  expect(first).toMatchObject({
    exitCode: 1,
    stderr: `Cannot restore "pods/${lost.pod.name}/eth0": Cannot find the delegate's configuration in "${dataDir}"\n`,
  })
  const { restored } = JSON.parse(first.stdout)
  expect(restored).toEqual([madeFor(whole, "bridge", "masquerade"), ...pods.map((pod) => both(pod)[1])])
  await chmod(lab.host.file(dataDir), 0o777)
  await flush(lab)
  const second = await lab.node.cni(["reconcile", "-o", "json"])
  expect(second.exitCode).toBe(1)
  expect(second.stderr).toContain(`Cannot trust "${dataDir}": all users may write to "${dataDir}"`)
  expect(JSON.parse(second.stdout).restored).toEqual(pods.map((pod) => both(pod)[1]))
})
