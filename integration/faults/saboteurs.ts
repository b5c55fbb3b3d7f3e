import { readdir, rm, stat, truncate, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { runFirewalld, stopFirewalld } from "../firewall/firewalld-lab.ts"
import { type ContainerNamespace, type HostNamespace, waitFor } from "../lab/mod.ts"
import type { Gate } from "./gate.ts"
import type { Ledger } from "./ledger.ts"
import { bridges, uplink } from "./storm-networks.ts"

/** The objects that saboteurs disturb. */
export interface Scene {
  readonly host: HostNamespace
  readonly ledger: Ledger
  /** Allows only one change of firewalld at a time. */
  readonly firewalld: Gate
  /**
   * Returns the containers whose interfaces saboteurs may rename. Omits those of the Go plugins, which know their
   * interfaces only by name.
   */
  readonly pods: () => readonly ContainerNamespace[]
}

/** Ends a temporary change. */
export type Ending = () => Promise<unknown>

/**
 * A change by another program that disturbs plugins. `number` selects the object to change. If the change is temporary,
 * `act` returns the function that ends it.
 */
interface Saboteur {
  readonly what: string
  readonly act: (scene: Scene, number: number) => Promise<Ending | unknown>
}

const stores = "/var/lib/cni/networks"
const filler = "/var/lib/cni/filler"
/** The prefix of the name of a renamed bridge. */
export const renamedBridge = "old-"
/**
 * The content of a file that is not a reservation, because it has several words. The file then belongs to an operator,
 * and the address stays reserved.
 */
export const nonsense = "this is not a lease\n"

const any = <T>(values: readonly T[], number: number) => values[number % values.length]

/** Returns the names of the host's links that match a pattern. */
async function linksLike(host: HostNamespace, pattern: RegExp): Promise<string[]> {
  const links = await host.json<{ ifname: string }[]>("ip", ["-j", "link"])
  return links.map(({ ifname }) => ifname).filter((name) => pattern.test(name))
}

/** Returns paths, as the host sees them, of files in all stores or in one directory. */
async function filesIn(host: HostNamespace, directory: string, pattern: RegExp): Promise<string[]> {
  const names = await readdir(host.file(directory), { recursive: true }).catch(() => [] as string[])
  return names.filter((name) => pattern.test(name)).map((name) => join(directory, name))
}

/** Changes one file. Ignores errors, because the file may be deleted, and the disk may be full or read-only. */
async function toFile(
  { host }: Scene,
  number: number,
  [directory, pattern]: readonly [string, RegExp],
  act: (path: string) => Promise<unknown>,
): Promise<void> {
  const path = any(await filesIn(host, directory, pattern), number)
  if (path !== undefined) await act(host.file(path)).catch(() => undefined)
}

const leases = [stores, /^\w+\/[0-9a-f.:]+$/] as const
const cursors = [stores, /\/last_reserved_ip/] as const
const index = [stores, /\/\.index\/\w+/] as const
const backups = ["/run/cni", /\.json$/] as const

const rename = async (run: (words: string[]) => Promise<unknown>, from: string, to: string) => {
  await run(["link", "set", from, "down"])
  await run(["link", "set", from, "name", to])
  await run(["link", "set", to, "up"])
}
const ipOf = (host: HostNamespace) => (words: string[]) => host.tryExec("ip", words)

/**
 * Reloads firewalld. Restarts it if the reload fails, because firewalld cannot delete its table after a flush. Retries,
 * because firewalld exits if its rules are flushed while it starts.
 */
export async function reload(host: HostNamespace): Promise<void> {
  const isReloaded = async () => (await host.tryExec("firewall-cmd", ["--reload"])).exitCode === 0
  const restart = async () => {
    await stopFirewalld(host).catch(() => undefined) // it may have exited
    await runFirewalld(host)
    return true
  }
  await waitFor(async () => (await isReloaded()) || (await restart()), "firewalld to run", 240_000)
}

export const saboteurs: readonly Saboteur[] = [
  { what: "flush all of nf_tables", act: ({ host }) => host.tryExec("nft", ["flush", "ruleset"]) },
  {
    what: "flush iptables",
    act: ({ host }) =>
      host.tryExec("sh", ["-c", "for f in iptables ip6tables; do for t in filter nat; do $f -w -t $t -F; done; done"]),
  },
  {
    what: "delete a bridge",
    act: ({ host }, number) => host.tryExec("ip", ["link", "delete", any(bridges, number) ?? ""]),
  },
  {
    what: "rename a bridge",
    act: ({ host }, number) => rename(ipOf(host), any(bridges, number) ?? "", `${renamedBridge}${number % 1_000_000}`),
  },
  {
    what: "delete a link of the host",
    act: async ({ host }, number) => {
      const link = any(await linksLike(host, /^(veth|bwp|lost)/), number)
      if (link) await host.tryExec("ip", ["link", "delete", link])
    },
  },
  {
    what: "rename a link of the host",
    act: async ({ host }, number) => {
      const link = any(await linksLike(host, /^veth/), number)
      if (link) await rename(ipOf(host), link, `lost${number % 1_000_000}`)
    },
  },
  {
    what: "rename a container's interface",
    act: async ({ pods }, number) => {
      const pod = any(pods(), number)
      if (pod) await rename((words) => pod.tryExec("ip", words), "eth0", "moved0")
    },
  },
  {
    what: "delete a queueing discipline",
    act: async ({ host }, number) => {
      const link = any(await linksLike(host, /^(veth|bwp)/), number)
      if (link) await host.tryExec("tc", ["qdisc", "delete", "dev", link, any(["root", "ingress"], number >> 4) ?? ""])
    },
  },
  {
    what: "delete a lease",
    act: (scene, number) =>
      toFile(scene, number, leases, (path) => {
        scene.ledger.rob(path.replace(/.*\//, ""))
        return rm(path)
      }),
  },
  {
    what: "empty a lease", // restored, unless the index was destroyed too
    act: (scene, number) =>
      toFile(scene, number, leases, (path) => {
        scene.ledger.rob(path.replace(/.*\//, ""))
        return truncate(path, 0)
      }),
  },
  {
    what: "cut a lease",
    act: (scene, number) =>
      toFile(scene, number, leases, async (path) => {
        scene.ledger.rob(path.replace(/.*\//, ""))
        await truncate(path, (await stat(path)).size >> 1)
      }),
  },
  {
    what: "write nonsense into a lease",
    act: (scene, number) => toFile(scene, number, leases, (path) => writeFile(path, nonsense)),
  },
  {
    what: "delete a store",
    act: async ({ host, ledger }, number) => {
      const store = any(await readdir(host.file(stores)).catch(() => []), number)
      if (store === undefined) return
      for (const name of await readdir(host.file(`${stores}/${store}`)).catch(() => [])) ledger.rob(name)
      await rm(host.file(`${stores}/${store}`), { recursive: true, force: true }).catch(() => undefined)
    },
  },
  { what: "delete a cursor", act: (scene, number) => toFile(scene, number, cursors, (path) => rm(path)) },
  {
    what: "write nonsense into a cursor",
    act: (scene, number) => toFile(scene, number, cursors, (path) => writeFile(path, nonsense)),
  },
  { what: "delete a file of an index", act: (scene, number) => toFile(scene, number, index, (path) => rm(path)) },
  {
    what: "write nonsense into an index",
    act: (scene, number) => toFile(scene, number, index, (path) => writeFile(path, nonsense)),
  },
  { what: "delete a backup", act: (scene, number) => toFile(scene, number, backups, (path) => rm(path)) },
  { what: "cut a backup", act: (scene, number) => toFile(scene, number, backups, (path) => truncate(path, 20)) },
  {
    what: "fill the disk",
    act: async ({ host }) => {
      await host.tryExec("dd", ["if=/dev/zero", `of=${filler}`, "bs=64k"])
      // The file system may be temporarily read-only.
      const end = `until rm -f ${filler}; do mount -o remount,rw /var/lib/cni; done`
      return () => host.exec("sh", ["-c", end])
    },
  },
  ...["/var/lib/cni", "/run/cni"].map((directory) => ({
    what: `make ${directory} read-only`,
    act: async ({ host }: Scene) => {
      await host.tryExec("mount", ["-o", "remount,ro", directory])
      return () => host.exec("mount", ["-o", "remount,rw", directory])
    },
  })),
  {
    what: "rename the uplink",
    act: async ({ host }) => {
      await rename(ipOf(host), uplink, "downlink")
      return () => rename(ipOf(host), "downlink", uplink)
    },
  },
  { what: "reload firewalld", act: ({ host, firewalld }) => firewalld.alone(() => reload(host)) },
]
