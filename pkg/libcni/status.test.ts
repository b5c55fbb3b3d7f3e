import { expect, test } from "bun:test"
import { statusNetwork } from "./status.ts"
import { failure, Lab, networkOf } from "./testing/lab.ts"
import { pluginVersions, validateNetwork } from "./validate.ts"

const versions = (...supportedVersions: string[]) => ({
  VERSION: { stdout: JSON.stringify({ cniVersion: "1.1.0", supportedVersions }) },
})

test("#224 STATUS runs in order; the first error ends it and keeps its code", async () => {
  using lab = new Lab()
  lab.plugin("one")
  lab.plugin("two", { STATUS: { stdout: '{"code":50,"msg":"not ready"}', code: 1 } })
  lab.plugin("three")
  const error = await failure(
    statusNetwork(lab.runtime, networkOf([{ type: "one" }, { type: "two" }, { type: "three" }])),
  )
  expect(error).toMatchObject({ code: 50, message: "not ready" })
  expect(lab.sequence).toEqual(["STATUS one", "STATUS two"])
})

test("#225 below configuration version 1.1.0 STATUS runs nothing; a version that is none is an error", async () => {
  using lab = new Lab()
  await statusNetwork(lab.runtime, networkOf([{ type: "gone" }], { cniVersion: "1.0.0" }))
  expect(await failure(statusNetwork(lab.runtime, networkOf([{ type: "gone" }], { cniVersion: "x" })))).toMatchObject({
    code: 6,
  })
})

test("#226 validation reports every plugin that is missing or too old, and answers the enabled capabilities", async () => {
  using lab = new Lab()
  lab.plugin("new", versions("1.0.0", "1.1.0"))
  lab.plugin("old", versions("0.4.0"))
  const capabilities = { mac: true, ips: false }
  const network = networkOf([
    { type: "new", capabilities },
    { type: "new", capabilities },
  ])
  expect(await validateNetwork(lab.runtime, network)).toEqual(["mac"])
  const error = await failure(
    validateNetwork(lab.runtime, networkOf([{ type: "old" }, { type: "gone" }, { type: "new" }])),
  )
  expect(error.message).toMatch(/^\[.*old does not support config version "1\.1\.0".*failed to find plugin "gone".*\]$/)
})

test("#227 a network without a version needs plugins that speak 0.1.0", async () => {
  using lab = new Lab()
  lab.plugin("old", versions("0.1.0", "0.2.0"))
  expect(await validateNetwork(lab.runtime, networkOf([{ type: "old" }], { cniVersion: "" }))).toEqual([])
  lab.plugin("new", versions("1.1.0"))
  const error = await failure(validateNetwork(lab.runtime, networkOf([{ type: "new" }], { cniVersion: "" })))
  expect(error.message).toContain('"0.1.0"')
})

test("#157, #158, #159, #160 VERSION is asked with dummies; an old plugin may not know it, or leave the list out", async () => {
  using lab = new Lab()
  lab.plugin("first", { VERSION: { stdout: '{"code":4,"msg":"unknown CNI_COMMAND: VERSION"}', code: 1 } })
  lab.plugin("second", { VERSION: { stdout: '{"cniVersion":"0.2.0"}' } })
  lab.plugin("broken", { VERSION: { stdout: '{"cniVersion":"1.0.0"}' } })
  expect(await pluginVersions(lab.runtime, "first")).toEqual(["0.1.0"])
  expect(await pluginVersions(lab.runtime, "second")).toEqual(["0.1.0", "0.2.0"])
  expect((await failure(pluginVersions(lab.runtime, "broken"))).message).toContain(
    'answer of plugin "broken" to VERSION: its supportedVersions is missing',
  )
  const dummies = { netns: "dummy", ifname: "dummy", path: "dummy", id: "", args: "" }
  expect(lab.calls[0]).toMatchObject({ ...dummies, verb: "VERSION", stdin: { cniVersion: "1.1.0" } })
})
