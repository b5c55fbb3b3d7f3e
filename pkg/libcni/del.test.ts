import { expect, test } from "bun:test"
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { addNetwork } from "./add.ts"
import { cachedAttachments, readCache } from "./cache.ts"
import { delNetwork } from "./del.ts"
import type { Network } from "./network.ts"
import { attachmentOf, failure, Lab, networkOf, resultOf } from "./testing/lab.ts"

const chain = networkOf([{ type: "one" }, { type: "two" }])
const key = { network: "lab", containerId: "c1", ifName: "eth0" }

async function attached(network: Network = chain): Promise<Lab> {
  const lab = new Lab()
  lab.plugin("one")
  lab.plugin("two", { ADD: { stdout: JSON.stringify(resultOf("192.0.2.2/24", network.cniVersion)) } })
  await addNetwork(lab.runtime, network, attachmentOf())
  return lab
}

test("#207, #208 DEL runs last to first, every plugin with the cached final result", async () => {
  using lab = await attached()
  await delNetwork(lab.runtime, chain, attachmentOf())
  expect(lab.sequence.slice(2)).toEqual(["DEL two", "DEL one"])
  expect(lab.calls.slice(2).map((call) => call.stdin.prevResult)).toEqual([
    resultOf("192.0.2.2/24"),
    resultOf("192.0.2.2/24"),
  ])
})

test("#209 below configuration version 0.4.0 there is no prevResult", async () => {
  const old = networkOf([{ type: "two" }], { cniVersion: "0.3.1" })
  using lab = await attached(old)
  await delNetwork(lab.runtime, old, attachmentOf())
  expect(lab.calls.at(-1)?.stdin).not.toHaveProperty("prevResult")
  expect(readdirSync(lab.results)).toEqual([])
})

test("#210, #213 DEL without a cached result runs the plugins and succeeds, as often as wanted", async () => {
  using lab = new Lab()
  lab.plugin("one")
  lab.plugin("two")
  await delNetwork(lab.runtime, chain, attachmentOf({ netns: "" }))
  await delNetwork(lab.runtime, chain, attachmentOf({ netns: "" }))
  expect(lab.sequence).toEqual(["DEL two", "DEL one", "DEL two", "DEL one"])
})

test("#211 after a DEL nothing is cached", async () => {
  using lab = await attached()
  expect(readCache(lab.cacheDir, key).state).toBe("valid")
  await delNetwork(lab.runtime, chain, attachmentOf())
  expect(readCache(lab.cacheDir, key).state).toBe("absent")
  expect(cachedAttachments(lab.cacheDir)).toEqual([])
})

test("#212 a failing plugin does not stop the others, as it does upstream; all failures are reported, the cache stays", async () => {
  using lab = await attached()
  lab.plugin("two", { DEL: { stdout: '{"code":5,"msg":"first"}', code: 1 } })
  lab.plugin("one", { DEL: { stderr: "second", code: 3 } })
  const error = await failure(delNetwork(lab.runtime, chain, attachmentOf()))
  expect(String(error).split("\n")).toEqual([
    'plugin type="two" failed (delete): first',
    'plugin type="one" failed (delete): netplugin failed: "second": exit status 3',
  ])
  expect(error).toMatchObject({ code: 5 })
  expect(lab.sequence.slice(2)).toEqual(["DEL two", "DEL one"])
  expect(existsSync(join(lab.results, "lab-c1-eth0"))).toBe(true)
})

test("#194 a missing executable is an error, and the other plugins clean up all the same", async () => {
  using lab = await attached()
  rmSync(join(lab.binDir, "two"))
  const error = await failure(delNetwork(lab.runtime, chain, attachmentOf()))
  expect(error.message).toContain('plugin type="two" failed (delete): failed to find plugin "two"')
  expect(lab.sequence.slice(2)).toEqual(["DEL one"])
})

test("#205 an empty or torn cache file is not an obstacle, and is gone afterwards", async () => {
  for (const content of ["", "{", '{"kind":"cniCacheV1"}']) {
    using lab = await attached()
    writeFileSync(join(lab.results, "lab-c1-eth0"), content)
    await delNetwork(lab.runtime, chain, attachmentOf())
    expect(lab.calls.at(-1)?.stdin).not.toHaveProperty("prevResult")
    expect(readdirSync(lab.results)).toEqual([])
  }
})

test("#204 a cached result that cannot be converted is left out", async () => {
  using lab = await attached()
  writeFileSync(join(lab.results, "lab-c1-eth0"), '{"cniVersion":"7.0.0"}')
  await delNetwork(lab.runtime, chain, attachmentOf())
  expect(lab.calls.at(-1)?.stdin).not.toHaveProperty("prevResult")
})

test("the cache file of another attachment with the same joined name is not used and not removed", async () => {
  using lab = new Lab()
  lab.plugin("one")
  await addNetwork(lab.runtime, networkOf([{ type: "one" }], { name: "a-b" }), attachmentOf({ containerId: "c" }))
  await delNetwork(lab.runtime, networkOf([{ type: "one" }], { name: "a" }), attachmentOf({ containerId: "b-c" }))
  expect(lab.calls.at(-1)?.stdin).not.toHaveProperty("prevResult")
  expect(readdirSync(lab.results)).toEqual(["a-b-c-eth0"])
})

test("names that would lead out of the cache directory are refused", async () => {
  using lab = new Lab()
  expect(await failure(delNetwork(lab.runtime, chain, attachmentOf({ containerId: "../c" })))).toMatchObject({
    code: 4,
  })
  expect(await failure(delNetwork(lab.runtime, chain, attachmentOf({ ifName: "../e" })))).toMatchObject({ code: 4 })
})

test("DEL does not delete the namespace", async () => {
  using lab = await attached()
  const netns = join(lab.root, "netns")
  writeFileSync(netns, "")
  await delNetwork(lab.runtime, chain, attachmentOf({ netns }))
  expect(lab.calls.at(-1)?.netns).toBe(netns)
  expect(existsSync(netns)).toBe(true)
})

test("DEL works where no lock can be written", async () => {
  using lab = new Lab()
  lab.plugin("one")
  mkdirSync(lab.cacheDir)
  writeFileSync(join(lab.cacheDir, "locks"), "a file where the directory should be")
  await delNetwork(lab.runtime, networkOf([{ type: "one" }]), attachmentOf())
  expect(lab.sequence).toEqual(["DEL one"])
})
