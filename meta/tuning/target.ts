import { findHostEnd } from "../../pkg/attachment/mod.ts"
import { findLink, type Link, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import type { Call } from "../../pkg/skel/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"

/**
 * What is tuned: a container's namespace, its interface, and the other end of that when it is a veth. Sockets are opened
 * when they are first needed.
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

  /** Throws code 4 when the namespace does not exist or is none. */
  static open({ namespace, ifName }: Call): Target {
    return new Target(Netns.open(namespace), ifName)
  }

  /** For DEL: undefined when there is no namespace any more. */
  static find({ namespace, ifName }: Call): Target | undefined {
    const sandbox = Netns.find(namespace)
    return sandbox && new Target(sandbox, ifName)
  }

  /** The container's interface as it is now, if there is one. */
  findLink(): Link | undefined {
    return findLink(this.inside, this.#ifName)
  }

  /** The container's interface as it is now. Throws `CniError` when there is none. */
  getLink(): Link {
    const link = this.findLink()
    if (link) return link
    const place = `"${this.#ifName}" in "${this.sandbox.path}"`
    throw new CniError(Code.Internal, `Cannot tune interface ${place}: it does not exist`, {
      details: "a plugin that makes it belongs before this one in the chain",
    })
  }

  /** The host's end of a veth pair. Undefined for other links, and for a pair that ends in yet another namespace. */
  findPeer(link: Link): Link | undefined {
    return findHostEnd(this.host, this.sandbox, link)
  }

  /** A socket inside the sandbox. */
  get inside(): RouteSocket {
    this.#inside ??= this.sandbox.run(() => RouteSocket.open())
    return this.#inside
  }

  /** A socket in the host's namespace. */
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
