import { expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import {
  builtPlugins,
  Chance,
  extent,
  HostNamespace,
  isLong,
  mountOver,
  type PluginCall,
  type PluginOutput,
  type PluginResult,
  patient,
  runPlugin,
  seed,
  succeed,
  TemporaryDirectory,
  tellFigure,
  waitFor,
} from "../lab/mod.ts"
import { disturb, FailingDisk, type fileSystems, mountImage, syncAnother } from "./failing-disk.ts"

const cuts = extent(10, 100)
const onDisks: (keyof typeof fileSystems)[] = isLong ? ["ext4", "xfs"] : ["ext4"]
/** Addresses of each of both range sets. */
const capacity = 13
const ranges = [[{ subnet: "10.67.0.0/28" }], [{ subnet: "fd67::/124", rangeEnd: "fd67::e" }]]
const ours = `${builtPlugins}/host-local`
/** A directory that is the host's alone. */
const place = "/run/cni"
const theirs = "/usr/lib/cni/host-local"

/** host-local on a node, by the disk that a store is on. */
class Leases {
  readonly #host: HostNamespace
  readonly #dataDir: string

  constructor(host: HostNamespace, dataDir: string) {
    this.#host = host
    this.#dataDir = dataDir
  }

  run(bin: string, verb: PluginCall["verb"], containerId: string, keys: object = {}): Promise<PluginOutput> {
    const ipam = { type: "host-local", dataDir: this.#dataDir, ranges }
    const config = { cniVersion: "1.1.0", name: "lab", type: "host-local", ipam, ...keys }
    const call = { bin, verb, containerId, netns: "/run/netns/none", ifName: "eth0" }
    return runPlugin(this.#host, { ...call, config: bin === theirs ? { ...config, cniVersion: "1.0.0" } : config })
  }

  async add(bin: string, containerId: string): Promise<string[]> {
    const { ips } = (await succeed(this.run(bin, "ADD", containerId))).json as PluginResult
    return ips.map(({ address }) => address.replace(/\/.*/, ""))
  }

  /** ADDs until one is refused for want of addresses: what they were given. */
  async fill(): Promise<string[][]> {
    const got: string[][] = []
    for (;;) {
      const { exitCode, stdout, json } = await this.run(ours, "ADD", `fill-${got.length}`)
      if (exitCode !== 0) {
        expect(stdout).toContain("no IP addresses available")
        return got
      }
      got.push((json as PluginResult).ips.map(({ address }) => address.replace(/\/.*/, "")))
    }
  }

  /** What the files of the reservations hold, by address. */
  reservations(): Map<string, string> {
    const directory = this.#host.file(`${this.#dataDir}/lab`)
    const names = readdirSync(directory).filter((name) => /^10\.|^fd67:/.test(name))
    return new Map(names.map((name) => [name, readFileSync(`${directory}/${name}`, "latin1")]))
  }
}

const isWhole = (text: string) => /^[\w-]+\r\neth0$/.test(text)

/** What a runtime knows: whose ADD it has called and whose DEL has not been answered. */
async function work(
  leases: Leases,
  chance: Chance,
  prefix: string,
  living: Set<string>,
  goesOn: () => boolean,
): Promise<void> {
  for (let count = 0; goesOn(); count++) {
    const [first] = [...living].filter((name) => name.startsWith(prefix))
    if (first !== undefined && chance.below(8) < living.size) {
      await succeed(leases.run(ours, "DEL", first))
      living.delete(first)
    } else {
      living.add(`${prefix}-${count}`)
      await leases.add(ours, `${prefix}-${count}`)
    }
  }
}

/** A disk as a power cut has left it, and whom the runtime took for alive. */
interface Cut {
  readonly image: string
  /** Those in an ADD or DEL among them. */
  readonly living: readonly string[]
}

async function cutOften(host: HostNamespace, disk: FailingDisk): Promise<Cut[]> {
  const chance = new Chance(seed)
  const leases = new Leases(host, `${place}/disk/networks`)
  const living = new Set<string>()
  const done: Cut[] = []
  let isOver = false
  const goesOn = () => !isOver && done.length < cuts
  const cutAll = async () => {
    await waitFor(() => living.size > 2, "reservations")
    await syncAnother(host, `${place}/disk`)
    while (goesOn()) {
      for (let times = done.length === 0 ? 0 : 1 + chance.below(4); times > 0; times--)
        await disturb(host, chance, `${place}/disk`, `${place}/disk/networks/lab`)
      const before = [...living]
      const image = await disk.cut(done.length)
      done.push({ image, living: before.filter((name) => living.has(name)) })
    }
  }
  const workers = ["a", "b"].map((prefix) => work(leases, chance, prefix, living, goesOn))
  try {
    await Promise.all([cutAll(), ...workers])
  } finally {
    isOver = true
    await Promise.allSettled(workers)
  }
  return done
}

/** The boot after a power cut: answers how many reservations were torn. */
async function comeBack(host: HostNamespace, { image, living }: Cut): Promise<number> {
  const at = `${place}/${image.replace(/.*\//, "")}`
  await mountImage(host, image, at)
  await host.exec("cp", ["--archive", at, `${at}-go`])
  const leases = new Leases(host, `${at}/networks`)
  await host.exec("mkdir", ["-p", `${at}/networks/lab`])
  const found = leases.reservations()
  const torn = [...found.values()].filter((text) => !isWhole(text)).length

  // Upstream's plugin on what the power cut has left.
  const go = new Leases(host, `${at}-go/networks`)
  const given = await go.add(theirs, "go")
  for (const address of given) expect(found.get(address)).toBeUndefined()
  await succeed(go.run(theirs, "DEL", "go"))

  await succeed(leases.run(ours, "STATUS", ""))
  const own = await leases.add(ours, "new")
  expect([...leases.reservations().values()].filter((text) => !isWhole(text))).toEqual([])
  for (const name of living) await succeed(leases.run(ours, "DEL", name))
  const rest = [...leases.reservations()].filter(([address]) => !own.includes(address))
  for (const [address, text] of rest) {
    expect(found.get(address)).toBe(text)
    expect(living).not.toContain(text.split("\r\n")[0] ?? "")
  }
  const prevResult = {
    cniVersion: "1.1.0",
    ips: own.map((address) => ({ address: `${address}/${address.includes(":") ? 124 : 28}` })),
  }
  await succeed(leases.run(ours, "CHECK", "new", { prevResult }))
  await succeed(leases.run(ours, "GC", "", { "cni.dev/valid-attachments": [{ containerID: "new", ifname: "eth0" }] }))
  expect([...leases.reservations().keys()].sort()).toEqual([...own].sort())
  const filled = await leases.fill()
  expect([filled.length, new Set([...own, ...filled.flat()]).size]).toEqual([capacity - 1, 2 * capacity])
  await host.exec("umount", [at])
  return torn
}

test.each(onDisks)(
  `%s after each of ${cuts} power cuts amid ADDs and DELs: no address is given twice, none is lost, and upstream's plugin goes on`,
  async (fileSystem) => {
    await using host = await HostNamespace.create()
    await using disk = await FailingDisk.create(host, fileSystem, `${place}/disk`)
    const all = await cutOften(host, disk)
    await host.exec("umount", [`${place}/disk`])
    await using directory = await TemporaryDirectory.create("cni-boot")
    await Bun.write(directory.join("boot_id"), `${crypto.randomUUID()}\n`)
    await mountOver(host, "/proc/sys/kernel/random/boot_id", directory.join("boot_id"))
    let torn = 0
    for (const cut of all) torn += await comeBack(host, cut)
    expect(torn).toBeGreaterThan(0) // the first cut comes right after the journal had the names
    await tellFigure({
      what: `power cuts on ${fileSystem}`,
      tried: all.length,
      held: all.length,
      note: `${torn} reservations torn`,
    })
  },
  patient(600_000),
)
