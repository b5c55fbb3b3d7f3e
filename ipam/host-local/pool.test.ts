import { describe, expect, test } from "bun:test"
import { createHash } from "node:crypto"
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FileDescriptor, Open, tryLock } from "../../pkg/libc/mod.ts"
import { serve } from "../../pkg/skel/mod.ts"
import { hostLocal } from "./main.ts"
import { formatPoolFile, type PoolFile, type PoolSet } from "./pool-file.ts"
import { reservationsIn, reserve } from "./reservations.ts"
import { Store } from "./store.ts"
import { owner, TemporaryStore } from "./testing/temporary-store.ts"

const machineId = ((): string => {
  try {
    return readFileSync("/etc/machine-id", "utf8").trim()
  } catch {
    return ""
  }
})()

const set = (changes: Partial<PoolSet>): PoolSet => ({
  prefix: "10.64.0.0/16",
  blockLength: 29,
  blocks: ["10.64.3.0/29", "10.64.9.8/29"],
  draining: [],
  reserved: [],
  ...changes,
})
const six = set({ prefix: "fd00:64::/48", blockLength: 125, blocks: ["fd00:64::7:0:0:8/125"] })

/** A directory with pool "pods" and a store, for the time of a test. */
class Node implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "host-local-pool-"))

  constructor(...sets: PoolSet[]) {
    mkdirSync(join(this.path, "pools"), { mode: 0o755 })
    this.write({ sets })
  }

  get file(): string {
    return join(this.path, "pools", "pods.json")
  }

  /** Writes the file as an agent does. */
  write(changes: Partial<PoolFile>): void {
    const file: PoolFile = {
      version: 1,
      pool: "pods",
      epoch: 1,
      node: { name: "node-1", uid: "1", machineId },
      store: join(this.path, "data", "net"),
      sets: [],
      routes: [],
      fixed: {},
      ...changes,
    }
    writeFileSync(this.file, formatPoolFile(file))
  }

  call(verb: string, id: string, options: { ipam?: object; cniArgs?: string; [key: string]: unknown } = {}) {
    const { ipam, cniArgs = "", ...others } = options
    const env = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: id,
      CNI_NETNS: verb === "DEL" ? "" : "/proc/self/ns/none",
      CNI_IFNAME: "eth0",
      CNI_ARGS: cniArgs,
      CNI_PATH: "/opt/cni/bin",
    }
    const place = { pool: "pods", poolDir: join(this.path, "pools"), dataDir: join(this.path, "data") }
    const config = { cniVersion: "1.1.0", name: "net", type: "bridge", ipam: { ...place, ...ipam }, ...others }
    const log: string[] = []
    const stdin = () => new TextEncoder().encode(JSON.stringify(config))
    const { stdout, exitCode } = serve(hostLocal, { env, stdin, log: (line) => log.push(line) })
    return { exitCode, answer: stdout === "" ? undefined : JSON.parse(stdout), log }
  }

  /** ADD: the addresses with their prefixes and gateways, or the error. */
  add(id: string, options: Parameters<Node["call"]>[2] = {}) {
    const { answer } = this.call("ADD", id, options)
    return answer.ips?.map(({ address, gateway }: Record<string, string>) => `${address} by ${gateway}`) ?? answer
  }

  /** The addresses that have files. */
  get taken(): string[] {
    try {
      return readdirSync(join(this.path, "data", "net"))
        .filter((name) => /^(\d+\.|fd)/.test(name))
        .sort()
    } catch {
      return []
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true })
  }
}

