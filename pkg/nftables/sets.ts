import { isErrno } from "../libc/mod.ts"
import { concat, netfilterHeader } from "../netlink/mod.ts"
import { setNameAttributes } from "./attributes.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import type { Table } from "./rule-set.ts"
import { familyNumber, NFGENMSG_SIZE, NFT_MSG_GETSET } from "./uapi.ts"

/** The names of a table's sets and maps; none when there is no such table. Throws `NetlinkError`. */
export function listSetNames(socket: Pick<Netfilter, "dump">, { family, name }: Table): string[] {
  const payload = concat([netfilterHeader(familyNumber[family]), setNameAttributes.encode({ table: name })])
  const what = `list the sets of table ${family} ${name}`
  try {
    return socket.dump({ type: NFT_MSG_GETSET, what, payload }, (answer) => {
      const found = setNameAttributes.decode(answer.payload.subarray(NFGENMSG_SIZE))
      return found.table === name ? found.name : undefined
    })
  } catch (error) {
    if (isErrno(error, "ENOENT")) return []
    throw error
  }
}
