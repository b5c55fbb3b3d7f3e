import type { Status } from "../../agent/mod.ts"
import { type PoolFile, poolPath, readPoolFile } from "../../ipam/host-local/main.ts"
import { decodeUtf8, encodeUtf8, monotonicMs } from "../../pkg/engine/mod.ts"
import { connectTo, type Fd, isErrno, Poll, poll, read, readTextFile, sleep, writeAll } from "../../pkg/libc/mod.ts"
import { concat } from "../../pkg/netlink/mod.ts"
import { isCniError, isJsonObject, type JsonValue } from "../../pkg/types/mod.ts"
import type { NetworkFile } from "./networks.ts"

/** A pool that a network takes its addresses from, as its file on this node is. */
export interface NodePool {
  readonly network: string
  readonly name: string
  readonly path: string
  readonly file?: PoolFile
  /** Why host-local does not believe the file. */
  readonly fault?: string
  /** Where the file has other blocks than the store, as the agent knows it: also at a second look. */
  readonly difference?: BlockDifference
}

/** Blocks by their prefixes. */
export interface BlockDifference {
  /** Those that the store says are this node's, and that are not in the file. */
  readonly missing: readonly string[]
  /** Those of the file that are not this node's. */
  readonly extra: readonly string[]
}

/** What the cluster's agent on this node answers, or why it does not. */
export type AgentAnswer = { readonly status: Status } | { readonly reason: string }

/** The pools of a node, and what its agent says of them. */
export interface NodePools {
  readonly pools: readonly NodePool[]
  /** The agent's socket. */
  readonly socket: string
  /** Absent where no network takes its addresses from a pool: then the node needs no agent. */
  readonly agent?: AgentAnswer
}

/** The agent's configuration, and its socket where that says nothing. */
const AGENT_CONFIG = "/etc/cni/agent.json"
const AGENT_SOCKET = "/run/cni-agent/agent.sock"

/** A claim and a release end with the file within milliseconds of the record, and within a second on a busy disk. */
const SECOND_LOOK_MS = 1000

/** An agent answers out of its memory, and on a busy machine after seconds. */
const PATIENCE_MS = 10_000
/** The status of an agent with ten thousand blocks is smaller. */
const ANSWER_MAX = 8 << 20

/** Reads the files of the pools that networks name, and asks the agent. Never throws for a file or an agent that cannot be used. */
export function readPools(networks: readonly NetworkFile[]): NodePools {
  const socket = socketOf(AGENT_CONFIG)
  const named = namedPools(networks)
  if (named.length === 0) return { pools: [], socket }
  const first = look(named, socket)
  if (!first.pools.some(({ difference }) => difference)) return { ...first, socket }
  sleep(SECOND_LOOK_MS)
  const second = look(named, socket)
  const pools = second.pools.map(({ difference, ...pool }, at): NodePool => {
    const lasting = difference && bothOf(difference, first.pools[at]?.difference)
    return lasting ? { ...pool, difference: lasting } : pool
  })
  return { pools, socket, agent: second.agent }
}

function look(named: ReturnType<typeof namedPools>, socket: string) {
  const agent = askAgentNow(socket)
  const pools = named.map((each): NodePool => {
    const pool = readPool(each)
    const difference = differenceOf(pool, agent)
    return difference ? { ...pool, difference } : pool
  })
  return { pools, agent }
}

/** The difference between a pool file and the store; `undefined` also when the store is unknown or not accepted. */
export function differenceOf({ name, file }: NodePool, agent: AgentAnswer): BlockDifference | undefined {
  if (!file || "reason" in agent || agent.status.store.stopped !== undefined) return undefined
  const told = agent.status.pools.find((pool) => pool.name === name)?.prefixes
  if (!told?.every(({ recorded }) => recorded)) return undefined
  const recorded = told.flatMap((prefix) => prefix.recorded ?? [])
  const inFile = file.sets.flatMap(({ blocks, draining }) => [...blocks, ...draining])
  return differenceOrNone({
    missing: recorded.filter((block) => !inFile.includes(block)),
    extra: inFile.filter((block) => !recorded.includes(block)),
  })
}

function bothOf(one: BlockDifference, other?: BlockDifference): BlockDifference | undefined {
  return differenceOrNone({
    missing: one.missing.filter((block) => other?.missing.includes(block)),
    extra: one.extra.filter((block) => other?.extra.includes(block)),
  })
}

function differenceOrNone(difference: BlockDifference): BlockDifference | undefined {
  return difference.missing.length + difference.extra.length > 0 ? difference : undefined
}

function namedPools(networks: readonly NetworkFile[]) {
  return networks.flatMap(({ network, pools }) =>
    pools.flatMap(({ pool }) => (pool && network ? [{ network: network.name, place: pool }] : [])),
  )
}

function readPool({ network, place }: ReturnType<typeof namedPools>[number]): NodePool {
  const about = { network, name: place.name, path: poolPath(place) }
  try {
    return { ...about, file: readPoolFile(place) }
  } catch (error) {
    if (!isCniError(error)) throw error
    return { ...about, fault: error.message.replace(`Cannot use pool "${place.name}": `, "") }
  }
}

/** The socket that the agent's configuration names. */
function socketOf(config: string): string {
  try {
    const read: JsonValue = JSON.parse(readTextFile(config))
    return isJsonObject(read) && typeof read.socket === "string" ? read.socket : AGENT_SOCKET
  } catch {
    return AGENT_SOCKET // the agent itself says what is wrong with its configuration
  }
}

/** Asks the agent for its status, like `curl --unix-socket PATH http://agent/status`. */
export function askAgentNow(socket: string): AgentAnswer {
  try {
    using connection = connectTo(socket)
    writeAll(connection.fd, encodeUtf8("GET /status HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"))
    const answer = readAnswer(connection.fd, socket)
    const body = answer.slice(answer.indexOf("\r\n\r\n") + 4)
    return /^HTTP\/1\.1 200 /.test(answer)
      ? { status: JSON.parse(body) as Status }
      : { reason: `it answers: ${body.trim()}` }
  } catch (error) {
    if (!(error instanceof Error)) throw error
    const known = isErrno(error)
      ? { ENOENT: `there is no "${socket}"`, ECONNREFUSED: `no process listens at "${socket}"` }[error.errno as string]
      : undefined
    return { reason: known ?? error.message }
  }
}

/** All of an answer, to the end of its connection. Throws where it takes too long, or is too long. */
function readAnswer(fd: Fd, socket: string): string {
  const end = monotonicMs() + PATIENCE_MS
  const buffer = new Uint8Array(65_536)
  const chunks: Uint8Array[] = []
  for (let size = 0; size < ANSWER_MAX; ) {
    if (!poll(fd, Poll.In, Math.max(0, end - monotonicMs())))
      throw new Error(`it has not answered at "${socket}" within ${PATIENCE_MS / 1000} s`)
    const length = read(fd, buffer)
    if (length === 0) return decodeUtf8(concat(chunks))
    chunks.push(buffer.slice(0, length))
    size += length
  }
  throw new Error("its answer is too long")
}