describe("an ADD from a pool", () => {
  test("gets an address of a block of each family, the block's gateway, and the pool's routes", () => {
    using node = new Node(set({}), six)
    node.write({ sets: [set({}), six], routes: [{ dst: "0.0.0.0/0" }] })
    expect(node.call("ADD", "a").answer).toEqual({
      cniVersion: "1.1.0",
      ips: [
        { address: "10.64.3.2/29", gateway: "10.64.3.1" },
        { address: "fd00:64::7:0:0:a/125", gateway: "fd00:64::7:0:0:9" },
      ],
      routes: [{ dst: "0.0.0.0/0" }],
    })
  })

  test("prefers the routes of its configuration", () => {
    using node = new Node()
    node.write({ sets: [set({})], routes: [{ dst: "0.0.0.0/0" }] })
    expect(node.call("ADD", "a", { ipam: { routes: [{ dst: "10.0.0.0/8" }] } }).answer.routes).toEqual([
      { dst: "10.0.0.0/8" },
    ])
  })

  test("fills the blocks one after the other, and gives an address again as late as possible", () => {
    using node = new Node(set({}))
    const all = ["a", "b", "c", "d", "e", "f", "g"].flatMap((id) => node.add(id))
    expect(all.map((text: string) => text.split("/")[0])).toEqual([
      ...[2, 3, 4, 5, 6].map((host) => `10.64.3.${host}`),
      "10.64.9.10",
      "10.64.9.11",
    ])
    node.call("DEL", "a")
    expect(node.add("h")).toEqual(["10.64.9.12/29 by 10.64.9.9"])
    for (const id of ["i", "j"]) node.add(id)
    expect(node.add("k")).toEqual(["10.64.3.2/29 by 10.64.3.1"])
  })

  test("on a link that all nodes share gets the pool's prefix and gateway, and all addresses of its block", () => {
    const shared = { gateway: "10.64.0.1", blocks: ["10.64.0.0/29", "10.64.255.248/29"] }
    using node = new Node(set(shared))
    const all = Array.from({ length: 13 }, (_, at) => node.add(`c${at}`)[0])
    expect(new Set(all.map((text) => text.split("/")[1]))).toEqual(new Set(["16 by 10.64.0.1"]))
    expect(all.map((text) => text.split("/")[0])).toEqual([
      ...[2, 3, 4, 5, 6, 7].map((host) => `10.64.0.${host}`),
      ...[248, 249, 250, 251, 252, 253, 254].map((host) => `10.64.255.${host}`),
    ])
    expect(node.add("more")).toMatchObject({ code: 11 })
  })

  test("on a shared link of IPv6 never gets the network's own address", () => {
    using node = new Node(set({ ...six, gateway: "fd00:64::5", blocks: ["fd00:64::/125"] }))
    expect(node.add("a")).toEqual(["fd00:64::1/48 by fd00:64::5"])
  })

  test("gets no reserved address, and none of a block that is given back", () => {
    using node = new Node(
      set({ blocks: ["10.64.3.0/29"], draining: ["10.64.9.8/29"], reserved: ["10.64.3.2", "10.64.3.4"] }),
    )
    expect(["a", "b", "c"].flatMap((id) => node.add(id)).map((text: string) => text.split("/")[0])).toEqual([
      "10.64.3.3",
      "10.64.3.5",
      "10.64.3.6",
    ])
    expect(node.add("d")).toEqual({
      cniVersion: "1.1.0",
      code: 11,
      msg: 'Cannot use pool "pods": no address of 10.64.0.0/16 is free on this node (blocks owned: 1, given back: 1)',
    })
  })

  test("gets the addresses that it asks for, and none of other nodes", () => {
    using node = new Node(set({}))
    const wish = (ip: string) => ({ runtimeConfig: { ips: [ip] } })
    expect(node.add("a", wish("10.64.9.13"))).toEqual(["10.64.9.13/29 by 10.64.9.9"])
    expect(node.add("b", wish("10.64.4.13"))).toMatchObject({
      code: 999,
      msg: "failed to allocate all requested IPs: 10.64.4.13",
    })
    expect(node.add("c", wish("10.64.9.9"))).toMatchObject({ msg: expect.stringContaining("is subnet's gateway") })
    expect(node.taken).toEqual(["10.64.9.13"])
  })

  test("of a pod with a fixed address gets it, by CNI_ARGS or by args, and only on its interface", () => {
    using node = new Node()
    const sets = [set({ gateway: "10.64.0.1" })]
    node.write({ sets, fixed: { "db/mysql-0/eth0": ["10.64.77.7"], "db/mysql-1/eth1": ["10.64.77.8"] } })
    const args = (name: string) => `IgnoreUnknown=1;K8S_POD_NAMESPACE=db;K8S_POD_NAME=${name};K8S_POD_UID=7`
    expect(node.add("a", { cniArgs: args("mysql-0") })).toEqual(["10.64.77.7/16 by 10.64.0.1"])
    expect(node.add("b", { cniArgs: args("mysql-1") })).toEqual(["10.64.3.0/16 by 10.64.0.1"])
    node.call("DEL", "a")
    expect(node.add("c", { args: { cni: { pod: { namespace: "db", name: "mysql-0" } } } })).toEqual([
      "10.64.77.7/16 by 10.64.0.1",
    ])
    expect(node.add("d", { cniArgs: args("mysql-0") })).toMatchObject({
      msg: expect.stringContaining("10.64.77.7 is not available"),
    })
  })

  test("of a pod whose fixed address this node has not got is refused with code 11, and others are not", () => {
    using node = new Node()
    node.write({ sets: [set({ gateway: "10.64.0.1" })], fixed: { "db/mysql-0/eth0": [] } })
    const args = (name: string) => `IgnoreUnknown=1;K8S_POD_NAMESPACE=db;K8S_POD_NAME=${name}`
    const msg = 'Cannot use pool "pods": the fixed address of "db/mysql-0/eth0" is not this node\'s'
    expect(node.add("a", { cniArgs: args("mysql-0") })).toMatchObject({ code: 11, msg })
    expect(node.taken).toEqual([])
    expect(node.add("b", { cniArgs: args("mysql-1") })).toEqual(["10.64.3.0/16 by 10.64.0.1"])
  })

  test("of a pod that the file has by digest alone is refused likewise", () => {
    using node = new Node()
    const key = (at: number) => `db/mysql-${at}/eth0`
    const digests = Array.from({ length: 5_000 }, (_, at) =>
      createHash("sha256").update(key(at)).digest("hex").slice(0, 16),
    )
    node.write({ sets: [set({ gateway: "10.64.0.1" })], fixedElsewhere: digests.sort().join("") })
    const args = (name: string) => `IgnoreUnknown=1;K8S_POD_NAMESPACE=db;K8S_POD_NAME=${name}`
    const msg = 'Cannot use pool "pods": the fixed address of "db/mysql-4711/eth0" is not this node\'s'
    expect(node.add("a", { cniArgs: args("mysql-4711") })).toMatchObject({ code: 11, msg })
    expect(node.taken).toEqual([])
    expect(node.add("b", { cniArgs: args("mysql-5000") })).toEqual(["10.64.3.0/16 by 10.64.0.1"])
    // A digest is found where one begins, not amid two others.
    const amid = createHash("sha256").update(key(7)).digest("hex").slice(0, 16)
    node.write({ sets: [set({ gateway: "10.64.0.1" })], fixedElsewhere: `${"0".repeat(8)}${amid}${"0".repeat(8)}` })
    expect(node.add("c", { cniArgs: args("mysql-7") })).toEqual(["10.64.3.1/16 by 10.64.0.1"])
  })

  test("of a fixed address lets the next one go on where it was, in the block of the cursor", () => {
    using node = new Node()
    const sets = [set({ gateway: "10.64.0.1" })]
    node.write({ sets, fixed: { "db/mysql-0/eth0": ["10.64.77.7"] } })
    const all = Array.from({ length: 9 }, (_, at) => node.add(`c${at}`)[0])
    expect(all.at(-1)).toBe("10.64.9.8/16 by 10.64.0.1")
    node.call("DEL", "c0")
    expect(node.add("db", { cniArgs: "IgnoreUnknown=1;K8S_POD_NAMESPACE=db;K8S_POD_NAME=mysql-0" })).toEqual([
      "10.64.77.7/16 by 10.64.0.1",
    ])
    expect(node.add("next")).toEqual(["10.64.9.9/16 by 10.64.0.1"])
  })

  test("of another network, or with another dataDir, is refused with code 7: both would give one address", () => {
    using node = new Node(set({}))
    node.add("a")
    const msg = expect.stringContaining(`its addresses are reserved in "${join(node.path, "data", "net")}"`)
    expect(node.add("b", { name: "other" })).toMatchObject({ code: 7, msg })
    expect(node.add("b", { ipam: { dataDir: join(node.path, "elsewhere") } })).toMatchObject({ code: 7, msg })
    expect(node.call("STATUS", "", { name: "other" }).answer).toMatchObject({ code: 50, msg })
    expect(node.taken).toEqual(["10.64.3.2"])
    expect(node.call("DEL", "a", { name: "other" })).toMatchObject({ exitCode: 0 })
  })

  test("reads the file while no other call works on the store", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/29" }])
    store.add("first")
    let isLocked: boolean | undefined
    const ranges = () => {
      using lock = FileDescriptor.open(store.path("lock"), Open.ReadOnly)
      isLocked = !tryLock(lock.fd)
      return { sets: [] }
    }
    reserve(store.open(), { owner: owner("a"), netns: undefined, ranges, requested: [] })
    expect(isLocked).toBe(true)
  })
})

