import { duplicate } from "../../pkg/libc/mod.ts"
import { RouteGroup, RouteSocket } from "../../pkg/netlink/mod.ts"
import type { Clock } from "../engine/surroundings.ts"
import { defaultAddresses } from "./addresses.ts"
import type { RouteKernel } from "./keeper.ts"
import { syncRoutes } from "./sync.ts"

const { Link, Ipv4Address, Ipv4Route, Ipv6Address, Ipv6Route } = RouteGroup
const GROUPS = Link | Ipv4Address | Ipv4Route | Ipv6Address | Ipv6Route
/** The wait after events that were lost. */
const AGAIN_MS = 1_000

/** The network of the process's namespace. `published` are the addresses of the configuration, if it names some. */
export function hostKernel(published: readonly string[] | undefined, clock: Pick<Clock, "sleep">): RouteKernel {
  const withSocket = <T>(work: (route: RouteSocket) => T): T => {
    using route = RouteSocket.open()
    return work(route)
  }
  return {
    addresses: () => published ?? withSocket(defaultAddresses),
    sync: (plan) => withSocket((route) => syncRoutes(route, plan)),
    async follow(changed, signal) {
      while (!signal.aborted) {
        await followOnce(changed, signal)
        if (!signal.aborted) await clock.sleep(AGAIN_MS, signal)
      }
    },
  }
}

/**
 * Calls `changed` at once, and after changes of links, addresses and routes. What has changed is not read: a look at the table tells, and
 * another process could have sent it. Bun's event loop waits for the socket, so that no thread does. Ends when the kernel had to drop events
 * (`ENOBUFS`), and when `signal` is aborted.
 */
async function followOnce(changed: () => void, signal: AbortSignal): Promise<void> {
  const { promise: closed, resolve: close } = Promise.withResolvers<void>()
  const options: Bun.FdSocketOptions = {
    fd: subscribe(), // Bun closes it
    socket: { data: () => changed(), close: () => close(), error: () => close() },
  }
  const socket = await Bun.connect(options as unknown as Bun.UnixSocketOptions) // the declarations leave it out
  const stop = () => socket.terminate()
  signal.addEventListener("abort", stop)
  changed()
  if (signal.aborted) stop()
  await closed
  signal.removeEventListener("abort", stop)
}

function subscribe(): number {
  using events = RouteSocket.subscribe(GROUPS)
  return duplicate(events.fd)
}
