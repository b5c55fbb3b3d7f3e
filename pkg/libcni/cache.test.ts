import { expect, test } from "bun:test"
import { mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { refusalOf } from "../types/testing.ts"
import { cachedAttachments, openCache, readCache, removeCache } from "./cache.ts"
import { decodeCached, encodeCached } from "./cached.ts"
import { attachmentOf, Lab } from "./testing/lab.ts"

const key = { network: "lab", containerId: "c1", ifName: "eth0" }
const config = new TextEncoder().encode('{"name":"lab"}')
const attachment = { ...attachmentOf(), network: "lab", config, configComplete: true, result: {} }

test("#214 a query without one of the three names is refused and names all three", () => {
  const refusal = (network: string, id: string, ifName: string) =>
    `cache file path requires network name ("${network}"), container ID ("${id}"), and interface name ("${ifName}")`
  expect(() => readCache("/nowhere", { ...key, network: "" })).toThrow(refusal("", "c1", "eth0"))
  expect(() => readCache("/nowhere", { ...key, containerId: "" })).toThrow(refusal("lab", "", "eth0"))
  expect(() => readCache("/nowhere", { ...key, ifName: "" })).toThrow(refusal("lab", "c1", ""))
})

test("#215 no file is absent, and no error; one that cannot be read is not taken for that", () => {
  using lab = new Lab()
  expect(readCache(lab.cacheDir, key)).toEqual({ state: "absent" })
  mkdirSync(join(lab.results, "lab-c1-eth0"), { recursive: true })
  expect(readCache(lab.cacheDir, key)).toMatchObject({ state: "unreadable", error: { code: 5 } })
})

test("a cache file that does not exist is removed already, and one that cannot be removed is an error", () => {
  using lab = new Lab()
  removeCache(lab.cacheDir, key)
  const file = join(lab.results, "lab-c1-eth0")
  mkdirSync(file, { recursive: true })
  expect(refusalOf(() => removeCache(lab.cacheDir, key))).toMatchObject({
    code: 5,
    message: `Cannot remove cache file "${file}"`,
  })
})

test("#222 a list of attachments with one that cannot be read is an error that names the file", () => {
  using lab = new Lab()
  mkdirSync(lab.results, { recursive: true })
  const file = join(lab.results, "lab-c1-eth0")
  symlinkSync(file, file) // causes ELOOP; root could read any other file
  expect(refusalOf(() => cachedAttachments(lab.cacheDir))).toMatchObject({
    code: 5,
    message: `Cannot read cache file "${file}"`,
  })
})

test("#216 what was cached comes back: configuration byte for byte, arguments, capability values", () => {
  using lab = new Lab()
  const rich = { ...attachment, args: [["A", "b"] as const], capabilityArgs: { mac: "0a:00:00:00:00:01" } }
  using cache = openCache(lab.cacheDir, key)
  cache.commit(rich)
  const cached = readCache(lab.cacheDir, key)
  expect(cached).toMatchObject({
    state: "valid",
    attachment: { args: [["A", "b"]], capabilityArgs: rich.capabilityArgs },
  })
  if (cached.state === "valid") expect(new TextDecoder().decode(cached.attachment.config)).toBe('{"name":"lab"}')
})

test("#217 attachments are listed in the order of their files, all or one container's; strange files are passed over", () => {
  using lab = new Lab()
  for (const [containerId, ifName] of [
    ["c2", "eth0"],
    ["c1", "net1"],
    ["c1", "eth0"],
  ] as const) {
    using cache = openCache(lab.cacheDir, { network: "lab", containerId, ifName })
    cache.commit({ ...attachment, containerId, ifName, netns: `/run/netns/${containerId}`, args: [["A", ifName]] })
  }
  for (const content of ["", "{", '{"kind":"other"}', '{"kind":"cniCacheV1","containerId":""}']) {
    writeFileSync(join(lab.results, `strange-${content.length}`), content)
  }
  const list = (id?: string) => cachedAttachments(lab.cacheDir, id).map((one) => `${one.containerId}/${one.ifName}`)
  expect(list()).toEqual(["c1/eth0", "c1/net1", "c2/eth0"])
  expect(list("c1")).toEqual(["c1/eth0", "c1/net1"])
  expect(list("c")).toEqual([])
  const [found] = cachedAttachments(lab.cacheDir, "c2")
  expect(found).toMatchObject({ network: "lab", netns: "/run/netns/c2", args: [["A", "eth0"]] })
  expect(found?.config).toEqual(Buffer.from(config))
  expect(cachedAttachments("/does/not/exist")).toEqual([])
})

test("what an attachment does not have is not written", () => {
  const bare = { ...attachment, netns: "", args: [], capabilityArgs: {}, configComplete: false, result: undefined }
  const names = { kind: "cniCacheV1", containerId: "c1", ifName: "eth0", networkName: "lab" }
  expect(encodeCached(bare)).toEqual({ ...names, config: Buffer.from(config).toString("base64") })
  expect(Object.keys(encodeCached(bare)).sort()).toEqual(["config", "containerId", "ifName", "kind", "networkName"])
})

test("what is read is what is well-formed of it, and nothing without the three names", () => {
  const names = { containerId: "c1", ifName: "eth0", networkName: "lab" }
  const nothing = { ...names, netns: "", config: "", configComplete: false, args: [], capabilityArgs: {} }
  const read = (more: object) => {
    const { network, config, ...rest } = decodeCached({ ...names, ...more }) ?? {
      network: "",
      config: new Uint8Array(),
    }
    return { ...rest, networkName: network, config: new TextDecoder().decode(config) }
  }
  expect(read({})).toEqual(nothing)
  for (const wrong of [
    { netns: 5, config: 5, configComplete: 1, cniArgs: {}, capabilityArgs: [], result: "x" },
    { cniArgs: [["A"], ["A", "b", "c"], "Ab", [1, "b"], ["A", 2], null], configComplete: "true" },
  ])
    expect(read(wrong)).toEqual(nothing)
  expect(read({ cniArgs: [["A", "b"], ["C"], ["D", ""]], configComplete: true, result: {} })).toEqual({
    ...nothing,
    args: [
      ["A", "b"],
      ["D", ""],
    ],
    configComplete: true,
    result: {},
  } as never)
  for (const name of ["containerId", "ifName", "networkName"])
    for (const value of ["", 5, undefined]) expect(decodeCached({ ...names, [name]: value } as never)).toBeUndefined()
})

test("a cache that is opened and not committed leaves no file; modes are for root only", () => {
  using lab = new Lab()
  openCache(lab.cacheDir, key)[Symbol.dispose]()
  expect(readdirSync(lab.results)).toEqual([])
  using cache = openCache(lab.cacheDir, key)
  cache.commit(attachment)
  expect(statSync(lab.results).mode & 0o777).toBe(0o700)
  expect(statSync(join(lab.results, "lab-c1-eth0")).mode & 0o777).toBe(0o600)
})

test("attachments with the same configuration share its bytes, and files without a JSON object are told", () => {
  using lab = new Lab()
  const keys = ["a", "b", "c"].map((containerId) => ({ ...key, containerId }))
  for (const one of keys) {
    using cache = openCache(lab.cacheDir, one)
    cache.commit({ ...attachment, ...one, config: one.containerId === "c" ? new TextEncoder().encode("{}") : config })
  }
  writeFileSync(join(lab.results, "lab-d-eth0"), '{"kind":')
  writeFileSync(join(lab.results, "lab-e-eth0"), '{"kind":"another"}')
  const unreadable: string[] = []
  const [a, b, c, ...others] = cachedAttachments(lab.cacheDir, undefined, (file) => unreadable.push(file))
  expect([a?.containerId, b?.containerId, c?.containerId, others]).toEqual(["a", "b", "c", []])
  expect(a?.config).toBe(b?.config as Uint8Array)
  expect(c?.config).toEqual(new TextEncoder().encode("{}"))
  expect(unreadable).toEqual([join(lab.results, "lab-d-eth0")])
})