test("CHECK holds for an address of a block that is given back, and of one that is gone, DEL releases it", () => {
  using node = new Node(set({}))
  const { answer } = node.call("ADD", "a")
  for (const sets of [[set({ blocks: [], draining: ["10.64.3.0/29"] })], [set({ blocks: [] })]]) {
    node.write({ sets })
    expect(node.call("CHECK", "a", { prevResult: answer })).toMatchObject({ exitCode: 0 })
  }
  rmSync(join(node.path, "data", "net", "10.64.3.2"))
  expect(node.call("CHECK", "a", { prevResult: answer }).answer).toMatchObject({ code: 999 })
  node.add("b")
  rmSync(node.file)
  expect([node.call("DEL", "a").exitCode, node.call("DEL", "b").exitCode, node.taken]).toEqual([0, 0, []])
})

describe("a wrong file is refused with code 11, by STATUS with code 50, and no address is taken:", () => {
  const rewritten = (change: (file: Record<string, unknown>) => void) => (node: Node) => {
    const file = JSON.parse(readFileSync(node.file, "utf8"))
    delete file.checksum
    change(file)
    writeFileSync(node.file, formatPoolFile(file))
  }
  test.each<[string, (node: Node) => unknown, string]>([
    ["none", (node) => rmSync(node.file), "there is no "],
    ["an empty one", (node) => writeFileSync(node.file, ""), "is torn"],
    ["one of zeros", (node) => writeFileSync(node.file, new Uint8Array(512)), "is torn"],
    [
      "another digit",
      (node) => writeFileSync(node.file, readFileSync(node.file, "utf8").replace("3.0", "4.0")),
      "is torn",
    ],
    ["too large a one", (node) => writeFileSync(node.file, new Uint8Array((1 << 20) + 1)), "Cannot read "],
    ["a directory", (node) => [rmSync(node.file), mkdirSync(node.file)], "Cannot read "],
    ["another pool's", rewritten((file) => (file.pool = "other")), 'is of pool "other"'],
    [
      "another machine's",
      rewritten((file) => (file.node = { name: "node-2", uid: "2", machineId: "f00" })),
      'is of node "node-2"',
    ],
    ["a newer one", rewritten((file) => (file.version = 2)), "has version 2, and this release reads 1"],
    ["one that names no store", rewritten((file) => delete file.store), "is not the file of a pool"],
    ["one without sets", rewritten((file) => (file.sets = null)), "is not the file of a pool"],
    ["a route without destination", rewritten((file) => (file.routes = [{}])), "is not the file of a pool"],
    [
      "a block of another length",
      rewritten((file) => (file.sets = [set({ blocks: ["10.64.3.0/28"] })])),
      "is not a block with a prefix length of 29",
    ],
    [
      "a block with host bits",
      rewritten((file) => (file.sets = [set({ blocks: ["10.64.3.1/29"] })])),
      "has host bits set",
    ],
    [
      "a block that is a number",
      rewritten((file) => (file.sets = [set({ blocks: [7 as never] })])),
      '"7" is not a block',
    ],
  ])("%s", (_, spoil, reason) => {
    using node = new Node(set({}))
    spoil(node)
    expect(node.add("a")).toMatchObject({ code: 11, msg: expect.stringContaining(reason) })
    expect(node.call("STATUS", "").answer).toMatchObject({ code: 50, msg: expect.stringContaining(reason) })
    expect(node.taken).toEqual([])
  })

  test("one that was cut anywhere", () => {
    using node = new Node(set({}))
    const text = readFileSync(node.file, "utf8")
    for (let length = 0; length < text.length; length++) {
      writeFileSync(node.file, text.slice(0, length))
      expect(node.add("a")).toMatchObject({ code: 11 })
    }
    writeFileSync(node.file, text)
    expect(node.add("a")).toEqual(["10.64.3.2/29 by 10.64.3.1"])
  })

  test("one of which others than the administrator may write the directory, with code 5", () => {
    using node = new Node(set({}))
    chmodSync(join(node.path, "pools"), 0o777)
    expect(node.add("a")).toMatchObject({ code: 5 })
  })
})

