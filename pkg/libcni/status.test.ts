import { expect, test } from "bun:test"
import { pluginVersions, statusNetwork, validateNetwork } from "./status.ts"
import { failure, Lab, networkOf } from "./testing/lab.ts"

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

test.each(["", "0.1.0", "0.4.0", "1.0.0"])(
  "#225 STATUS of version %j succeeds and runs nothing",
  async (cniVersion) => {
    using lab = new Lab()
    lab.plugin("one", { STATUS: { code: 1 } })
    await statusNetwork(lab.runtime, networkOf([{ type: "one" }, { type: "gone" }], { cniVersion }))
    expect(lab.calls).toEqual([])
  },
)

test("STATUS of a malformed version is an error, and runs nothing", async () => {
  using lab = new Lab()
  lab.plugin("one")
  const network = networkOf([{ type: "one" }], { cniVersion: "x" })
  expect(await failure(statusNetwork(lab.runtime, network))).toMatchObject({ code: 6 })
  expect(lab.calls).toEqual([])
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
  expect(error).toMatchObject({
    code: 1,
    message: `[plugin old does not support config version "1.1.0"; it supports 0.4.0 failed to find plugin "gone" in path [${lab.binDir}]; "type" names it: install the plugin there, or add its directory to CNI_PATH]`,
  })
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
  lab.plugin("failing", {
    VERSION: { stdout: '{"code":4,"msg":"unknown CNI_COMMAND: VERSION","details":"x"}', code: 1 },
  })
  expect((await failure(pluginVersions(lab.runtime, "failing"))).message).toBe("unknown CNI_COMMAND: VERSION")
  const dummies = { netns: "dummy", ifname: "dummy", path: "dummy", id: "", args: "" }
  expect(lab.calls[0]).toMatchObject({ ...dummies, verb: "VERSION", stdin: { cniVersion: "1.1.0" } })
})
