import { unlessErrno } from "../libc/mod.ts"
import { type Message, type NetlinkSocket, netfilterHeader } from "../netlink/mod.ts"
import {
  chainAttributes,
  deviceHookNumber,
  familyNumber,
  hookNumber,
  NFT_DATA_VERDICT,
  NFT_MSG_GETCHAIN,
  NFT_MSG_GETSET,
  NFT_MSG_GETTABLE,
  NFT_SET_INTERVAL,
  policyNumber,
  setAttributes,
  setNameAttributes,
  tableAttributes,
} from "./attributes.ts"
import { attributesOf, ifThere, type Netfilter, openNetfilter, tableRequest } from "./netfilter.ts"
import type { Chain, Table, TableFamily } from "./rule-set.ts"
import { hasNftables } from "./transaction.ts"
import { readComment } from "./userdata.ts"

/**
 * nf_tables of the thread's namespace, for one plugin call: a socket for all requests, and the list of tables, which is
 * read at its first use. A removal looks at the list first, because usually there is nothing to remove.
 *
 * Keep the socket open until the container's interface has been deleted, so that the kernel frees the rules while it
 * waits for the link. After a removal call `socket.leave()`. Closing the socket instead would wait until the kernel has
 * freed everything that any process has removed, and would block changes of rules until then.
 */
export class PacketFilter implements Disposable {
  readonly socket: NetlinkSocket
  #tables: readonly Table[] | undefined

  private constructor(socket: NetlinkSocket) {
    this.socket = socket
  }

  /** Opens nf_tables. Returns undefined if the kernel lacks it. Throws `EPERM` without CAP_NET_ADMIN. */
  static find(): PacketFilter | undefined {
    const socket = unlessErrno(openNetfilter, "EPROTONOSUPPORT", "EAFNOSUPPORT")
    if (!socket) return undefined
    let filter: PacketFilter | undefined
    try {
      if (hasNftables(socket)) filter = new PacketFilter(socket)
      return filter
    } finally {
      if (!filter) socket[Symbol.dispose]()
    }
  }

  /** Reports whether a table with this name exists in this family; without `family`, in any. Throws `NetlinkError`. */
  hasTable(name: string | RegExp, family?: TableFamily): boolean {
    const isNamed = (found: string) => (name instanceof RegExp ? name.test(found) : found === name)
    return this.#list().some((table) => isNamed(table.name) && (family ?? table.family) === table.family)
  }

  #list(): readonly Table[] {
    this.#tables ??= listTables(this.socket)
    return this.#tables
  }

  /** Discards the list of tables, which is read again at its next use. Must be called before a table is added. */
  forgetTables(): void {
    this.#tables = undefined
  }

  [Symbol.dispose](): void {
    this.socket[Symbol.dispose]()
  }
}

/** Returns all tables of known families, like `nft list tables`. Throws `NetlinkError`. */
export function listTables(socket: Pick<Netfilter, "dump">): Table[] {
  const families = Object.keys(familyNumber) as TableFamily[]
  const request = { type: NFT_MSG_GETTABLE, what: "list tables", payload: netfilterHeader(0), isShort: true } as const
  return socket.dump(request, (answer): Table | undefined => {
    const { name, userdata } = tableAttributes.decode(attributesOf(answer))
    const family = families.find((each) => familyNumber[each] === answer.payload[0])
    return family && name !== undefined ? { family, name, comment: readComment(userdata) } : undefined
  })
}

/** `NFT_TABLE_F_DORMANT` */
const NFT_TABLE_F_DORMANT = 0x1

/**
 * Reports whether a table is dormant, as after `nft add table inet NAME '{ flags dormant; }'`. Its objects then exist,
 * but no packet traverses its chains. Adding the table again activates it. Throws `NetlinkError`.
 */
export function isDormant(socket: Pick<Netfilter, "get">, table: Table): boolean {
  const what = `find table ${table.family} ${table.name}`
  const request = tableRequest(table, NFT_MSG_GETTABLE, what, tableAttributes.encode({ name: table.name }))
  const flags = ifThere(() => socket.get(request, (answer) => tableAttributes.decode(attributesOf(answer)).flags))
  return ((flags ?? 0) & NFT_TABLE_F_DORMANT) !== 0
}

/** Returns the message of CHECK about a dormant table; undefined if the table is active. Throws `NetlinkError`. */
export function describeDormant(socket: Pick<Netfilter, "get">, table: Table): string | undefined {
  return isDormant(socket, table) ? `table ${table.family} ${table.name} with "flags dormant"` : undefined
}

/** Reports whether a chain exists, with one request, however many chains there are. Throws `NetlinkError`. */
export function hasChain(socket: Pick<Netfilter, "get">, chain: Chain): boolean {
  return getChain(socket, chain, () => true) ?? false
}

