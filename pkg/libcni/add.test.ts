import { expect, test } from "bun:test"
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { addNetwork } from "./add.ts"
import { delNetwork } from "./del.ts"
import { attachmentOf, failure, Lab, networkOf, resultOf } from "./testing/lab.ts"

test("#189 plugins run in order, each with the result of the one before, unknown keys included", async () => {
  using lab = new Lab()
  const first = { ...resultOf("192.0.2.1/24"), custom: { kept: true } }
  lab.plugin("one", { ADD: { stdout: JSON.stringify(first) } })
  lab.plugin("two", { ADD: { stdout: JSON.stringify(resultOf("192.0.2.2/24")) } })
  const result = await addNetwork(lab.runtime, networkOf([{ type: "one" }, { type: "two" }]), attachmentOf())
  expect(lab.sequence).toEqual(["ADD one", "ADD two"])
  expect(lab.calls.map((call) => call.stdin.prevResult)).toEqual([undefined, first])
  expect<object>(result).toEqual(resultOf("192.0.2.2/24"))
})

test("#142, #190 a request has the network's name and version, and the call all six variables", async () => {
  using lab = new Lab()
  lab.plugin("one")
  const attachment = attachmentOf({
    args: [
      ["IgnoreUnknown", "1"],
      ["A", "b"],
    ],
  })
  await addNetwork(lab.runtime, networkOf([{ type: "one", name: "x" }], { cniVersion: "0.4.0" }), attachment)
  expect(lab.calls).toEqual([
    {
      plugin: "one",
      verb: "ADD",
      id: "c1",
      netns: "/run/netns/c1",
      ifname: "eth0",
      args: "IgnoreUnknown=1;A=b",
      path: lab.binDir,
      stdin: { type: "one", name: "lab", cniVersion: "0.4.0" },
    },
  ])
})

test("#191 a failing plugin ends the chain; its error names it and keeps its code; nothing is cached", async () => {
  using lab = new Lab()
  lab.plugin("one")
  lab.plugin("two", { ADD: { stdout: '{"code":11,"msg":"busy","details":"later"}', code: 1 } })
  lab.plugin("three")
  const network = networkOf([{ type: "one" }, { type: "two", name: "second" }, { type: "three" }])
  const error = await failure(addNetwork(lab.runtime, network, attachmentOf()))
  expect(String(error)).toBe('plugin type="two" name="second" failed (add): busy; later')
  expect(error).toMatchObject({ code: 11 })
  expect(lab.sequence).toEqual(["ADD one", "ADD two"])
  expect(readdirSync(lab.results)).toEqual([])
})

test("an ADD that is told to stop after its last plugin keeps nothing, and neither does a DEL then lose what is cached", async () => {
  using lab = new Lab()
  const streams = { stdout: "{}", stderr: "done" }
  lab.plugin("one", { ADD: streams, DEL: { stderr: "done" } })
  const network = networkOf([{ type: "one" }])
  const stopped = () => {
    const stop = new AbortController()
    return { ...lab.runtime, signal: stop.signal, stderr: () => stop.abort(new Error("told to stop")) }
  }
  expect(await failure(addNetwork(stopped(), network, attachmentOf()))).toMatchObject({
    code: 11,
    details: "told to stop",
  })
  expect(readdirSync(lab.results)).toEqual([])
  await addNetwork(lab.runtime, network, attachmentOf())
  expect(await failure(delNetwork(stopped(), network, attachmentOf()))).toMatchObject({
    code: 11,
    details: "told to stop",
  })
  expect(readdirSync(lab.results)).toEqual(["lab-c1-eth0"])
})

test("#192 an undo that fails as well is told on stderr, and the error is that of ADD", async () => {
  using lab = new Lab()
  const failing = (msg: string) => ({ stdout: JSON.stringify({ code: 7, msg }), code: 1 })
  lab.plugin("one", { ADD: failing("no ADD"), DEL: failing("no DEL") })
  const error = await failure(addNetwork(lab.runtime, networkOf([{ type: "one" }]), attachmentOf(), { undo: true }))
  expect(error.message).toBe('plugin type="one" failed (add): no ADD')
  expect(lab.stderr).toBe('Cannot undo the failed ADD completely: plugin type="one" failed (delete): no DEL\n')
})

