import type { Endpoint } from "../../agent/mod.ts"
import { parseIp } from "../../pkg/types/mod.ts"
import { UsageError } from "../../tools/command.ts"

/** Parses "127.0.0.1:9817" or "[::1]:9817". Throws `UsageError` for other texts. */
export function readEndpoint(text: string): Endpoint {
  const [, bracketed, plain, digits = ""] = /^(?:\[([^\]]+)\]|([^:]+)):([0-9]{1,5})$/.exec(text) ?? []
  const hostname = bracketed ?? plain
  const port = Number(digits)
  const ip = hostname === undefined ? undefined : parseIp(hostname)
  const isRight = ip !== undefined && (ip.length === 16) === (bracketed !== undefined) && port > 0 && port <= 65535
  if (hostname !== undefined && isRight) return { hostname, port }
  throw new UsageError(`cannot use --http ${text}: expected an address such as 127.0.0.1:9817 or [::1]:9817`)
}
