import { findHostEnd, findSandbox, openSandbox } from "../../pkg/attachment/mod.ts"
import {
  findLink,
  IFF_ALLMULTI,
  IFF_PROMISC,
  type Link,
  type NetlinkSocket,
  RouteSocket,
  setLink,
} from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import type { InsideCall } from "../../pkg/skel/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"

/** The keys of a link's settings in configuration and backup, in the order in which settings are changed. */
export const linkKeys = ["mac", "promisc", "mtu", "allmulti", "txQLen"] as const

/** Settings of a link. If a setting is undefined, it is left unchanged. */
export interface LinkValues {
  /** "0a:58:0a:01:02:03", in lower case */
  mac?: string | undefined
  promisc?: boolean | undefined
  /** In bytes. */
  mtu?: number | undefined
  allmulti?: boolean | undefined
  /** In packets. */
  txQLen?: number | undefined
}

/**
 * Returns the current settings of a link. `promisc` and `allmulti` report only flags that were set explicitly, as by
 * `ip link set NAME promisc on`, not those that a packet capture or a bridge sets.
 */
export function valuesOf({ mac, mtu, flags, attributes }: Link): Required<LinkValues> {
  const promisc = (flags & IFF_PROMISC) !== 0
  const allmulti = (flags & IFF_ALLMULTI) !== 0
  return { mac, promisc, mtu, allmulti, txQLen: attributes.txQueueLength ?? 0 }
}

export function hasValues(values: LinkValues): boolean {
  for (const key of linkKeys) if (values[key] !== undefined) return true
  return false
}

/** Changes the settings of a link that differ from `wanted`, like `ip link set`. Throws `CniError`. */
export function setValues(route: NetlinkSocket, link: Link, wanted: LinkValues): void {
  const present = valuesOf(link)
  for (const key of linkKeys) {
    if (wanted[key] !== undefined && wanted[key] !== present[key]) setValue(route, link, key, wanted)
  }
}

/** Changes one setting of a link. Throws `CniError` with the key, the value and the kernel's reason. */
export function setValue(route: NetlinkSocket, link: Link, key: keyof LinkValues, values: LinkValues): void {
  const what = `set "${key}" of "${link.name}" to ${values[key]}`
  if (key === "mac" && link.mac !== "" && values.mac?.length !== link.mac.length) {
    // Of a longer address the kernel would use only the first bytes.
    throw new CniError(Code.InvalidNetworkConfig, `Cannot ${what}: expected an address as long as ${link.mac}`)
  }
  try {
    setLink(route, link, { [changeNames[key]]: values[key] })
  } catch (cause) {
    const reason = cause instanceof Error && "errno" in cause ? cause.errno : "failed"
    throw new CniError(Code.Internal, `Cannot ${what}: ${reason}`, { cause })
  }
}

/** The names of the settings in `setLink`. */
const changeNames = {
  mac: "mac",
  promisc: "promiscuous",
  mtu: "mtu",
  allmulti: "allMulticast",
  txQLen: "txQueueLength",
} as const

/**
 * The objects that tuning changes: namespace, interface, and the peer of a veth. The first use of a socket opens it.
 */
export class Target implements Disposable {
  readonly sandbox: Netns
  readonly #ifName: string
  #inside: RouteSocket | undefined
  #host: RouteSocket | undefined

  private constructor(sandbox: Netns, ifName: string) {
    this.sandbox = sandbox
    this.#ifName = ifName
  }

  /** Opens a call's namespace. Throws code 4 unless the path is a namespace, and not that of another container. */
  static open(call: InsideCall): Target {
    return new Target(openSandbox(call), call.ifName)
  }

  /** Opens the namespace for DEL. Returns undefined if the namespace no longer exists. */
  static find(call: InsideCall): Target | undefined {
    const sandbox = findSandbox(call)
    return sandbox && new Target(sandbox, call.ifName)
  }

  /** Returns the container's interface in its current state; undefined if the interface does not exist. */
  findLink(): Link | undefined {
    return findLink(this.inside, this.#ifName)
  }

  /** Returns the container's interface in its current state. Throws `CniError` if the interface does not exist. */
  getLink(): Link {
    const link = this.findLink()
    if (link) return link
    const place = `"${this.#ifName}" in "${this.sandbox.path}"`
    throw new CniError(Code.Internal, `Cannot tune interface ${place}: it does not exist`, {
      details: "put a plugin that creates it before this one in the chain",
    })
  }

  /** Returns the peer of a veth if it is in the host's namespace; undefined otherwise and for other kinds. */
  findPeer(link: Link): Link | undefined {
    return findHostEnd(this.host, this.sandbox, link)
  }

  get inside(): RouteSocket {
    this.#inside ??= this.sandbox.openRoute()
    return this.#inside
  }

  get host(): RouteSocket {
    this.#host ??= RouteSocket.open()
    return this.#host
  }

  [Symbol.dispose](): void {
    this.#host?.[Symbol.dispose]()
    this.#inside?.[Symbol.dispose]()
    this.sandbox[Symbol.dispose]()
  }
}
