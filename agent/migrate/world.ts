import { listLeases, Store as ReservationStore, readPoolFile } from "../../ipam/host-local/main.ts"
import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { findFile, makeDirectories, randomHex, stat, tryUnlink } from "../../pkg/libc/mod.ts"
import { loadNetworkFile, networkFiles } from "../../pkg/libcni/mod.ts"
import { CniError, Code, isCniError } from "../../pkg/types/mod.ts"
import type { AgentConfig } from "../config.ts"
import { replaceFile } from "../durable.ts"
import { changeReserved, listPools, putPool } from "../pools.ts"
import { type Block, isSameOwner, keyOf, type Owner, type Pool } from "../records.ts"
import { type Store, StoreError } from "../store.ts"
import type { HostLocalScene } from "./ranges.ts"
import type { Saved, World } from "./steps.ts"

/** The places of a node that a migration has to do with. */
export interface Places extends Pick<AgentConfig, "poolDir" | "dataDir"> {
  readonly confDir: string
}

/** How long a running agent may take to write a file. */
const PATIENCE_MS = 60_000
const LOOK_AGAIN_MS = 200
/** How often a claim is sent again whose answer was lost. */
const ATTEMPTS = 20

/** The node and the store as a migration uses them. */
export function openWorld(store: Store, owner: Owner, { poolDir }: Places): World {
  const savedPath = (network: string) => `${poolDir}/.migration-${network}.json`
  return {
    owner,
    readSaved: (network) => {
      const text = readIfPresent(savedPath(network))
      return text === undefined ? undefined : (JSON.parse(text) as Saved)
    },
    save: (saved) => {
      makeDirectories(poolDir)
      replaceFile(savedPath(saved.network), JSON.stringify(saved), 0o600)
    },
    forget: (network) => void tryUnlink(savedPath(network)),
    readText: readIfPresent,
    writeText: (file, text) => replaceFile(file, text, stat(file).mode & 0o7777),
    claim: (pool, prefix) => claimFor(store, owner, pool, prefix),
    register: (pool) => putPool(store, pool),
    reserve: (pool, change) => changeReserved(store, pool, change),
    awaitBlocks: (pool, blocks) => awaitBlocks(poolDir, pool, blocks),
  }
}

/** Finds the configuration file of a network, and reads it. Throws code 7 if no file is of the network. */
export function findNetwork(confDir: string, network: string): { file: string; text: string } {
  for (const file of networkFiles(confDir)) {
    const text = readIfPresent(file)
    if (text !== undefined && nameIn(file) === network) return { file, text }
  }
  throw new CniError(Code.InvalidNetworkConfig, `Cannot find network "${network}" in "${confDir}"`)
}

/** All that a plan goes by. */
export async function readScene(
  store: Store,
  world: World,
  { network, poolName, places }: { network: string; poolName: string; places: Places },
): Promise<HostLocalScene> {
  const { file, text } = findNetwork(places.confDir, network)
  const pool = (await listPools(store)).find(({ name }) => name === poolName)
  const directory = `${places.dataDir}/${network}`
  return {
    network,
    file,
    text,
    saved: world.readSaved(network),
    poolName,
    poolDir: places.poolDir === "/var/lib/cni/pools" ? undefined : places.poolDir,
    directory,
    pool,
    blocks: await readBlocksOf(store, poolName),
    inFile: blocksInFile(places.poolDir, poolName),
    owner: world.owner,
    reservations: reservationsOf(directory),
    cursors: cursorsOf(directory, pool),
  }
}

/** The records of a pool's blocks. */
export async function readBlocksOf(store: Store, pool: string): Promise<Block[]> {
  return (await store.list("block")).flatMap(({ value }) => (value.pool === pool ? [value] : []))
}

function reservationsOf(directory: string): HostLocalScene["reservations"] {
  const leases = listLeases(new ReservationStore({ directory, log: () => {} })).sort((a, b) =>
    a.address < b.address ? -1 : 1,
  )
  return leases.map(({ address, holder }) => {
    const isKnown = typeof holder === "object"
    return { address, id: isKnown ? holder.containerId : "", ifName: isKnown ? holder.ifName : "" }
  })
}

/** The addresses that range sets have handed out last: there are as many sets as families, at most. */
function cursorsOf(directory: string, pool: Pool | undefined): (string | undefined)[] {
  const count = Math.max(2, pool?.prefixes.length ?? 0)
  return Array.from({ length: count }, (_, at) => readIfPresent(`${directory}/last_reserved_ip.${at}`)?.trim())
}

function blocksInFile(directory: string, name: string): string[] {
  try {
    return readPoolFile({ directory, name }).sets.flatMap(({ blocks, draining }) => [...blocks, ...draining])
  } catch (error) {
    if (isCniError(error)) return [] // host-local takes no address of it either
    throw error
  }
}

/** Claims a block as the agent does: a claim whose answer was lost is sent again with the same nonce. */
async function claimFor(store: Store, owner: Owner, pool: string, prefix: string): Promise<void> {
  const block: Block = { pool, prefix, owner, nonce: randomHex(16), epoch: 1, state: "owned" }
  const key = keyOf.block(block)
  for (let attempt = 1; ; attempt++) {
    try {
      const found = (await store.create("block", key, block)) ?? (await store.find("block", key))
      if (found && isSameOwner(found.value.owner, owner)) return
      if (found)
        throw new CniError(Code.TryAgainLater, `Cannot claim block ${prefix}: node "${found.value.owner.name}" owns it`)
    } catch (error) {
      if (!(error instanceof StoreError && error.outcome === "unknown") || attempt === ATTEMPTS) throw error
    }
    if (attempt === ATTEMPTS)
      throw new CniError(Code.TryAgainLater, `Cannot claim block ${prefix}: it changes all the time`)
  }
}

async function awaitBlocks(directory: string, pool: string, blocks: readonly string[]): Promise<void> {
  for (let waitedMs = 0; ; waitedMs += LOOK_AGAIN_MS) {
    const there = blocksInFile(directory, pool)
    const missing = blocks.filter((block) => !there.includes(block))
    if (missing.length === 0) return
    if (waitedMs >= PATIENCE_MS) {
      const reason = `the agent has not written ${missing.join(", ")} to "${directory}/${pool}.json" within ${PATIENCE_MS / 1000} s`
      throw new CniError(Code.TryAgainLater, `Cannot go on: ${reason}`, {
        details: 'see "cni-agent status"; run this again when it runs, and it goes on from here',
      })
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }
}

function nameIn(file: string): string | undefined {
  try {
    return loadNetworkFile(file).name
  } catch {
    return undefined // a file that no runtime can use
  }
}

function readIfPresent(path: string): string | undefined {
  const bytes = findFile(path)
  return bytes && decodeUtf8(bytes)
}
