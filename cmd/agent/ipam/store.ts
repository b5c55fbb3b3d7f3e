import { type AgentConfig, defaultConfigPath, openStore, readAgentConfig, type Store } from "../../../agent/mod.ts"
import { type Arguments, outputFlags, text, UsageError } from "../../../tools/command.ts"
import type { Terminal } from "../../../tools/environment.ts"
import { configFlag } from "../flags.ts"

/** The flags of every command that asks the store of the cluster. */
export const storeFlags = {
  ...configFlag,
  ...outputFlags,
} as const

/** The agent's configuration. */
export function configOf(args: Arguments): AgentConfig {
  return readAgentConfig(text(args, "config") ?? defaultConfigPath)
}

/** Opens the store that the agent's configuration names, for as long as `use` takes. */
export async function withStore<T>(
  args: Arguments,
  terminal: Terminal,
  use: (store: Store, config: AgentConfig) => Promise<T>,
): Promise<T> {
  const config = configOf(args)
  await using store = await openStore(config.store, terminal.env)
  return await use(store, config)
}

const secondsOf = { s: 1, m: 60, h: 3600, d: 86_400 } as const

/** "24h", "30m", "90s", "7d" in seconds. Throws for anything else. */
export function readDuration(flag: string, given: string): number {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(given) ?? []
  if (count === undefined) throw new UsageError(`cannot use ${flag} ${given}: expected a duration like 24h, 30m or 90s`)
  return Number(count) * secondsOf[unit as keyof typeof secondsOf]
}

/** "24h", in the largest unit that is exact. */
export function durationText(seconds: number): string {
  const units = Object.entries(secondsOf).reverse()
  const [unit, size] = units.find(([, size]) => seconds % size === 0 && seconds >= size) ?? ["s", 1]
  return `${seconds / size}${unit}`
}
