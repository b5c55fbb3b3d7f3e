import { describe, expect, test } from "bun:test"
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { JsonObject } from "../types/mod.ts"
import { addNetwork } from "./add.ts"
import { checkNetwork } from "./check.ts"
import { delNetwork } from "./del.ts"
import { gcNetwork } from "./gc.ts"
import { loadNetwork } from "./load.ts"
import type { Attachment, Network } from "./network.ts"
import { parseNetworkList } from "./parse.ts"
import { attachmentOf, failure, Lab, networkOf, resultOf } from "./testing/lab.ts"

const one = { type: "one" }
const two = { type: "two" }

async function attachedTo(network: Network, more: Partial<Attachment> = {}): Promise<Lab> {
  const lab = new Lab()
  for (const type of ["one", "two", "three"]) {
    lab.plugin(type, { ADD: { stdout: JSON.stringify(resultOf("192.0.2.2/24", network.cniVersion)) } })
  }
  await addNetwork(lab.runtime, network, attachmentOf(more))
  return lab
}

const later = (lab: Lab) => lab.calls.filter(({ verb }) => verb !== "ADD")
const sequence = (lab: Lab) => later(lab).map(({ verb, plugin }) => `${verb} ${plugin}`)

function cacheFile(lab: Lab): { path: string; content: JsonObject; config: string } {
  const path = join(lab.results, "lab-c1-eth0")
  const content = JSON.parse(readFileSync(path, "utf8"))
  return { path, content, config: Buffer.from(content.config, "base64").toString() }
}

function rewrite(lab: Lab, change: JsonObject): void {
  const { path, content } = cacheFile(lab)
  writeFileSync(path, JSON.stringify({ ...content, ...change }))
}

const base64 = (text: string) => Buffer.from(text).toString("base64")

describe("a network with plugins in its directory", () => {
  /** Returns a lab whose attachment has "one" in the network's file and "two" in its directory, then removed. */
  async function withoutDirectory() {
    const lab = new Lab()
    for (const type of ["one", "two"]) lab.plugin(type)
    const file = '{"cniVersion":"1.1.0","name":"lab","own":12345678901234567890,"plugins":[{"type":"one"}]}'
    lab.conf("lab.conflist", file)
    lab.conf("lab/10-two.conf", { type: "two", capabilities: { mac: true } })
    await addNetwork(lab.runtime, loadNetwork(lab.confDir, "lab"), attachmentOf())
    rmSync(join(lab.confDir, "lab"), { recursive: true })
    return lab
  }

  test("#195 is cached with all of them in the list, so that any reader of lists finds them there, once", async () => {
    using lab = await withoutDirectory()
    const { config } = cacheFile(lab)
    expect(config).toContain('"own":12345678901234567890')
    expect(JSON.parse(config)).toMatchObject({
      cniVersion: "1.1.0",
      name: "lab",
      plugins: [{ type: "one" }, { type: "two", capabilities: { mac: true } }],
      loadOnlyInlinedPlugins: true,
    })
    const list = parseNetworkList(new TextEncoder().encode(config))
    expect(list.plugins.map((plugin) => plugin.type)).toEqual(["one", "two"])
  })

  test("is checked, deleted and collected with all of them when the directory is gone", async () => {
    using lab = await withoutDirectory()
    const network = loadNetwork(lab.confDir, "lab")
    expect(network.plugins).toHaveLength(1)
    await checkNetwork(lab.runtime, network, attachmentOf())
    await delNetwork(lab.runtime, network, attachmentOf())
    expect(sequence(lab)).toEqual(["CHECK one", "CHECK two", "DEL two", "DEL one"])

    using other = await withoutDirectory()
    await gcNetwork(other.runtime, loadNetwork(other.confDir, "lab"), [])
    expect(sequence(other)).toEqual(["DEL two", "DEL one", "GC one"])
  })
})

test("#195 a network that is all in its file is cached byte for byte", async () => {
  const bytes = new TextEncoder().encode('{ "name":"lab",\n "cniVersion":"1.1.0", "plugins":[ {"type":"one"} ] }\n')
  using lab = await attachedTo(parseNetworkList(bytes))
  expect(cacheFile(lab).config).toBe(new TextDecoder().decode(bytes))
})

