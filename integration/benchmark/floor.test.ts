import { expect, test } from "bun:test"
import { join } from "node:path"
import { buildPrograms, programs } from "../../bench/programs.ts"
import { chainOf } from "../../bench/rows/chain.ts"
import { Node } from "../../bench/rows/node.ts"
import { type Change, diffSnapshots, expectUnchanged, type Snapshot, takeSnapshot } from "../lab/mod.ts"

await buildPrograms()

/** Returns a change without random names. */
const plain = ({ section, sign, line }: Change) =>
  `${section} ${sign} ${line}`
    .replaceAll(/vethfloor|veth[0-9a-f]{8}/g, "VETH")
    .replaceAll(/\b10\.88\.200\.20\d\b/g, "POD") // the chain gets the address after the last one
    .replaceAll(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC")
    .replaceAll(/bench\/\w+\/eth0/g, "OWNER")

const plainDifference = (before: Snapshot, after: Snapshot) => diffSnapshots(before, after).map(plain).sort()

test("the kernel floor leaves what the chain leaves, and takes all of it back", async () => {
  await using node = await Node.open({ name: "ours", directory: join(import.meta.dir, "../../dist/bin") }, chainOf(1))
  await node.populate(1)
  const pod = await node.host.addContainer()
  const floor = (verb: string) =>
    node.station.time({ command: [programs.floor, verb, pod.path, join(node.dataDir, "bench")], env: {}, input: "" })
  const state = async () => ({ host: await takeSnapshot(node.host), pod: await takeSnapshot(pod) })
  const before = await state()
  await floor("ADD")
  const byFloor = await state()
  await floor("DEL")
  const after = await state()
  await node.station.run([node.adds({ index: 0, containerId: "a", netns: pod.path })])
  const byChain = await state()
  expect(plainDifference(before.host, byFloor.host)).toEqual(plainDifference(before.host, byChain.host))
  expect(plainDifference(before.pod, byFloor.pod)).toEqual(plainDifference(before.pod, byChain.pod))
  expect(plainDifference(before.host, byFloor.host).length).toBeGreaterThan(5)
  expectUnchanged(before.host, after.host)
  // The deleted interface no longer has arp_notify and accept_dad; everything else is unchanged.
  expectUnchanged(before.pod, after.pod)
})
