import { join } from "node:path"
import type * as ipRoom from "../../../pkg/ip/mod.ts"
import type * as netlink from "../../../pkg/netlink/mod.ts"
import type * as netns from "../../../pkg/netns/mod.ts"
import type * as sysctl from "../../../pkg/sysctl/mod.ts"
import type * as types from "../../../pkg/types/mod.ts"
import type { ContainerNamespace, HostNamespace } from "../../lab/mod.ts"

/** The modules that a function in the host's namespace can use, a socket in the host and a socket in the container. */
export type Kit = typeof netlink &
  typeof netns &
  typeof sysctl &
  typeof types &
  typeof ipRoom & { host: netlink.RouteSocket; inside: netlink.RouteSocket; sandbox: netns.Netns }

interface Options {
  /** Further modules of `pkg` for the function. */
  readonly more?: readonly string[]
  /** Further properties of the argument of `body`, as JSON values. */
  readonly given?: object
  /** Whether the process lacks CAP_NET_ADMIN, so that the kernel refuses every change of the network. */
  readonly isPowerless?: boolean
}

/**
 * Runs `body` in its own process in the host's namespace, and returns its result. The process gets the text of `body`,
 * so `body` can use only its argument. The result must be JSON. If `body` throws, the result is the error's code and
 * message.
 */
export async function runOnHost<T, More = unknown>(
  host: HostNamespace,
  pod: ContainerNamespace,
  body: (kit: Kit & More) => T,
  { more = [], given = {}, isPowerless = false }: Options = {},
): Promise<T> {
  const files = [...["ip", "netlink", "netns", "sysctl", "types"].map((room) => `${room}/mod.ts`), ...more]
  const imports = files.map(
    (file, at) => `import * as room${at} from ${JSON.stringify(join(import.meta.dir, "../../../pkg", file))}`,
  )
  const script = `${imports.join("\n")}
    const rooms = { ${files.map((_, at) => `...room${at}`).join(", ")} }
    const sandbox = rooms.Netns.open(${JSON.stringify(pod.path)})
    const host = rooms.RouteSocket.open()
    const inside = sandbox.run(() => rooms.RouteSocket.open())
    let result
    try {
      result = (${body})({ ...rooms, host, inside, sandbox, ...${JSON.stringify(given)} })
    } catch (error) {
      result = { code: error.code, message: error.message }
    }
    console.log(JSON.stringify({ result }))`
  const command = [...(isPowerless ? ["setpriv", "--bounding-set=-net_admin"] : []), process.execPath, "-e", script]
  const { stdout } = await host.exec("env", command)
  return JSON.parse(stdout).result as T
}