/** Returns the policy and priority of a base chain; undefined if the chain does not exist. Throws `NetlinkError`. */
export function findBase(
  socket: Pick<Netfilter, "get">,
  chain: Chain,
): Pick<BaseChain, "policy" | "priority"> | undefined {
  return getChain(socket, chain, (answer) => {
    const { policy, hook } = chainAttributes.decode(attributesOf(answer))
    return hook && { policy: policy === policyNumber.drop ? "drop" : "accept", priority: (hook.priority ?? 0) | 0 }
  })
}

function getChain<T>(
  socket: Pick<Netfilter, "get">,
  { table, name }: Chain,
  read: (answer: Message) => T,
): T | undefined {
  const what = `find chain ${table.family} ${table.name} ${name}`
  const request = tableRequest(table, NFT_MSG_GETCHAIN, what, chainAttributes.encode({ table: table.name, name }))
  return ifThere(() => socket.get(request, read))
}

/** Returns the chains of a table; an empty list if the table does not exist. Throws `NetlinkError`. */
export function listChains(socket: Pick<Netfilter, "dump">, table: Table): Chain[] {
  const what = `list the chains of table ${table.family} ${table.name}`
  return socket.dump(tableRequest(table, NFT_MSG_GETCHAIN, what, chainAttributes.encode({})), (answer) => {
    const found = chainAttributes.decode(attributesOf(answer))
    return found.table === table.name && found.name !== undefined ? { table, name: found.name } : undefined
  })
}

/** A base chain as the kernel lists it. */
export interface BaseChain {
  table: Table
  name: string
  /** The type: "filter", "nat", or "route". */
  type: string
  /** The name of the hook, such as "forward", or its number if it has no known name. */
  hook: string
  priority: number
  policy: "accept" | "drop"
  /** The interfaces to which a chain at "ingress" or "egress" is attached. */
  devices?: readonly string[]
}

/** Returns the base chains of all tables, like `nft list chains`. Throws `NetlinkError`. */
export function listBaseChains(socket: Pick<Netfilter, "dump">): BaseChain[] {
  const families = Object.keys(familyNumber) as TableFamily[]
  const request = { type: NFT_MSG_GETCHAIN, what: "list chains", payload: netfilterHeader(0) }
  return socket.dump(request, (answer): BaseChain | undefined => {
    const { table, name, hook, policy, type = "" } = chainAttributes.decode(attributesOf(answer))
    const family = families.find((each) => familyNumber[each] === answer.payload[0])
    if (!family || table === undefined || name === undefined || hook === undefined) return undefined
    const devices = hook.devices ?? (hook.device === undefined ? undefined : [hook.device])
    const names = { ...(family === "netdev" ? {} : hookNumber), ...deviceHooksOf(family) }
    const hookName = Object.entries(names).find(([, number]) => number === hook.number)?.[0]
    return {
      table: { family, name: table },
      name,
      type,
      hook: hookName ?? String(hook.number),
      priority: (hook.priority ?? 0) | 0,
      policy: policy === 0 ? "drop" : "accept",
      ...(devices === undefined ? {} : { devices }),
    }
  })
}

function deviceHooksOf(family: TableFamily): Readonly<Record<string, number>> {
  return family === "netdev" || family === "inet" ? deviceHookNumber[family] : {}
}

/** The sizes of a set's keys and values in bytes. */
export interface SetLayout {
  keyLength: number
  /** 0 for a set and for a verdict map. */
  valueLength: number
  hasVerdicts: boolean
  isInterval: boolean
}

/** Returns the layout of a set or map; `undefined` if it does not exist. Throws `NetlinkError`. */
export function findSetLayout(socket: Pick<Netfilter, "get">, table: Table, name: string): SetLayout | undefined {
  const what = `find set ${table.family} ${table.name} ${name}`
  const request = tableRequest(table, NFT_MSG_GETSET, what, setNameAttributes.encode({ table: table.name, name }))
  return ifThere(() =>
    socket.get(request, (answer) => {
      const { flags = 0, keyLength = 0, dataType, dataLength = 0 } = setAttributes.decode(attributesOf(answer))
      const hasVerdicts = dataType === NFT_DATA_VERDICT
      return {
        keyLength,
        valueLength: hasVerdicts ? 0 : dataLength,
        hasVerdicts,
        isInterval: (flags & NFT_SET_INTERVAL) !== 0,
      }
    }),
  )
}

/** Returns the names of a table's sets and maps; an empty list if the table does not exist. Throws `NetlinkError`. */
export function listSetNames(socket: Pick<Netfilter, "dump">, table: Table): string[] {
  const what = `list the sets of table ${table.family} ${table.name}`
  const request = tableRequest(table, NFT_MSG_GETSET, what, setNameAttributes.encode({ table: table.name }))
  const names = ifThere(() =>
    socket.dump({ ...request, isShort: true }, (answer) => {
      const found = setNameAttributes.decode(attributesOf(answer))
      return found.table === table.name ? found.name : undefined
    }),
  )
  return names ?? []
}
