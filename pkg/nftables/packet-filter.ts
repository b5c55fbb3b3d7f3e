import { isErrno } from "../libc/mod.ts"
import { type NetlinkSocket, netfilterHeader } from "../netlink/mod.ts"
import { tableAttributes } from "./attributes.ts"
import { hasNftables, type Netfilter, openNetfilter } from "./netfilter-socket.ts"
import type { Table } from "./rule-set.ts"
import { familyNumber, NFGENMSG_SIZE, NFT_MSG_GETTABLE } from "./uapi.ts"

/**
 * nf_tables of the thread's namespace: one socket for all that a plugin does there, and which tables there are, asked for
 * once, when somebody wants to know. Whoever has something to remove looks among them first: mostly there is nothing to
 * look into.
 *
 * Keep it open until the container's interface is deleted: the kernel frees rules while it waits for the link, and closing
 * right after a removal waits for that alone.
 */
export class PacketFilter implements Disposable {
  readonly socket: NetlinkSocket
  #tables: readonly Table[] | undefined

  private constructor(socket: NetlinkSocket) {
    this.socket = socket
  }

  /** Undefined when the kernel has no packet filter, or one without nf_tables. Throws `EPERM` without CAP_NET_ADMIN. */
  static find(): PacketFilter | undefined {
    const socket = openIfPossible()
    if (!socket) return undefined
    let filter: PacketFilter | undefined
    try {
      if (hasNftables(socket)) filter = new PacketFilter(socket)
      return filter
    } finally {
      if (!filter) socket[Symbol.dispose]()
    }
  }

  /** Whether there is a table of this name, in whichever family. Throws `NetlinkError`. */
  hasTable(name: string): boolean {
    for (const table of this.#list()) if (table.name === name) return true
    return false
  }

  /** Whether there is any table of this family. Throws `NetlinkError`. */
  hasFamily(family: Table["family"]): boolean {
    for (const table of this.#list()) if (table.family === family) return true
    return false
  }

  #list(): readonly Table[] {
    this.#tables ??= listTables(this.socket)
    return this.#tables
  }

  /** To be called by whoever may make a table: the next question is put to the kernel again. */
  forgetTables(): void {
    this.#tables = undefined
  }

  [Symbol.dispose](): void {
    this.socket[Symbol.dispose]()
  }
}

function openIfPossible(): NetlinkSocket | undefined {
  try {
    return openNetfilter()
  } catch (error) {
    if (isErrno(error, "EPROTONOSUPPORT", "EAFNOSUPPORT")) return undefined
    throw error
  }
}

/** All tables, like `nft list tables`; none of families that this room does not know. Throws `NetlinkError`. */
export function listTables(socket: Pick<Netfilter, "dump">): Table[] {
  const request = { type: NFT_MSG_GETTABLE, what: "list tables", payload: netfilterHeader(0) }
  return socket.dump(request, ({ payload }): Table | undefined => {
    const { name } = tableAttributes.decode(payload.subarray(NFGENMSG_SIZE))
    if (name === undefined) return undefined
    for (const family in familyNumber) {
      if (familyNumber[family as Table["family"]] === payload[0]) return { family: family as Table["family"], name }
    }
    return undefined
  })
}
