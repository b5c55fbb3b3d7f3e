import { expect, test } from "bun:test"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { addNetwork } from "./add.ts"
import { readCache } from "./cache.ts"
import { checkEachPlugin, checkNetwork } from "./check.ts"
import { delNetwork } from "./del.ts"
import { attachmentOf, failure, Lab, networkOf } from "./testing/lab.ts"

// The cache file of both is "a-b-c-eth0": the names of an attachment are joined with "-", and may contain "-"
// themselves.
const theirs = {
  network: networkOf([{ type: "one" }], { name: "a" }),
  attachment: attachmentOf({ containerId: "b-c" }),
}
const ours = { network: networkOf([{ type: "one" }], { name: "a-b" }), attachment: attachmentOf({ containerId: "c" }) }
const owner = 'network "a", container "b-c", interface "eth0"'

/** Returns a lab in which another attachment has the file that our attachment would have. */
async function labOfAnother() {
  const lab = new Lab()
  lab.plugin("one", { ADD: { stdout: '{"cniVersion":"1.1.0","ips":[{"address":"192.0.2.9/24"}]}' } })
  await addNetwork(lab.runtime, theirs.network, theirs.attachment)
  const file = join(lab.results, "a-b-c-eth0")
  const content = readFileSync(file, "utf8")
  return { lab, isUntouched: () => readFileSync(file, "utf8") === content && readdirSync(lab.results).length === 1 }
}

test("the file of another attachment whose names read the same is known to be that", async () => {
  const { lab } = await labOfAnother()
  using _ = lab
  const key = { network: "a-b", containerId: "c", ifName: "eth0" }
  expect(readCache(lab.cacheDir, key)).toEqual({ state: "foreign", owner })
})

test.each([{ again: false }, { again: true }])(
  "ADD does not overwrite it: code 4, and no plugin runs: %o",
  async (how) => {
    const { lab, isUntouched } = await labOfAnother()
    using _ = lab
    expect(await failure(addNetwork(lab.runtime, ours.network, ours.attachment, { undo: true, ...how }))).toMatchObject(
      {
        code: 4,
        message: 'Cannot cache interface "eth0" of container "c" in network "a-b"',
        details: `its cache file is taken by ${owner}: use another container ID`,
      },
    )
    expect(lab.sequence).toEqual(["ADD one"])
    expect(isUntouched()).toBe(true)
  },
)

test("CHECK does not compare with it: code 4, and no plugin runs", async () => {
  const { lab } = await labOfAnother()
  using _ = lab
  for (const check of [checkNetwork, checkEachPlugin]) {
    const refusal = await failure(check(lab.runtime, ours.network, ours.attachment))
    const message = `Cannot check interface "eth0" of container "c" in network "a-b": its cache file belongs to ${owner}`
    expect(refusal).toMatchObject({ code: 4, message })
  }
  expect(lab.sequence).toEqual(["ADD one"])
})

test("DEL runs the plugins without its result, and leaves it", async () => {
  const { lab, isUntouched } = await labOfAnother()
  using _ = lab
  await delNetwork(lab.runtime, ours.network, ours.attachment)
  expect(lab.sequence).toEqual(["ADD one", "DEL one"])
  expect(lab.calls[1]).toMatchObject({ id: "c", stdin: { name: "a-b" } })
  expect(lab.calls[1]?.stdin).not.toHaveProperty("prevResult")
  expect(isUntouched()).toBe(true)
})

// The file name is "a-b-c-eth0" again, and one of the three names is the same in each.
test.each([
  ["network", { containerId: "b", ifName: "c-eth0" }],
  ["container", { network: "a-b-c" }],
  ["interface", { network: "a-b", containerId: "c" }],
] as const)("one name alone, the %s's, makes no attachment the same", (_, other) => {
  using lab = new Lab()
  const own = { network: "a", containerId: "b-c", ifName: "eth0" }
  const key = { ...own, ...other }
  mkdirSync(lab.results, { recursive: true })
  const names = { kind: "cniCacheV1", networkName: "a", containerId: "b-c", ifName: "eth0" }
  writeFileSync(join(lab.results, `${key.network}-${key.containerId}-${key.ifName}`), JSON.stringify(names))
  expect(readCache(lab.cacheDir, key)).toEqual({ state: "foreign", owner })
  if (key.network !== "a-b-c") expect(readCache(lab.cacheDir, own)).toMatchObject({ state: "valid" })
})
