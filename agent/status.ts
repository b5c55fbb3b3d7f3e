import { connect } from "node:net"
import type { NodeRanges } from "../ipam/host-local/main.ts"
import type { Stray } from "./ranges.ts"

/** What an agent says of itself and its node: `cni-agent status -o json`. */
export interface Status {
  readonly version: string
  /** The name of the Node object. */
  readonly node: string
  readonly server: string
  /** Why the Nodes cannot be followed now. */
  readonly fault?: string
  /** How many Nodes are known; absent until the first list. */
  readonly nodes?: number
  readonly network: NetworkStatus
  /** Absent where the agent keeps none. */
  readonly routes?: { readonly wanted: number; readonly faults: readonly string[] }
}

/** A network whose containers get addresses of the node's ranges. */
export interface NetworkStatus {
  readonly name: string
  readonly file: string
  readonly ranges: NodeRanges["ranges"]
  readonly former: NodeRanges["former"]
  /** Why the file has no ranges, or could not be written. */
  readonly fault?: string
  readonly strays: readonly Stray[]
}

/** Asks the agent at a socket for its status, like `curl --unix-socket PATH http://agent/status`. Throws what keeps it from answering. */
export async function askAgent(socket: string): Promise<Status> {
  let response: Response
  try {
    response = await fetch("http://localhost/status", { unix: socket, signal: AbortSignal.timeout(10_000) })
  } catch (cause) {
    throw new Error(`Cannot ask the agent at "${socket}": it does not run, or you are not root`, { cause })
  }
  if (!response.ok) throw new Error(`Cannot ask the agent at "${socket}": ${(await response.text()).trim()}`)
  return (await response.json()) as Status
}

/** Whether a process listens at a socket. */
export async function isListening(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(path, () => resolve(true)).on("error", () => resolve(false))
  const is = await promise
  socket.destroy()
  return is
}