describe("a configuration that changed after ADD", () => {
  test("gained a plugin: it is not run on CHECK and DEL, since it did nothing for this container", async () => {
    using lab = await attachedTo(networkOf([one]))
    await checkNetwork(lab.runtime, networkOf([one, two]), attachmentOf())
    await delNetwork(lab.runtime, networkOf([one, two]), attachmentOf())
    expect(sequence(lab)).toEqual(["CHECK one", "DEL one"])
    expect(readdirSync(lab.results)).toEqual([])
  })

  test("gained one in its directory: that is not run either", async () => {
    using lab = await attachedTo(networkOf([one]))
    lab.conf("lab.conflist", { cniVersion: "1.1.0", name: "lab", plugins: [one] })
    lab.conf("lab/10-two.conf", two)
    await delNetwork(lab.runtime, loadNetwork(lab.confDir, "lab"), attachmentOf())
    expect(sequence(lab)).toEqual(["DEL one"])
  })

  test("lost a plugin, and keys of another: DEL runs both as they were", async () => {
    using lab = await attachedTo(networkOf([{ ...one, key: "old" }, two]))
    await delNetwork(lab.runtime, networkOf([{ ...one, key: "new" }]), attachmentOf())
    expect(sequence(lab)).toEqual(["DEL two", "DEL one"])
    expect(later(lab)[1]?.stdin.key).toBe("old")
  })

  test("has another version: requests and prevResult keep that of ADD", async () => {
    using lab = await attachedTo(networkOf([one], { cniVersion: "0.4.0" }))
    await delNetwork(lab.runtime, networkOf([one]), attachmentOf())
    const prevResult = resultOf("192.0.2.2/24", "0.4.0")
    expect(later(lab)[0]?.stdin).toEqual({ type: "one", name: "lab", cniVersion: "0.4.0", prevResult })
  })

  test("has another version: there is a prevResult for DEL, and a CHECK, if there was at ADD", async () => {
    using old = await attachedTo(networkOf([one], { cniVersion: "0.3.1" }))
    const refused = await failure(checkNetwork(old.runtime, networkOf([one]), attachmentOf()))
    expect(refused.message).toBe('configuration version "0.3.1" does not support the CHECK command')
    await delNetwork(old.runtime, networkOf([one]), attachmentOf())
    expect(later(old)[0]?.stdin).not.toHaveProperty("prevResult")

    using recent = await attachedTo(networkOf([one]))
    const today = networkOf([one], { cniVersion: "0.3.1" })
    await checkNetwork(recent.runtime, today, attachmentOf())
    await delNetwork(recent.runtime, today, attachmentOf())
    for (const { stdin } of later(recent)) expect(stdin.prevResult).toEqual(resultOf("192.0.2.2/24"))
  })

  test("has disableCheck now, or had it at ADD: CHECK runs no plugin and says so", async () => {
    const without = networkOf([one])
    const disabled = networkOf([one], { disableCheck: true })
    for (const [then, now] of [
      [without, disabled],
      [disabled, without],
    ] as const) {
      using lab = await attachedTo(then)
      expect(await checkNetwork(lab.runtime, now, attachmentOf())).toBe(false)
      expect(later(lab)).toEqual([])
    }
    using lab = await attachedTo(without)
    expect(await checkNetwork(lab.runtime, without, attachmentOf())).toBe(true)
  })

  test("names a plugin of then that is not installed any more: an error, until the cache file is removed", async () => {
    using lab = await attachedTo(networkOf([one, two]))
    rmSync(join(lab.binDir, "two"))
    const error = await failure(delNetwork(lab.runtime, networkOf([one]), attachmentOf()))
    expect(error.message).toContain('plugin type="two" failed (delete): failed to find plugin "two"')
    expect(sequence(lab)).toEqual(["DEL one"])
    rmSync(cacheFile(lab).path)
    await delNetwork(lab.runtime, networkOf([one]), attachmentOf())
    expect(sequence(lab)).toEqual(["DEL one", "DEL one"])
  })
})

describe("arguments and capability values", () => {
  const network = networkOf([{ ...one, capabilities: { mac: true } }])
  const atAdd = { args: [["A", "then"]], capabilityArgs: { mac: "0a:00:00:00:00:01" } } as const

  test("are those of ADD when the caller of CHECK or DEL has none", async () => {
    using lab = await attachedTo(network, atAdd)
    await checkNetwork(lab.runtime, network, attachmentOf())
    await delNetwork(lab.runtime, network, attachmentOf({ netns: "" }))
    for (const { args, stdin } of later(lab)) {
      expect([args, stdin.runtimeConfig]).toEqual(["A=then", { mac: "0a:00:00:00:00:01" }])
    }
    expect(later(lab).map(({ netns }) => netns)).toEqual(["/run/netns/c1", ""])
  })

  test("are the caller's when there are any, given to the plugins as their capabilities were at ADD", async () => {
    using lab = await attachedTo(network, atAdd)
    const now = attachmentOf({ args: [["A", "now"]], capabilityArgs: { mac: "0a:00:00:00:00:02", ips: [] } })
    await delNetwork(lab.runtime, networkOf([{ ...one, capabilities: { ips: true } }]), now)
    expect(later(lab)[0]).toMatchObject({ args: "A=now", stdin: { runtimeConfig: { mac: "0a:00:00:00:00:02" } } })
  })
})

