import type { Pool, PoolPrefix } from "../../../agent/mod.ts"
import { contains, parseCidr, parseIp, type Route } from "../../../pkg/types/mod.ts"
import { type Arguments, type Flag, text, texts, UsageError } from "../../../tools/command.ts"
import { readDuration } from "./store.ts"

const DEFAULT_QUARANTINE = "24h"

/** The flags that describe a pool. */
export const poolFlags = {
  prefix: {
    type: "string",
    multiple: true,
    value: "CIDR",
    help: "the addresses of the pool, one prefix of each family",
  },
  "block-length": {
    type: "string",
    multiple: true,
    value: "BITS",
    help: "the prefix length of blocks, for each --prefix in its order (default 26, and 122 for IPv6)",
  },
  gateway: {
    type: "string",
    multiple: true,
    value: "IP",
    help: "the gateway of a link that all nodes share; without it each block is a subnet, and its first address the gateway",
  },
  reserved: {
    type: "string",
    multiple: true,
    value: "CIDR",
    help: "addresses that are never handed out; may be repeated",
  },
  route: { type: "string", multiple: true, value: "CIDR[,GW]", help: "a route of results; may be repeated" },
  network: {
    type: "string",
    value: "NETWORK",
    help: "the CNI network whose containers get the addresses (default: the pool's name)",
  },
  quarantine: {
    type: "string",
    value: "TIME",
    help: `how long the blocks of a missing node are not reused (default ${DEFAULT_QUARANTINE})`,
  },
  routing: {
    type: "string",
    value: "HOW",
    choices: ["none", "host-gw"],
    help: "none, or host-gw: agents keep routes to the blocks of other nodes (default none)",
  },
} as const satisfies Record<string, Flag>

/** The pool that the flags describe. What cannot be understood is a usage error; the registry checks the rest. */
export function poolOf(name: string, args: Arguments): Pool {
  const prefixes = texts(args, "prefix")
  if (prefixes.length === 0) throw new UsageError("give --prefix, like 10.64.0.0/16")
  const lengths = texts(args, "block-length")
  if (lengths.length > prefixes.length) throw new UsageError("there are more --block-length than --prefix")
  const parsed = prefixes.map((prefix, at): PoolPrefix => {
    if (!parseCidr(prefix)) throw new UsageError(`cannot use --prefix ${prefix}: expected a prefix like 10.64.0.0/16`)
    const length = lengths[at] ?? (prefix.includes(":") ? "122" : "26")
    if (!/^\d{1,3}$/.test(length))
      throw new UsageError(`cannot use --block-length ${length}: expected a number like 26`)
    return { prefix, blockLength: Number(length), reserved: [] }
  })
  const assigned = assign(parsed, "reserved", texts(args, "reserved"))
  const gateways = assign(parsed, "gateway", texts(args, "gateway"))
  const routing = text(args, "routing") === "host-gw" ? "host-gw" : "none"
  return {
    name,
    prefixes: parsed.map((each, at) => {
      const [gateway, second] = gateways[at] ?? []
      if (second !== undefined) throw new UsageError(`there are two --gateway for ${each.prefix}`)
      return { ...each, ...(gateway === undefined ? {} : { gateway }), reserved: assigned[at] ?? [] }
    }),
    routes: texts(args, "route").map(routeOf),
    network: text(args, "network") ?? name,
    quarantineS: readDuration("--quarantine", text(args, "quarantine") ?? DEFAULT_QUARANTINE),
    routing,
  }
}

/** The values of a flag, for each prefix those that lie in it. */
function assign(prefixes: readonly PoolPrefix[], flag: string, values: readonly string[]): string[][] {
  const assigned = prefixes.map((): string[] => [])
  for (const value of values) {
    const ip = parseCidr(value)?.ip ?? parseIp(value)
    const at = prefixes.findIndex(({ prefix }) => {
      const whole = parseCidr(prefix)
      return ip && whole && whole.ip.length === ip.length && contains(whole, ip)
    })
    if (at < 0) throw new UsageError(`cannot use --${flag} ${value}: it is in no --prefix`)
    assigned[at]?.push(value)
  }
  return assigned
}

function routeOf(written: string): Route {
  const [dst = "", gw] = written.split(",")
  if (parseCidr(dst) && (gw === undefined || parseIp(gw))) return { dst, ...(gw === undefined ? {} : { gw }) }
  throw new UsageError(`cannot use --route ${written}: expected a prefix, or a prefix and a gateway, like 0.0.0.0/0`)
}