test("the reservations in a prefix are listed while no other call works on the store, those without an owner too", () => {
  using store = new TemporaryStore([{ subnet: "10.0.0.0/24" }], [{ subnet: "fd00::/64" }])
  expect(reservationsIn(store.open(), "10.0.0.0/24")).toEqual([])
  for (const id of ["a", "b", "c"]) store.add(id)
  writeFileSync(store.path("10.0.0.7"), "kept for the printer")
  const found = (prefix: string) =>
    reservationsIn(store.open(), prefix)
      .map(({ address, holder }) => `${address} ${typeof holder === "object" ? holder.containerId : holder}`)
      .sort()
  expect(found("10.0.0.0/30")).toEqual(["10.0.0.2 a", "10.0.0.3 b"])
  expect(found("10.0.0.4/30")).toEqual(["10.0.0.4 c", "10.0.0.7 foreign"])
  expect(found("10.0.0.3/32")).toEqual(["10.0.0.3 b"])
  expect(found("10.0.1.0/24")).toEqual([])
  expect(found("fd00::/126")).toEqual(["fd00::2 a", "fd00::3 b"])
  using lock = FileDescriptor.open(store.path("lock"), Open.ReadOnly)
  expect(tryLock(lock.fd)).toBe(true)
  const impatient = new Store({ directory: store.directory, log: () => {}, lockDeadlineMs: 1 })
  expect(() => reservationsIn(impatient, "10.0.0.0/30")).toThrow("Cannot lock")
})

test("STATUS refuses a pool of which the node owns no block", () => {
  using node = new Node(set({ blocks: [] }))
  expect(node.call("STATUS", "").answer).toMatchObject({ code: 50 })
  expect(node.add("a")).toMatchObject({ code: 11, msg: expect.stringContaining("(blocks owned: 0, ") })
})

test("a pool beside ranges of the configuration, or by a name that leads elsewhere, is refused", () => {
  using node = new Node(set({}))
  expect(node.add("a", { ipam: { subnet: "10.9.0.0/24" } })).toMatchObject({
    code: 7,
    msg: 'Cannot use "ipam.pool" beside "ipam.subnet"',
  })
  expect(node.add("a", { ipam: { pool: "../pods" } })).toMatchObject({ code: 7 })
})