describe("a cached configuration that cannot be used", () => {
  test.each([
    ["is empty", ""],
    ["is not JSON", "{"],
    ["is not a list", "[]"],
    ["has no plugins", '{"cniVersion":"1.1.0","name":"lab"}'],
    ["has a plugin without a type", '{"cniVersion":"1.1.0","name":"lab","plugins":[{}]}'],
    ["has no name", '{"cniVersion":"1.1.0","plugins":[{"type":"three"}]}'],
    ["is of another network", '{"cniVersion":"1.1.0","name":"other","plugins":[{"type":"three"}]}'],
    ["has a malformed version", '{"cniVersion":"x","name":"lab","plugins":[{"type":"three"}]}'],
  ])("because it %s gives way to the one at hand; the result is used all the same", async (_, config) => {
    using lab = await attachedTo(networkOf([one]))
    rewrite(lab, { config: base64(config) })
    await checkNetwork(lab.runtime, networkOf([one, two]), attachmentOf())
    await delNetwork(lab.runtime, networkOf([one, two]), attachmentOf())
    expect(sequence(lab)).toEqual(["CHECK one", "CHECK two", "DEL two", "DEL one"])
    for (const { stdin } of later(lab)) expect(stdin.prevResult).toEqual(resultOf("192.0.2.2/24"))
  })

  test.each([[{ config: 5 }], [{ config: "*" }], [{ config: null }]])(
    "because it is not base64: %j",
    async (change) => {
      using lab = await attachedTo(networkOf([one]))
      rewrite(lab, change)
      await delNetwork(lab.runtime, networkOf([one, two]), attachmentOf())
      expect(sequence(lab)).toEqual(["DEL two", "DEL one"])
    },
  )
})

describe("what upstream's library cached", () => {
  /** Returns a lab where upstream's library added c1 with the file `cached`; "two" is in the network's directory. */
  async function addedByUpstream(cached: JsonObject) {
    const lab = await attachedTo(networkOf([one]))
    const { path, content } = cacheFile(lab)
    const { configComplete: _, ...upstreams } = content
    writeFileSync(path, JSON.stringify({ ...upstreams, config: base64(JSON.stringify(cached)) }))
    lab.conf("lab.conflist", { cniVersion: "1.1.0", name: "lab", plugins: [{ type: "three" }] })
    lab.conf("lab/10-two.conf", two)
    await delNetwork(lab.runtime, loadNetwork(lab.confDir, "lab"), attachmentOf())
    return lab
  }

  test("lacks the plugins of the directory, so those of now are run with it", async () => {
    using lab = await addedByUpstream({ cniVersion: "1.1.0", name: "lab", plugins: [one] })
    expect(sequence(lab)).toEqual(["DEL two", "DEL one"])
  })

  test("is complete when the list wants no others", async () => {
    using lab = await addedByUpstream({
      cniVersion: "1.1.0",
      name: "lab",
      plugins: [one],
      loadOnlyInlinedPlugins: true,
    })
    expect(sequence(lab)).toEqual(["DEL one"])
  })

  test("may be a list that has its plugins nowhere but in the directory", async () => {
    using lab = await addedByUpstream({ cniVersion: "1.1.0", name: "lab" })
    expect(sequence(lab)).toEqual(["DEL two"])
  })

  test("may be one plugin that was added by itself", async () => {
    using lab = await addedByUpstream({ cniVersion: "0.4.0", name: "lab", type: "one" })
    expect(later(lab).at(-1)).toMatchObject({ plugin: "one", stdin: { name: "lab", cniVersion: "0.4.0" } })
  })
})

test("a failed ADD is undone with its own plugins, not with those of an earlier ADD", async () => {
  using lab = await attachedTo(networkOf([one]))
  lab.plugin("two", { ADD: { code: 1 } })
  await failure(addNetwork(lab.runtime, networkOf([two]), attachmentOf(), { again: true, undo: true }))
  expect(sequence(lab)).toEqual(["DEL two"])
})
