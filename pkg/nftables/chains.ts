import { isErrno } from "../libc/mod.ts"
import { concat, netfilterHeader, type Request } from "../netlink/mod.ts"
import { chainAttributes } from "./attributes.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import type { Chain, Table } from "./rule-set.ts"
import { familyNumber, NFGENMSG_SIZE, NFT_MSG_GETCHAIN } from "./uapi.ts"

/** Whether there is a chain of this name; one question, however many chains there are. Throws `NetlinkError`. */
export function hasChain(socket: Pick<Netfilter, "get">, { table, name }: Chain): boolean {
  try {
    socket.get(request(table, `find chain ${table.family} ${table.name} ${name}`, { table: table.name, name }))
    return true
  } catch (error) {
    if (isErrno(error, "ENOENT")) return false
    throw error
  }
}

/** The chains of a table; none when there is no such table. Throws `NetlinkError`. */
export function listChains(socket: Pick<Netfilter, "dump">, table: Table): Chain[] {
  const what = `list the chains of table ${table.family} ${table.name}`
  return socket.dump(request(table, what, {}), (answer) => {
    const found = chainAttributes.decode(answer.payload.subarray(NFGENMSG_SIZE))
    return found.table === table.name && found.name !== undefined ? { table, name: found.name } : undefined
  })
}

function request({ family }: Table, what: string, attributes: { table?: string; name?: string }): Request {
  const payload = concat([netfilterHeader(familyNumber[family]), chainAttributes.encode(attributes)])
  return { type: NFT_MSG_GETCHAIN, what, payload }
}
