import { RouteGroup, RouteSocket } from "../../pkg/netlink/mod.ts"
import { pause } from "../api/client.ts"
import { ROUTE_PROTOCOL } from "./sync.ts"

const { Link, Ipv4Address, Ipv4Route, Ipv6Address, Ipv6Route } = RouteGroup
const GROUPS = Link | Ipv4Address | Ipv4Route | Ipv6Address | Ipv6Route
/** The pause in milliseconds after events were lost. */
const AGAIN_MS = 1_000

const RTM_NEWROUTE = 24
/** Offsets in a message: its type, and `rtm_protocol` after the header of 16 bytes. */
const [TYPE_AT, PROTOCOL_AT] = [4, 21]

/** Calls `changed` now, and after changes of links, addresses and routes of this namespace, until `signal` aborts. */
export async function followKernel(changed: () => void, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await followOnce(changed, signal)
    await pause(AGAIN_MS, signal)
  }
}

/**
 * Calls `changed` at once and after events, until the kernel drops some (`ENOBUFS`) or `signal` is aborted. Ignores new
 * routes of the agent itself. Does not decode events, because the caller reads the whole table, and another process
 * could have sent them. The event loop reads the socket like a pipe. A socket of `Bun.connect` would wake the process
 * each second.
 */
async function followOnce(changed: () => void, signal: AbortSignal): Promise<void> {
  using events = RouteSocket.subscribe(GROUPS)
  const reader = Bun.file(events.fd).stream().getReader()
  const stop = () => void reader.cancel().catch(() => {})
  signal.addEventListener("abort", stop)
  try {
    changed()
    for (let { done, value } = await reader.read(); !done && !signal.aborted; { done, value } = await reader.read())
      if (!value || !isOwnAlone(value)) changed()
  } catch {
    return // the caller starts again and reads the table first
  } finally {
    signal.removeEventListener("abort", stop)
    stop()
  }
}

/** Reports whether all messages announce new routes of the agent. */
export function isOwnAlone(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = 0
  while (at + PROTOCOL_AT < bytes.length) {
    const length = view.getUint32(at, true)
    const isOwn = view.getUint16(at + TYPE_AT, true) === RTM_NEWROUTE && bytes[at + PROTOCOL_AT] === ROUTE_PROTOCOL
    if (!isOwn || length <= PROTOCOL_AT) return false
    at += (length + 3) & ~3
  }
  return at === bytes.length
}
