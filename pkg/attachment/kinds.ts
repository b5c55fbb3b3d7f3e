import { isErrno } from "../libc/mod.ts"
import { addLink, type LinkKind, type NetlinkSocket } from "../netlink/mod.ts"
import { CniError, Code } from "../types/mod.ts"

/**
 * The kinds of containers' interfaces. `owner` names the link that has the owner's alias:
 *
 * - "host": the host's end of the pair. GC finds it without the container's namespace.
 * - "container": the interface itself. The kernel deletes it with its namespace.
 *
 * `module` is the kernel module that provides the kind. It is given only if `requireKind` can check the kind: if the
 * kernel refuses the kind without a parent, or with a multicast MAC.
 */
export const interfaceKinds = {
  veth: { owner: "host" },
  macvlan: { owner: "container", module: "macvlan" },
  ipvlan: { owner: "container", module: "ipvlan" },
  vlan: { owner: "container", module: "8021q" },
  dummy: { owner: "container", module: "dummy" },
  tun: { owner: "container" }, // the kernel's name for a tap
} as const satisfies Partial<Record<LinkKind, { owner: "host" | "container"; module?: string }>>

export type InterfaceKind = keyof typeof interfaceKinds

/** Kinds of links that chained plugins create, with the modules that provide them. */
const otherKinds = { ifb: { module: "ifb" }, vrf: { module: "vrf" } } as const satisfies Partial<
  Record<LinkKind, { module: string }>
>

type Kind = InterfaceKind | keyof typeof otherKinds

/**
 * Throws `CniError` if the kernel lacks a kind and has no module for it. Requests a link that no kernel creates,
 * because it has a multicast MAC and no parent. The kernel loads the module for this request, as for an ADD.
 */
export function requireKind(host: NetlinkSocket, kind: Kind): void {
  if (moduleOf(kind) === undefined) return
  try {
    addLink(host, { kind, name: `no-${kind}`, mac: "01:00:00:00:00:00" })
  } catch (error) {
    if (!isErrno(error, "EOPNOTSUPP")) return
    throw new CniError(Code.Internal, `Cannot create interfaces of kind "${kind}"`, { details: noKind(kind) })
  }
}

/** Returns the error text for a kind that the kernel lacks. */
export function noKind(kind: Kind): string {
  return `the kernel has no ${kind}: load the module "${moduleOf(kind) ?? kind}"`
}

function moduleOf(kind: Kind): string | undefined {
  const rows: Readonly<Record<Kind, { owner?: string; module?: string }>> = { ...interfaceKinds, ...otherKinds }
  return rows[kind].module
}
