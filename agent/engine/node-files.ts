import { type FSWatcher, watch } from "node:fs"
import {
  formatPoolFile,
  listLeases,
  type PoolFile,
  poolPath,
  Store as Reservations,
  readPoolFile,
  reservationsIn,
  takenAddresses,
} from "../../ipam/host-local/main.ts"
import { decodeUtf8, encodeUtf8 } from "../../pkg/engine/mod.ts"
import {
  createFile,
  findFile,
  findStat,
  makeDirectories,
  readDirectory,
  readTextFile,
  rename,
  syncPath,
  tryUnlink,
} from "../../pkg/libc/mod.ts"
import { requireOwn } from "../../pkg/records/mod.ts"
import { CniError, Code, isCniError, parseIp } from "../../pkg/types/mod.ts"
import type { Owner } from "../records.ts"
import type { Memory, NodeFiles, Reservation, Watch } from "./surroundings.ts"

/** An ADD holds the lock for some milliseconds: the agent stands still for as long as it waits. */
const LOCK_MS = 2000
const MEMORY = ".agent.json"

export interface NodePlaces {
  /** "/var/lib/cni/pools" */
  readonly poolDir: string
  /** host-local's: "/var/lib/cni/networks" */
  readonly dataDir: string
  readonly owner: Owner
  log(line: string): void
  /** machine-id(5); another file is for tests. */
  readonly machineIdFile?: string
}

/** The files of this node on its disk. Makes the directory of the pools where it is missing. Throws `SyscallError`, `CniError`. */
export function openNodeFiles({ poolDir, dataDir, owner, log, machineIdFile }: NodePlaces): NodeFiles {
  makeDirectories(poolDir)
  requireOwn(poolDir)
  const place = (name: string) => ({ name, directory: poolDir, ...(machineIdFile !== undefined && { machineIdFile }) })
  const storeOf = (network: string) => `${dataDir}/${network}`
  const bootId = readTextFile("/proc/sys/kernel/random/boot_id").trim()
  const open = (network: string) =>
    new Reservations({ directory: storeOf(network), log, lockDeadlineMs: LOCK_MS, bootId })
  const known = new KnownFiles()
  return {
    owner,
    storeOf,
    fileOf: (pool) => poolPath(place(pool)),
    listPools: () => readDirectory(poolDir).flatMap((name) => /^([^.].*)\.json$/.exec(name)?.[1] ?? []),
    readPool: (pool) => known.read(poolPath(place(pool)), () => readUsable(() => readPoolFile(place(pool)))),
    writePool: (file) => {
      known.clear()
      writeDurably(poolDir, `${file.pool}.json`, formatPoolFile(file))
    },
    removePool: (pool) => {
      known.clear()
      if (tryUnlink(poolPath(place(pool)))) syncPath(poolDir)
    },
    takenAddresses: (network) => takenAddresses(open(network)),
    reservations: (network) =>
      listLeases(open(network)).flatMap(({ address, holder }) => reservationOf(address, holder)),
    reservationsIn: (network, prefix) =>
      reservationsIn(open(network), prefix).flatMap(({ address, holder }) => reservationOf(address, holder)),
    watchReservations: (network, changed) => watchStore(open(network), changed),
    readMemory: () => readMemory(`${poolDir}/${MEMORY}`),
    writeMemory: (memory) => writeDurably(poolDir, MEMORY, JSON.stringify(memory)),
  }
}

/** What was read of files, until they change: a pass asks for the file of a pool some six times. */
class KnownFiles {
  readonly #files = new Map<string, { readonly stamp: string; readonly file: PoolFile | undefined }>()

  read(path: string, read: () => PoolFile | undefined): PoolFile | undefined {
    const found = findStat(path)
    if (!found) return undefined
    const stamp = `${found.inode} ${found.changed} ${found.size}`
    const known = this.#files.get(path)
    if (known?.stamp === stamp) return known.file
    const file = read()
    this.#files.set(path, { stamp, file })
    return file
  }

  /** An inode is used again, and times are no finer than a tick: to be called before each write. */
  clear(): void {
    this.#files.clear()
  }
}

function readUsable(read: () => PoolFile): PoolFile | undefined {
  try {
    return read()
  } catch (error) {
    if (isCniError(error, Code.TryAgainLater)) return undefined // none, torn, or of another machine
    throw error
  }
}

/** Another file, fsync, rename, fsync of the directory: a reader sees the old text or the new one, also after a power cut. */
function writeDurably(directory: string, name: string, text: string): void {
  const draft = `${directory}/.new-${name}`
  tryUnlink(draft) // of an agent that was killed
  try {
    createFile(draft, encodeUtf8(text), 0o644)
    syncPath(draft)
    rename(draft, `${directory}/${name}`)
  } catch (error) {
    tryUnlink(draft)
    throw error
  }
  syncPath(directory)
}

function reservationOf(address: string, holder: ReturnType<typeof listLeases>[number]["holder"]): Reservation[] {
  if (!parseIp(address)) return []
  return [
    typeof holder === "object"
      ? { address, id: holder.containerId, ifName: holder.ifName }
      : { address, id: "", ifName: "" },
  ]
}

/**
 * Watches what ADD and DEL do: the files of addresses, and the drafts, which also an ADD makes that then finds no address. What is written
 * under the lock alone, by the agent too, is passed over.
 */
function watchStore(store: Reservations, changed: () => void): Watch {
  let watchers: FSWatcher[] = []
  const disarm = () => {
    for (const watcher of watchers) watcher.close()
    watchers = []
  }
  const told = (_: string, name: string | Buffer | null) => {
    if (watchers.length === 0 || /^(lock|\.index|last_reserved_ip.*|new)?$/.test(String(name))) return
    disarm()
    changed()
  }
  const arm = () => {
    for (const path of [store.directory, `${store.directory}/.index/new`]) watchers.push(watch(path, told))
  }
  return {
    arm() {
      if (watchers.length > 0) return
      try {
        arm()
      } catch (error) {
        disarm()
        if ((error as { code?: string }).code !== "ENOENT") throw error
        store.create()
        arm()
      }
    },
    [Symbol.dispose]: disarm,
  }
}

/** A memory that is torn or no memory is as good as none. */
function readMemory(path: string): Memory | undefined {
  const bytes = findFile(path)
  if (!bytes) return undefined
  try {
    const memory = JSON.parse(decodeUtf8(bytes)) as Partial<Memory> | null
    const { bootId, quarantined, epochs } = memory ?? {}
    const isMemory = typeof bootId === "string" && isObject(quarantined) && isObject(epochs)
    return isMemory ? (memory as Memory) : undefined
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof CniError) return undefined
    throw error
  }
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null
}
