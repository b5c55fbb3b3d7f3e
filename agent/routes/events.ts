import { RouteGroup, RouteSocket } from "../../pkg/netlink/mod.ts"
import { pause } from "../api/client.ts"

const { Link, Ipv4Address, Ipv4Route, Ipv6Address, Ipv6Route } = RouteGroup
const GROUPS = Link | Ipv4Address | Ipv4Route | Ipv6Address | Ipv6Route
/** The wait after events that were lost. */
const AGAIN_MS = 1_000

/** Calls `changed` at once, and after changes of links, addresses and routes of this namespace, until `signal` is aborted. */
export async function followKernel(changed: () => void, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await followOnce(changed, signal)
    await pause(AGAIN_MS, signal)
  }
}

/**
 * What has changed is not read: a look at the table tells, and another process could have sent it. Bun's event loop waits for the socket as
 * for a pipe: no thread does, and no timer, while one of `Bun.connect` wakes the process each second. Ends when the kernel had to drop
 * events (`ENOBUFS`), and when `signal` is aborted.
 */
async function followOnce(changed: () => void, signal: AbortSignal): Promise<void> {
  using events = RouteSocket.subscribe(GROUPS)
  const reader = Bun.file(events.fd).stream().getReader()
  const stop = () => void reader.cancel().catch(() => {})
  signal.addEventListener("abort", stop)
  try {
    do changed()
    while (!signal.aborted && !(await reader.read()).done)
  } catch {
    return // the caller begins again: what was missed is seen by its first look
  } finally {
    signal.removeEventListener("abort", stop)
    stop()
  }
}
