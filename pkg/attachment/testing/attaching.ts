import type { RouteSocket } from "../../netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../../netlink/testing/links.ts"
import type { Result } from "../../types/mod.ts"
import { Undo } from "../../undo/mod.ts"
import type { Attaching, Checking } from "../plugin.ts"

/** An empty result of an IPAM plugin, with which a plugin changes no setting of the interface. */
export const nothingLeased: Result = { interfaces: [], ips: [], routes: [], dns: {} }

/** An attachment of interface `eth0` during its ADD. A simulated kernel has the links of host and container. */
export class TestAttaching {
  readonly kernel: LinksKernel
  readonly undo = new Undo(() => {})

  constructor(present: readonly KernelLink[], options?: ConstructorParameters<typeof LinksKernel>[1]) {
    this.kernel = new LinksKernel(present, options)
  }

  get attaching(): Attaching {
    const route = this.kernel.socket as RouteSocket
    const parts = {
      call: { ifName: "eth0", netns: "/run/netns/c1", network: { cniVersion: "1.1.0", name: "lab", type: "x" } },
      owner: { network: "lab", containerId: "c1", ifName: "eth0" },
      host: route,
      inside: route,
      sandbox: { fd: 77, run: <T>(action: () => T) => action() },
      filter: undefined,
      undo: this.undo,
    }
    return parts as unknown as Attaching
  }

  checking(link: KernelLink): Checking {
    return { ...this.attaching, link: linkOf(link) } as unknown as Checking
  }

  /** The requests for links so far, as "add", "set" and so on. */
  get verbs(): string[] {
    return this.kernel.links.map(({ verb }) => verb)
  }
}
