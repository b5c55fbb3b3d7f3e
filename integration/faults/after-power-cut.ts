import { deepEqual, equal, ok } from "node:assert/strict"
import { readdirSync, readFileSync } from "node:fs"
import {
  builtPlugins,
  type HostNamespace,
  type PluginCall,
  type PluginOutput,
  type PluginResult,
  runPlugin,
  succeed,
} from "../lab/mod.ts"
import { mountImage } from "./failing-disk.ts"

/** The number of addresses in each of the two range sets, one for each IP family. */
const capacity = 13
const ranges = [[{ subnet: "10.67.0.0/28" }], [{ subnet: "fd67::/124", rangeEnd: "fd67::e" }]]
export const ours = `${builtPlugins}/host-local`
/** The directory for the disk and its images, which is private to the host. */
export const place = "/run/cni"
const theirs = "/usr/lib/cni/host-local"

/** The plugin host-local with a store in a given directory. */
export class Leases {
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

  /** Runs ADD until the pool is full. Returns the addresses that each ADD assigned. */
  async fill(): Promise<string[][]> {
    const got: string[][] = []
    for (;;) {
      const { exitCode, stdout, json } = await this.run(ours, "ADD", `fill-${got.length}`)
      if (exitCode !== 0) {
        ok(stdout.includes("no IP addresses available"), stdout)
        return got
      }
      got.push((json as PluginResult).ips.map(({ address }) => address.replace(/\/.*/, "")))
    }
  }

  /** Returns the content of the reservation files, by address. */
  reservations(): Map<string, string> {
    const directory = this.#host.file(`${this.#dataDir}/lab`)
    const names = readdirSync(directory).filter((name) => /^10\.|^fd67:/.test(name))
    return new Map(names.map((name) => [name, readFileSync(`${directory}/${name}`, "latin1")]))
  }

  /** Returns the invalid contents of reservation files. */
  torn(): string[] {
    return [...this.reservations().values()].filter((text) => !/^[\w-]+\r\neth0$/.test(text))
  }
}

/** The content of a disk after a power cut, and the containers that exist for the runtime. */
export interface Cut {
  readonly image: string
  /** The IDs of these containers, including those with an ADD or DEL in progress. */
  readonly living: readonly string[]
}

/** Returns the number of reservation files with invalid content in an image. */
export async function countTorn(host: HostNamespace, image: string): Promise<number> {
  const at = `${place}/looked-at`
  await mountImage(host, image, at)
  const torn = new Leases(host, `${at}/networks`).torn().length
  await host.exec("umount", [at])
  return torn
}

/**
 * Mounts the image and checks that host-local of this suite and the reference plugin assign no address twice. Returns
 * the number of reservation files with invalid content.
 */
export async function comeBack(host: HostNamespace, { image, living }: Cut): Promise<number> {
  const at = `${place}/${image.replace(/.*\//, "")}`
  await mountImage(host, image, at)
  await host.exec("cp", ["--archive", at, `${at}-go`])
  const leases = new Leases(host, `${at}/networks`)
  await host.exec("mkdir", ["-p", `${at}/networks/lab`])
  const found = leases.reservations()
  const torn = leases.torn().length

  // The reference plugin runs on a copy of the image.
  const go = new Leases(host, `${at}-go/networks`)
  const given = await go.add(theirs, "go")
  for (const address of given) equal(found.get(address), undefined)
  await succeed(go.run(theirs, "DEL", "go"))

  await succeed(leases.run(ours, "STATUS", ""))
  const own = await leases.add(ours, "new")
  deepEqual(leases.torn(), [])
  for (const name of living) await succeed(leases.run(ours, "DEL", name))
  const rest = [...leases.reservations()].filter(([address]) => !own.includes(address))
  for (const [address, text] of rest) {
    equal(found.get(address), text)
    ok(!living.includes(text.split("\r\n")[0] ?? ""), text)
  }
  const prevResult = {
    cniVersion: "1.1.0",
    ips: own.map((address) => ({ address: `${address}/${address.includes(":") ? 124 : 28}` })),
  }
  await succeed(leases.run(ours, "CHECK", "new", { prevResult }))
  await succeed(leases.run(ours, "GC", "", { "cni.dev/valid-attachments": [{ containerID: "new", ifname: "eth0" }] }))
  deepEqual([...leases.reservations().keys()].sort(), [...own].sort())
  const filled = await leases.fill()
  deepEqual([filled.length, new Set([...own, ...filled.flat()]).size], [capacity - 1, 2 * capacity])
  await host.exec("umount", [at])
  return torn
}
