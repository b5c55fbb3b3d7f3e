import { deepEqual, ok } from "node:assert/strict"
import { basename, join } from "node:path"
import { comeBack, leasesConfig, place } from "../faults/after-power-cut.ts"
import { mountImage } from "../faults/failing-disk.ts"
import { builtPlugins, type HostNamespace, runPlugin, succeed } from "../lab/mod.ts"
import type { PowerConsole } from "./power-console.ts"

/** Tells GC after a power cut that no attachment is valid. */
const noneValid = { "cni.dev/valid-attachments": [] }

/** The configurations of the plugins in a machine of `power-cuts.sh`. */
export const configs = {
  "host-local": { ...leasesConfig(), ...noneValid },
  flannel: { cniVersion: "1.1.0", name: "pods", type: "flannel", delegate: { type: "host-local" }, ...noneValid },
  dhcp: { cniVersion: "1.1.0", name: "site", type: "dhcp", ipam: { type: "dhcp" } },
}

/** The default directory of plugins' records, on which a machine mounts its disk. */
const disk = "/var/lib/cni"

/** The remains after a power cut. */
export interface Left {
  /** The number of torn reservations. */
  readonly torn: number
  /** The number of flannel's records and dhcp's leases, all complete. */
  readonly records: number
  readonly leases: number
}

/** Judges a disk after a power cut in another boot: host-local, then the data that must survive. Throws for errors. */
export async function judgeDisk(host: HostNamespace, image: string, console: PowerConsole): Promise<Left> {
  try {
    const torn = await comeBack(host, { image, living: console.living("host-local") })
    await mountImage(host, image, disk)
    const records = await requireRecords(host, [...console.answered("flannel", "ever").keys()])
    await deleteAll(host, console.living("flannel"))
    const leases = await requireLeases(host, console.answered("dhcp", "this boot"))
    return { torn, records, leases }
  } finally {
    for (const at of [disk, join(place, basename(image))]) await host.tryExec("umount", [at])
  }
}

/** Requires the record of each answered ADD of flannel, by which DEL finds the delegate. */
async function requireRecords(host: HostNamespace, containers: readonly string[]): Promise<number> {
  for (const name of containers)
    ok(isJson(await read(host, `${disk}/flannel/pods:${name}:eth1.json`)), `flannel has no whole record of ${name}`)
  return containers.length
}

/** Deletes all with DEL of flannel, which releases the delegate's reservations. */
async function deleteAll(host: HostNamespace, containers: readonly string[]): Promise<void> {
  for (const containerId of containers) {
    const call = { bin: join(builtPlugins, "flannel"), containerId, netns: "/run/netns/none", ifName: "eth1" }
    await succeed(runPlugin(host, { ...call, verb: "DEL", config: configs.flannel }))
  }
  const left = (await read(host, `${disk}/networks/pods/10.*`)).split(/\s+/)
  const stillHeld = containers.filter((name) => left.includes(name))
  deepEqual(stillHeld, [])
}

/**
 * Requires the lease of each answered ADD of dhcp in the journal. The daemon of this boot has removed those of earlier
 * boots.
 */
async function requireLeases(host: HostNamespace, given: ReadonlyMap<string, readonly string[]>): Promise<number> {
  const journal = (await read(host, `${disk}/dhcp/*.json`)).split("\n").filter(isJson)
  for (const [name, addresses] of given) {
    const record = journal.find((line) => line.includes(`"containerId":"${name}"`)) ?? ""
    for (const address of addresses)
      ok(record.includes(`"address":"${address}/`), `dhcp has no lease ${address} of ${name}`)
  }
  return given.size
}

/** Returns the content of the matching files, or "" without any. */
async function read(host: HostNamespace, pattern: string): Promise<string> {
  return (await host.tryExec("sh", ["-c", `cat ${pattern}`])).stdout
}

function isJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) === "object"
  } catch {
    return false
  }
}
