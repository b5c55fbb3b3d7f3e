import { decodeUtf8 } from "../pkg/engine/mod.ts"
import { findFile } from "../pkg/libc/mod.ts"
import { isJsonObject, type JsonValue } from "../pkg/types/mod.ts"
import type { AgentConfig } from "./config.ts"
import { replaceFile } from "./durable.ts"

/**
 * Has the agent of this node trust its store as it is now. Where no agent runs, what the node remembers of the store is removed
 * from its file. Answers whether an agent was told. Throws what the agent says against it.
 */
export async function acceptStore({ socket, poolDir }: Pick<AgentConfig, "socket" | "poolDir">): Promise<boolean> {
  let response: Response
  try {
    response = await fetch("http://agent/accept-store", {
      unix: socket,
      method: "POST",
      signal: AbortSignal.timeout(30_000),
    })
  } catch (error) {
    if (error instanceof Error && error.name === "TimeoutError")
      throw new Error(`Cannot ask the agent at "${socket}": it has not answered within 30 s`)
    forgetStore(poolDir)
    return false
  }
  if (!response.ok) throw new Error(`Cannot accept the store: ${(await response.text()).trim()}`)
  return true
}

function forgetStore(poolDir: string): void {
  const path = `${poolDir}/.agent.json`
  const bytes = findFile(path)
  if (bytes === undefined) return
  const memory: JsonValue = JSON.parse(decodeUtf8(bytes))
  if (!isJsonObject(memory)) return
  const { store: _, ...rest } = memory
  replaceFile(path, JSON.stringify(rest))
}
