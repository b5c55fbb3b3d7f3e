import { expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import {
  builtPlugins,
  fail,
  type PluginCall,
  type PluginOutput,
  type PluginResult,
  pluginEnv,
  runProgram,
  succeed,
  TemporaryDirectory,
} from "../lab/mod.ts"

/** The Go plugin of Debian's package containernetworking-plugins. */
const theirs = "/usr/lib/cni/host-local"
const ours = join(builtPlugins, "host-local")

/** A store that both programs use. */
class SharedStore implements AsyncDisposable {
  readonly #directory: TemporaryDirectory
  readonly #ranges: object[][]

  private constructor(directory: TemporaryDirectory, subnets: string[]) {
    this.#directory = directory
    this.#ranges = subnets.map((subnet) => [{ subnet }])
  }

  static async create(...subnets: string[]): Promise<SharedStore> {
    return new SharedStore(await TemporaryDirectory.create("cni-interop"), subnets)
  }

  async run(bin: string, verb: PluginCall["verb"], containerId: string): Promise<PluginOutput> {
    const ipam = { type: "host-local", dataDir: this.#directory.path, ranges: this.#ranges }
    const output = await runProgram([bin], {
      env: pluginEnv({ bin, verb, containerId, netns: "/var/run/netns/none", ifName: "eth0" }),
      input: JSON.stringify({ cniVersion: "1.0.0", name: "shared", type: "ptp", ipam }),
    })
    return { ...output, json: output.stdout === "" ? undefined : JSON.parse(output.stdout) }
  }

  /** Runs ADD and returns the addresses without prefix lengths. Throws if ADD fails. */
  async add(bin: string, containerId: string): Promise<string[]> {
    return addressesOf(await succeed(this.run(bin, "ADD", containerId)))
  }

  async del(bin: string, containerId: string): Promise<void> {
    await succeed(this.run(bin, "DEL", containerId))
  }

  file(name: string): string {
    return this.#directory.join("shared", name)
  }

  /** Returns the addresses for which a file exists. */
  async addresses(): Promise<string[]> {
    return (await readdir(this.file("."))).filter((name) => /^[0-9.]+$|:/.test(name)).sort()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#directory[Symbol.asyncDispose]()
  }
}

function addressesOf({ json }: PluginOutput): string[] {
  return (json as PluginResult).ips.map(({ address }) => address.replace(/\/.*/, ""))
}

test("both hand out the next address, also when the other handed out the last", async () => {
  await using store = await SharedStore.create("10.66.0.0/29", "fd66::/64")
  expect(await store.add(ours, "a")).toEqual(["10.66.0.2", "fd66::2"])
  expect(await store.add(theirs, "b")).toEqual(["10.66.0.3", "fd66::3"])
  expect(await store.add(ours, "c")).toEqual(["10.66.0.4", "fd66::4"])
  await store.del(theirs, "a")
  expect(await store.add(theirs, "d")).toEqual(["10.66.0.5", "fd66::5"])
  expect(await store.add(ours, "e")).toEqual(["10.66.0.6", "fd66::6"])
  expect(await store.add(ours, "f")).toEqual(["10.66.0.2", "fd66::7"])
  for (const bin of [ours, theirs]) {
    const { msg } = await fail(store.run(bin, "ADD", "g"))
    expect(msg).toStartWith(
      "failed to allocate for range 0: no IP addresses available in range set: 10.66.0.1-10.66.0.6",
    )
  }
  expect(readFileSync(store.file("last_reserved_ip.1"), "latin1")).toBe("fd66::7")
})

test("each sees, checks, refuses and releases what the other has reserved", async () => {
  await using store = await SharedStore.create("10.66.0.0/24", "fd66::/64")
  for (const [from, to] of [
    [ours, theirs],
    [theirs, ours],
  ] as const) {
    await store.add(from, "a")
    await succeed(store.run(to, "CHECK", "a"))
    expect((await fail(store.run(to, "ADD", "a"))).msg).toContain("duplicate allocation is not allowed")
    await store.del(to, "a")
    expect(await store.addresses()).toEqual([])
    for (const bin of [ours, theirs]) {
      expect((await fail(store.run(bin, "CHECK", "a"))).msg).toContain("Failed to find address added by container a")
    }
    await store.add(from, "a")
    await store.del(from, "a")
  }
})

test("the files of both are the same bytes", async () => {
  await using store = await SharedStore.create("10.66.0.0/24")
  await store.add(theirs, "container-1")
  await store.add(ours, "container-2")
  const [first, second] = ["10.66.0.2", "10.66.0.3"].map((name) => readFileSync(store.file(name), "latin1"))
  expect(second?.replace("container-2", "container-1")).toBe(first ?? "")
})

/** The state of the store after parallel changes by two programs, according to their results. */
class Ledger {
  readonly live = new Map<string, string[]>()
  /** The containers for which no call is running. */
  readonly idle: string[] = []

  added(name: string, addresses: string[]): void {
    for (const taken of this.live.values()) expect(taken.filter((each) => addresses.includes(each))).toEqual([])
    this.live.set(name, addresses)
    this.idle.push(name)
  }

  /** Chooses a container to delete, and counts it as deleted from now on. */
  take(): string | undefined {
    const [name] = this.idle.splice(Math.floor(Math.random() * this.idle.length), 1)
    if (name !== undefined) this.live.delete(name)
    return name
  }
}

async function operate(store: SharedStore, bin: string, label: string, ledger: Ledger): Promise<void> {
  for (let count = 0; count < 200; count++) {
    const name = Math.random() < 0.45 ? ledger.take() : undefined
    if (name === undefined) {
      const output = await store.run(bin, "ADD", `${label}-${count}`)
      if (output.exitCode === 0) ledger.added(`${label}-${count}`, addressesOf(output))
      else expect(output.stdout).toContain("no IP addresses available")
    } else {
      const addresses = await heldBy(store, name)
      expect(addresses).toHaveLength(2)
      await store.del(bin, name)
      expect(await heldBy(store, name)).toEqual([])
    }
  }
}

async function heldBy(store: SharedStore, name: string): Promise<string[]> {
  const addresses = await store.addresses()
  return addresses.filter((each) => {
    const file = store.file(each)
    return existsSync(file) && contents(file).startsWith(`${name}\r\n`)
  })
}

function contents(file: string): string {
  try {
    return readFileSync(file, "latin1")
  } catch {
    return "" // the other program has just released it
  }
}

test("200 random operations of each in parallel: no address twice, every release sees the other's leases", async () => {
  await using store = await SharedStore.create("10.66.0.0/26", "fd66::/64")
  const ledger = new Ledger()
  await Promise.all([operate(store, ours, "ours", ledger), operate(store, theirs, "theirs", ledger)])
  for (const [name, addresses] of ledger.live) {
    for (const address of addresses) expect(contents(store.file(address))).toBe(`${name}\r\neth0`)
  }
  expect(await store.addresses()).toEqual([...ledger.live.values()].flat().sort())
  for (const [index, name] of ledger.idle.entries()) await store.del(index % 2 === 0 ? ours : theirs, name)
  expect(await store.addresses()).toEqual([])
})