test("#192 with undo, a failed ADD is followed by DEL for all plugins, last to first", async () => {
  using lab = new Lab()
  for (const type of ["one", "three"]) lab.plugin(type)
  lab.plugin("two", { ADD: { code: 1 } })
  const network = networkOf([{ type: "one" }, { type: "two" }, { type: "three" }])
  await failure(addNetwork(lab.runtime, network, attachmentOf(), { undo: true }))
  expect(lab.sequence).toEqual(["ADD one", "ADD two", "DEL three", "DEL two", "DEL one"])
})

test("#192 without undo, the DEL that the caller owes reaches all plugins too", async () => {
  using lab = new Lab()
  for (const type of ["one", "three"]) lab.plugin(type)
  lab.plugin("two", { ADD: { code: 1 } })
  const network = networkOf([{ type: "one" }, { type: "two" }, { type: "three" }])
  await failure(addNetwork(lab.runtime, network, attachmentOf()))
  expect(lab.sequence).toEqual(["ADD one", "ADD two"])
  await delNetwork(lab.runtime, network, attachmentOf())
  expect(lab.sequence.slice(2)).toEqual(["DEL three", "DEL two", "DEL one"])
})

test("#193 invalid names are refused before a plugin runs: codes 4, 7 and 4", async () => {
  using lab = new Lab()
  lab.plugin("one")
  const network = networkOf([{ type: "one" }])
  const codes = [
    await failure(addNetwork(lab.runtime, network, attachmentOf({ containerId: "../c" }))),
    await failure(addNetwork(lab.runtime, { ...network, name: "a/b" }, attachmentOf())),
    await failure(addNetwork(lab.runtime, network, attachmentOf({ ifName: "a b" }))),
  ]
  expect(codes).toMatchObject([{ code: 4 }, { code: 7 }, { code: 4 }])
  expect(lab.calls).toEqual([])
})

test("#194 a missing executable is noticed before the first plugin runs", async () => {
  using lab = new Lab()
  lab.plugin("one")
  const error = await failure(addNetwork(lab.runtime, networkOf([{ type: "one" }, { type: "gone" }]), attachmentOf()))
  expect(error.message).toContain('failed to find plugin "gone" in path')
  expect(lab.calls).toEqual([])
})

test("#195 the cache file has upstream's layout, and one key that upstream ignores", async () => {
  using lab = new Lab()
  lab.plugin("one", { ADD: { stdout: JSON.stringify(resultOf("192.0.2.1/24")) } })
  const network = networkOf([{ type: "one" }])
  const attachment = attachmentOf({ args: [["IgnoreUnknown", "1"]], capabilityArgs: { mac: "0a:00:00:00:00:01" } })
  await addNetwork(lab.runtime, network, attachment)
  expect(readdirSync(lab.results)).toEqual(["lab-c1-eth0"])
  expect(JSON.parse(readFileSync(join(lab.results, "lab-c1-eth0"), "utf8"))).toEqual({
    kind: "cniCacheV1",
    containerId: "c1",
    config: Buffer.from(network.bytes).toString("base64"),
    configComplete: true,
    ifName: "eth0",
    networkName: "lab",
    netns: "/run/netns/c1",
    cniArgs: [["IgnoreUnknown", "1"]],
    capabilityArgs: { mac: "0a:00:00:00:00:01" },
    result: resultOf("192.0.2.1/24"),
  })
})

test("#196 a cache that cannot be written fails the ADD before a plugin runs", async () => {
  using lab = new Lab()
  lab.plugin("one")
  mkdirSync(lab.cacheDir)
  writeFileSync(lab.results, "a file where the directory should be")
  const error = await failure(addNetwork(lab.runtime, networkOf([{ type: "one" }]), attachmentOf()))
  expect(error).toMatchObject({ code: 5, message: `Cannot write cache file "${join(lab.results, "lab-c1-eth0")}"` })
  expect(lab.calls).toEqual([])
})

test("#197 two interfaces of one container in one network have two cache files", async () => {
  using lab = new Lab()
  lab.plugin("one")
  const network = networkOf([{ type: "one" }])
  await addNetwork(lab.runtime, network, attachmentOf())
  await addNetwork(lab.runtime, network, attachmentOf({ ifName: "net1" }))
  expect(readdirSync(lab.results).sort()).toEqual(["lab-c1-eth0", "lab-c1-net1"])
})

