import { expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { addNetwork } from "./add.ts"
import { CheckNotSupported, checkNetwork } from "./check.ts"
import { attachmentOf, failure, Lab, networkOf, resultOf } from "./testing/lab.ts"

const chain = networkOf([{ type: "one" }, { type: "two" }])

const refused = 'Cannot check interface "eth0" of container "c1" in network "lab"'

function labWith(cacheFile: string): Lab {
  const lab = new Lab()
  for (const type of ["one", "two"]) lab.plugin(type)
  mkdirSync(lab.results, { recursive: true })
  writeFileSync(join(lab.results, "lab-c1-eth0"), cacheFile)
  return lab
}

test("#200 below configuration version 0.4.0 there is no CHECK, which is an error of its own", async () => {
  using lab = new Lab()
  const error = await failure(
    checkNetwork(lab.runtime, networkOf([{ type: "one" }], { cniVersion: "0.3.1" }), attachmentOf()),
  )
  expect(error).toBeInstanceOf(CheckNotSupported)
  expect(error).toMatchObject({ code: 1 })
  expect(error.message).toBe('configuration version "0.3.1" does not support the CHECK command')
})

test("#200 a plugin's error with the same code and words is not taken for that one", async () => {
  using lab = labWith(JSON.stringify(resultOf("192.0.2.1/24")))
  const words = 'configuration version "1.1.0" does not support the CHECK command'
  lab.plugin("one", { CHECK: { stdout: JSON.stringify({ code: 1, msg: words }), code: 1 } })
  const error = await failure(checkNetwork(lab.runtime, chain, attachmentOf()))
  expect(error).toMatchObject({ code: 1, message: words })
  expect(error).not.toBeInstanceOf(CheckNotSupported)
})

test("#201 with disableCheck nothing runs, in any version", async () => {
  using lab = new Lab()
  for (const cniVersion of ["1.1.0", "0.3.1"]) {
    await checkNetwork(lab.runtime, networkOf([{ type: "gone" }], { disableCheck: true, cniVersion }), attachmentOf())
  }
  expect(lab.calls).toEqual([])
})

test("#202 every plugin gets the cached final result, in forward order", async () => {
  using lab = new Lab()
  lab.plugin("one", { ADD: { stdout: JSON.stringify(resultOf("192.0.2.1/24")) } })
  lab.plugin("two", { ADD: { stdout: JSON.stringify(resultOf("192.0.2.2/24")) } })
  await addNetwork(lab.runtime, chain, attachmentOf())
  await checkNetwork(lab.runtime, chain, attachmentOf())
  const checks = lab.calls.filter((call) => call.verb === "CHECK")
  expect(checks.map((call) => call.plugin)).toEqual(["one", "two"])
  for (const call of checks) expect(call.stdin.prevResult).toEqual(resultOf("192.0.2.2/24"))
})

test("#203, #204 a bare result of an old library is accepted and converted", async () => {
  using lab = labWith(JSON.stringify(resultOf("192.0.2.1/24", "0.4.0")))
  await checkNetwork(lab.runtime, chain, attachmentOf())
  expect(lab.calls[0]?.stdin.prevResult).toEqual({ cniVersion: "1.1.0", ips: [{ address: "192.0.2.1/24" }] })
})

test("#203, #204 of a cache file only the result is passed on, converted when it is of another version", async () => {
  const names = { kind: "cniCacheV1", containerId: "c1", ifName: "eth0", networkName: "lab", netns: "/run/netns/c1" }
  using lab = labWith(JSON.stringify({ ...names, result: resultOf("192.0.2.1/24", "0.4.0") }))
  await checkNetwork(lab.runtime, chain, attachmentOf())
  for (const { stdin } of lab.calls) {
    expect(stdin).toMatchObject({ name: "lab", cniVersion: "1.1.0", prevResult: resultOf("192.0.2.1/24") })
    expect(Object.keys(stdin).sort()).toEqual(["cniVersion", "name", "prevResult", "type"])
  }
})

test("#204 a result that cannot be converted fails the CHECK", async () => {
  using lab = labWith('{"cniVersion":"7.0.0"}')
  const error = await failure(checkNetwork(lab.runtime, chain, attachmentOf()))
  expect(error).toMatchObject({
    code: 6,
    message: `${refused}: failed to convert cached result to config version "1.1.0"`,
    details: expect.stringContaining("7.0.0"),
  })
})

test("#44, #205 a torn cache file, one without a result, or none, fails the CHECK before a plugin runs, and none is code 3", async () => {
  const names = '"kind":"cniCacheV1","containerId":"c1","ifName":"eth0"'
  const broken = (lab: Lab) => `the cached result is broken: "${join(lab.results, "lab-c1-eth0")}"`
  for (const [content, reason] of [
    ["", (lab: Lab) => `${broken(lab)} does not hold a JSON object`],
    ["{", (lab: Lab) => `${broken(lab)} does not hold a JSON object`],
    [`{${names}}`, (lab: Lab) => `${broken(lab)} lacks the names of its attachment`],
    [`{${names},"networkName":"lab"}`, () => "its cache file holds no result"],
  ] as const) {
    using lab = labWith(content)
    const message = `${refused}: ${reason(lab)}`
    expect(await failure(checkNetwork(lab.runtime, chain, attachmentOf()))).toMatchObject({ code: 6, message })
    expect(lab.calls).toEqual([])
  }
  using empty = new Lab()
  expect(await failure(checkNetwork(empty.runtime, chain, attachmentOf()))).toMatchObject({
    code: 4,
    message: `${refused}: no cached result: it was not added, or is already deleted`,
  })
})

test("#206 the first plugin that says no ends it, with its own error", async () => {
  using lab = labWith(JSON.stringify(resultOf("192.0.2.1/24")))
  lab.plugin("one", { CHECK: { stdout: '{"code":100,"msg":"not as it was"}', code: 1 } })
  const error = await failure(checkNetwork(lab.runtime, chain, attachmentOf()))
  expect([String(error), lab.sequence]).toEqual(["not as it was", ["CHECK one"]])
})
