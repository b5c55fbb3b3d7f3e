import { concat, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, netfilterHeader, type Request } from "../netlink/mod.ts"
import { chainAttributes, ruleAttributes, setAttributes, tableAttributes } from "./attributes.ts"
import { encodeElements } from "./encode-elements.ts"
import { printOperation } from "./print.ts"
import type { Chain, NamedSet, Operation, Table } from "./rule-set.ts"
import { setUserdata } from "./set-userdata.ts"
import { compile } from "./statements.ts"
import {
  familyNumber,
  hookNumber,
  NFT_DATA_VERDICT,
  NFT_MSG_DELCHAIN,
  NFT_MSG_DELRULE,
  NFT_MSG_DELSET,
  NFT_MSG_DELSETELEM,
  NFT_MSG_DELTABLE,
  NFT_MSG_NEWCHAIN,
  NFT_MSG_NEWRULE,
  NFT_MSG_NEWSET,
  NFT_MSG_NEWSETELEM,
  NFT_MSG_NEWTABLE,
  NFT_SET_MAP,
  policyNumber,
} from "./uapi.ts"
import { commentUserdata } from "./userdata.ts"
import { keyLength, typeId } from "./values.ts"

const SHOWN_ELEMENTS = 4

/** The messages of a transaction, without what encloses them. Throws `RangeError` for what cannot be expressed. */
export function encodeOperations(operations: readonly Operation[]): Request[] {
  const ids = new Map<NamedSet, number>()
  const idOf = (set: NamedSet) => {
    const id = ids.get(set) ?? ids.size + 1
    ids.set(set, id)
    return id
  }
  const requests: Request[] = []
  for (const operation of operations) requests.push(...encodeOperation(operation, idOf))
  return requests
}

function encodeOperation(operation: Operation, idOf: (set: NamedSet) => number): Request[] {
  const { verb } = operation
  const flags = verb === "create" ? NLM_F_CREATE | NLM_F_EXCL : verb === "add" ? NLM_F_CREATE : 0
  const isNew = verb === "add" || verb === "create"
  switch (operation.object) {
    case "table": {
      const { table } = operation
      const attributes = isNew ? encodeTable(table) : tableAttributes.encode({ name: table.name })
      const type = isNew ? NFT_MSG_NEWTABLE : NFT_MSG_DELTABLE
      return [request(operation, table, type, flags & NLM_F_EXCL, attributes)] // tables are created without being told
    }
    case "chain": {
      const { chain } = operation
      if (verb === "flush") {
        const attributes = ruleAttributes.encode({ table: chain.table.name, chain: chain.name })
        return [request(operation, chain.table, NFT_MSG_DELRULE, flags, attributes)]
      }
      const name = { table: chain.table.name, name: chain.name }
      const attributes = isNew ? encodeChain(chain) : chainAttributes.encode(name)
      return [request(operation, chain.table, isNew ? NFT_MSG_NEWCHAIN : NFT_MSG_DELCHAIN, flags, attributes)]
    }
    case "rule": {
      const { chain } = operation.rule
      const place = { table: chain.table.name, chain: chain.name }
      if (operation.verb === "delete") {
        const attributes = ruleAttributes.encode({ ...place, handle: operation.rule.handle })
        return [request(operation, chain.table, NFT_MSG_DELRULE, 0, attributes)]
      }
      const attributes = ruleAttributes.encode({
        ...place,
        expressions: operation.rule.statements.flatMap((statement) => compile(statement, idOf)),
        userdata: commentUserdata(operation.rule.comment),
      })
      return [request(operation, chain.table, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, attributes)]
    }
    case "set": {
      const { set } = operation
      const name = { table: set.table.name, name: set.name }
      const attributes = isNew ? encodeSet(set, idOf(set)) : setAttributes.encode(name)
      return [request(operation, set.table, isNew ? NFT_MSG_NEWSET : NFT_MSG_DELSET, flags, attributes)]
    }
    case "element": {
      const { set } = operation
      const requests: Request[] = []
      const type = isNew ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM
      for (const { elements, attributes } of encodeElements(operation, isNew ? idOf : undefined)) {
        requests.push(request({ ...operation, elements }, set.table, type, flags, attributes))
      }
      return requests
    }
  }
}

function request(operation: Operation, table: Table, type: number, flags: number, attributes: Uint8Array): Request {
  return {
    type,
    flags,
    payload: concat([netfilterHeader(familyNumber[table.family]), attributes]),
    get what() {
      return summary(operation) // only needed when it is refused
    },
  }
}

/** The operation for an error message, which is no place for a hundred elements. */
function summary(operation: Operation): string {
  if (operation.object !== "element" || operation.elements.length <= SHOWN_ELEMENTS) return printOperation(operation)
  const elements = operation.elements.slice(0, SHOWN_ELEMENTS)
  return `${printOperation({ ...operation, elements })} and ${operation.elements.length - SHOWN_ELEMENTS} more`
}

function encodeTable({ name, comment }: Table): Uint8Array {
  return tableAttributes.encode({ name, flags: 0, userdata: commentUserdata(comment) })
}

function encodeChain({ table, name, base, comment }: Chain): Uint8Array {
  return chainAttributes.encode({
    table: table.name,
    name,
    ...(base && {
      type: base.type,
      policy: policyNumber[base.policy],
      hook: { number: hookNumber[base.hook], priority: base.priority >>> 0 },
    }),
    userdata: commentUserdata(comment),
  })
}

function encodeSet(set: NamedSet, id: number): Uint8Array {
  const { key, value } = set
  return setAttributes.encode({
    table: set.table.name,
    name: set.name,
    flags: value === undefined ? 0 : NFT_SET_MAP,
    keyType: typeId(key),
    keyLength: keyLength(key),
    ...(value === "verdict" && { dataType: NFT_DATA_VERDICT, dataLength: 0 }),
    ...(value && value !== "verdict" && { dataType: typeId(value), dataLength: keyLength(value) }),
    id,
    userdata: setUserdata(set),
  })
}