test("#143, #144, #228 a result without a version is the configuration's, 0.1.0 when that has none; DEL needs no more", async () => {
  using lab = new Lab()
  lab.plugin("old", { ADD: { stdout: '{"ip4":{"ip":"192.0.2.1/24"}}' } })
  const network = networkOf([{ type: "old" }], { cniVersion: "" })
  expect(await addNetwork(lab.runtime, network, attachmentOf())).toEqual({
    ip4: { ip: "192.0.2.1/24" },
    cniVersion: "0.1.0",
  })
  await delNetwork(lab.runtime, network, attachmentOf())
  expect(lab.sequence).toEqual(["ADD old", "DEL old"])
  expect(readdirSync(lab.results)).toEqual([])
})

test("#145 null is an empty result in the configuration's version", async () => {
  using lab = new Lab()
  lab.plugin("one", { ADD: { stdout: "null" } })
  expect(await addNetwork(lab.runtime, networkOf([{ type: "one" }]), attachmentOf())).toEqual({ cniVersion: "1.1.0" })
})

test("a result in another version is converted to the network's", async () => {
  using lab = new Lab()
  lab.plugin("old", { ADD: { stdout: JSON.stringify(resultOf("192.0.2.1/24", "0.4.0")) } })
  const result = await addNetwork(lab.runtime, networkOf([{ type: "old" }]), attachmentOf())
  expect(result).toEqual({ cniVersion: "1.1.0", ips: [{ address: "192.0.2.1/24" }] })
})

test("#146 a plugin that prints no result has failed", async () => {
  using lab = new Lab()
  lab.plugin("one", { ADD: { stdout: "" } })
  const error = await failure(addNetwork(lab.runtime, networkOf([{ type: "one" }]), attachmentOf()))
  expect(error.message).toContain('plugin type="one" failed (add): failed to unmarshal raw result')
})

test("#231 what is attached is not added again before its DEL", async () => {
  using lab = new Lab()
  lab.plugin("one")
  const network = networkOf([{ type: "one" }])
  await addNetwork(lab.runtime, network, attachmentOf())
  const error = await failure(addNetwork(lab.runtime, network, attachmentOf()))
  expect(error).toMatchObject({
    code: 4,
    message: 'Cannot add interface "eth0" of container "c1" in network "lab": it is already attached',
    details: "delete it first, or use another interface name",
  })
  expect(lab.calls).toHaveLength(1)
})

test("the cache file of another attachment with the same joined name is not overwritten", async () => {
  using lab = new Lab()
  lab.plugin("one")
  await addNetwork(lab.runtime, networkOf([{ type: "one" }], { name: "a-b" }), attachmentOf({ containerId: "c" }))
  const other = networkOf([{ type: "one" }], { name: "a" })
  const error = await failure(addNetwork(lab.runtime, other, attachmentOf({ containerId: "b-c" }), { again: true }))
  expect(String(error)).toContain('taken by network "a-b", container "c", interface "eth0"')
})

test("#131, #133 a plugin's stderr is passed on, and it gets the runtime's variables", async () => {
  using lab = new Lab()
  lab.plugin("one", { ADD: { stdout: "{}", stderr: "a log line\n", script: 'echo "[$OWN]" >&2' } })
  const runtime = { ...lab.runtime, env: { PATH: process.env.PATH, OWN: "as it is" } }
  let stderr = ""
  await addNetwork(
    { ...runtime, stderr: (chunk) => (stderr += new TextDecoder().decode(chunk)) },
    networkOf([{ type: "one" }]),
    attachmentOf(),
  )
  expect(stderr).toBe("[as it is]\na log line\n")
})

test("an argument that CNI_ARGS cannot carry is refused", async () => {
  using lab = new Lab()
  lab.plugin("one")
  const attachment = attachmentOf({ args: [["A", "b;C=d"]] })
  const error = await failure(addNetwork(lab.runtime, networkOf([{ type: "one" }]), attachment))
  expect(error).toMatchObject({ code: 4 })
})

test("#138 a plugin that cannot be executed is an error that names its path and says so", async () => {
  using lab = new Lab()
  lab.plugin("one")
  chmodSync(join(lab.binDir, "one"), 0o644)
  const error = await failure(addNetwork(lab.runtime, networkOf([{ type: "one" }]), attachmentOf()))
  expect(String(error)).toContain(`Cannot start plugin "${join(lab.binDir, "one")}"`)
  expect(String(error)).toContain("EACCES")
})
