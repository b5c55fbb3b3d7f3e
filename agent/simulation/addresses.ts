import type { PoolSet } from "../../ipam/host-local/main.ts"

/** The addresses of small IPv4 blocks, and which block an address lies in: the simulation's own arithmetic, once for each block. */
const known = new Map<string, readonly string[]>()

/** The addresses of a block that a container may get: all but the pool's gateway and its first and last address. */
export function addressesOf(block: string, set: Pick<PoolSet, "prefix" | "gateway">): readonly string[] {
  const key = `${block} ${set.prefix} ${set.gateway ?? ""}`
  let found = known.get(key)
  if (!found) {
    const pool = allOf(set.prefix)
    const kept = new Set([pool[0], pool.at(-1), set.gateway])
    found = allOf(block).filter((address) => !kept.has(address))
    known.set(key, found)
  }
  return found
}

/** Whether an address lies in a prefix. */
export function isIn(address: string, prefix: string): boolean {
  const { first, count } = rangeOf(prefix)
  const value = numberOf(address)
  return value >= first && value < first + count
}

function allOf(prefix: string): string[] {
  const { first, count } = rangeOf(prefix)
  return Array.from({ length: count }, (_, at) => textOf(first + at))
}

function rangeOf(prefix: string): { first: number; count: number } {
  const [address = "", length] = prefix.split("/")
  return { first: numberOf(address), count: 2 ** (32 - Number(length)) }
}

function numberOf(address: string): number {
  return address.split(".").reduce((value, part) => value * 256 + Number(part), 0)
}

function textOf(value: number): string {
  return [24, 16, 8, 0].map((bits) => Math.floor(value / 2 ** bits) % 256).join(".")
}
