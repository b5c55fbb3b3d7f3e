import { connect } from "node:net"
import type { NodeRanges } from "../ipam/host-local/main.ts"
import type { Stray } from "./ranges.ts"

/** The status of an agent and its node, as `cni-agent status -o json` prints it. */
export interface Status {
  readonly version: string
  readonly node: string
  readonly server: string
  /** The reason why the agent cannot follow the Nodes at present. */
  readonly fault?: string
  /** The number of known Nodes. Absent before the first list is complete. */
  readonly nodes?: number
  readonly network: NetworkStatus
  /** The routes to other nodes. Absent if the agent maintains no routes. */
  readonly routes?: { readonly wanted: number; readonly faults: readonly string[] }
}

/** A network whose containers get addresses from the node's ranges. */
export interface NetworkStatus {
  readonly name: string
  readonly file: string
  readonly ranges: NodeRanges["ranges"]
  readonly former: NodeRanges["former"]
  /** The reason why the file has no ranges, or why it could not be written. */
  readonly fault?: string
  readonly strays: readonly Stray[]
}

/**
 * Returns an agent's status, like `curl --unix-socket PATH http://agent/status`. Throws if the agent does not answer.
 */
export async function askAgent(socket: string): Promise<Status> {
  let response: Response
  try {
    response = await fetch("http://localhost/status", { unix: socket, signal: AbortSignal.timeout(10_000) })
  } catch (cause) {
    throw new Error(`Cannot query the agent at "${socket}": it is not running, or you are not root`, { cause })
  }
  if (!response.ok) throw new Error(`Cannot query the agent at "${socket}": ${(await response.text()).trim()}`)
  return (await response.json()) as Status
}

export async function isListening(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(path, () => resolve(true)).on("error", () => resolve(false))
  const is = await promise
  socket.destroy()
  return is
}
