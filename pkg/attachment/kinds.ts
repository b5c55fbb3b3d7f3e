import { isErrno } from "../libc/mod.ts"
import { addLink, type LinkKind, type NetlinkSocket } from "../netlink/mod.ts"
import { CniError, Code } from "../types/mod.ts"

/**
 * The kinds of interfaces that containers are given, and on which link the alias with the owner's name is. "host": on the
 * host's end of the pair, where GC finds it without the container's namespace. "container": on the interface itself, which
 * the kernel deletes together with its namespace. `module`: what to load where the kernel has no such links, which STATUS
 * looks at; for kinds that netlink makes on a parent, or that refuse a group's MAC.
 */
export const interfaceKinds = {
  veth: { owner: "host" },
  macvlan: { owner: "container", module: "macvlan" },
  ipvlan: { owner: "container", module: "ipvlan" },
  vlan: { owner: "container", module: "8021q" },
  dummy: { owner: "container", module: "dummy" },
  tun: { owner: "container" }, // what the kernel calls a tap
} as const satisfies Partial<Record<LinkKind, { owner: "host" | "container"; module?: string }>>

export type InterfaceKind = keyof typeof interfaceKinds

/** Kinds of links that chained plugins make, and what to load for them. */
const otherKinds = { ifb: { module: "ifb" }, vrf: { module: "vrf" } } as const satisfies Partial<
  Record<LinkKind, { module: string }>
>

type Kind = InterfaceKind | keyof typeof otherKinds

/**
 * Throws `CniError` when the kernel has no links of a kind, where that can be asked. The request cannot make one: a group's
 * MAC is no link's, and ipvlan, which does not look at it, needs a parent. It loads the module, as ADD does.
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

/** What errors say of a kind that the kernel does not have. */
export function noKind(kind: Kind): string {
  return `the kernel has no ${kind}: load the module "${moduleOf(kind) ?? kind}"`
}

function moduleOf(kind: Kind): string | undefined {
  const rows: Readonly<Record<Kind, { owner?: string; module?: string }>> = { ...interfaceKinds, ...otherKinds }
  return rows[kind].module
}
