import { expect, test } from "bun:test"
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { addNetwork } from "./add.ts"
import { cachedAttachments } from "./cache.ts"
import { delNetwork } from "./del.ts"
import { gcNetwork } from "./gc.ts"
import { attachmentOf, failure, Lab, networkOf, waitsWhileExists } from "./testing/lab.ts"

const chain = networkOf([{ type: "one" }, { type: "two" }])
const c1 = { containerId: "c1", ifName: "eth0" }

/** Returns a lab where c1 and c2 are attached to "lab" with one plugin, and c3 to another network. */
async function labOfThree(): Promise<Lab> {
  const lab = new Lab()
  for (const type of ["one", "two"]) lab.plugin(type)
  for (const containerId of ["c1", "c2"]) {
    await addNetwork(
      lab.runtime,
      networkOf([{ type: "one" }]),
      attachmentOf({ containerId, netns: `/run/netns/${containerId}` }),
    )
  }
  await addNetwork(lab.runtime, networkOf([{ type: "one" }], { name: "other" }), attachmentOf({ containerId: "c3" }))
  return lab
}

test("#218 with disableGC nothing happens", async () => {
  using lab = await labOfThree()
  await gcNetwork(lab.runtime, networkOf([{ type: "one" }], { disableGC: true }), [])
  expect(lab.calls).toHaveLength(3)
})

test("#219 what is not valid is deleted as it was added, then every plugin gets the valid set; other networks stay", async () => {
  using lab = await labOfThree()
  await gcNetwork(lab.runtime, chain, [c1])
  const calls = lab.calls.slice(3)
  expect(calls.map(({ verb, plugin, id, netns }) => `${verb} ${plugin} ${id} ${netns}`.trim())).toEqual([
    "DEL one c2 /run/netns/c2",
    "GC one",
    "GC two",
  ])
  for (const { stdin } of calls.slice(1)) {
    expect(stdin["cni.dev/valid-attachments"]).toEqual([{ containerID: "c1", ifname: "eth0" }])
    expect(stdin["cni.dev/attachments"]).toEqual([{ containerID: "c1", ifname: "eth0" }])
  }
  expect(cachedAttachments(lab.cacheDir).map((one) => one.containerId)).toEqual(["c1", "c3"])
})

test("#220 below configuration version 1.1.0 the stale ones are deleted and no plugin is asked for GC", async () => {
  using lab = await labOfThree()
  await gcNetwork(lab.runtime, networkOf([{ type: "one" }], { cniVersion: "1.0.0" }), [c1])
  expect(lab.sequence.slice(3)).toEqual(["DEL one"])
})

test("#221 failures do not stop it, and all are reported", async () => {
  using lab = await labOfThree()
  lab.plugin("one", { DEL: { code: 1, stderr: "no" }, GC: { code: 1, stdout: '{"code":5,"msg":"not this"}' } })
  const error = await failure(gcNetwork(lab.runtime, chain, [c1]))
  expect(error).toMatchObject({
    code: 0,
    message:
      'Cannot delete stale "c2/eth0": plugin type="one" failed (delete): netplugin failed: "no": exit status 1\n' +
      'plugin type="one" failed (gc): not this',
  })
  expect(lab.sequence.slice(3)).toEqual(["DEL one", "GC one", "GC two"])
})

test("#222 a cache that cannot be listed is an error, and nothing is deleted", async () => {
  using lab = new Lab()
  lab.plugin("one")
  mkdirSync(lab.cacheDir)
  writeFileSync(lab.results, "a file where the directory should be")
  expect(await failure(gcNetwork(lab.runtime, networkOf([{ type: "one" }]), []))).toMatchObject({ code: 5 })
  expect(lab.calls).toEqual([])
  rmSync(lab.results)
})

test("#223 GC waits for an ADD that is under way, and a DEL waits for GC", async () => {
  using lab = new Lab()
  const gate = join(lab.root, "gate")
  lab.plugin("one", { ADD: { stdout: "{}", script: waitsWhileExists(gate) } })
  const network = networkOf([{ type: "one" }])
  await addNetwork(lab.runtime, network, attachmentOf({ containerId: "c2" }))
  writeFileSync(gate, "")
  const add = addNetwork(lab.runtime, network, attachmentOf())
  while (lab.calls.length < 2) await Bun.sleep(1)
  const collection = gcNetwork(lab.runtime, network, [c1, { ...c1, containerId: "c2" }])
  while (!existsSync(join(lab.cacheDir, "locks/.gc"))) await Bun.sleep(1)
  const del = delNetwork(lab.runtime, network, attachmentOf({ containerId: "c2" }))
  expect(lab.sequence).toEqual(["ADD one", "ADD one"])
  rmSync(gate)
  await Promise.all([add, collection, del])
  expect(lab.sequence.slice(2)).toEqual(["GC one", "DEL one"])
})

test("a function is asked for the valid set; an absent one is refused and nothing is deleted", async () => {
  using lab = await labOfThree()
  await gcNetwork(lab.runtime, networkOf([{ type: "one" }]), () => [c1, { ...c1, containerId: "c2" }])
  expect(lab.sequence.slice(3)).toEqual(["GC one"])
  const unknown: () => readonly (typeof c1)[] = () => JSON.parse("null")
  expect(await failure(gcNetwork(lab.runtime, chain, unknown))).toMatchObject({
    code: 4,
    message: "Cannot collect garbage: valid set unknown",
  })
})
