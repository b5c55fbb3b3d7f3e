import {
  attribute,
  concat,
  NLM_F_APPEND,
  NLM_F_CREATE,
  NLM_F_EXCL,
  netfilterHeader,
  type Request,
} from "../netlink/mod.ts"
import {
  chainAttributes,
  elementAttributes,
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
  rawElementListAttributes,
  ruleAttributes,
  setAttributes,
  tableAttributes,
} from "./attributes.ts"
import { joinParts, keyLength, typeId } from "./data-types.ts"
import { printOperation } from "./print.ts"
import type { Chain, Element, EncodedMessage, NamedSet, Operation, Rule, Table } from "./rule-set.ts"
import { compile, verdictData } from "./statements.ts"
import { commentUserdata, elementUserdata, setUserdata } from "./userdata.ts"

/** The maximum number of elements in an error message. */
const SHOWN_ELEMENTS = 4
/** `NFTA_LIST_ELEM` with `NLA_F_NESTED` */
const LIST_ELEMENT = 1 | 0x8000
/** The maximum of bytes in a list of elements: one attribute, whose length including its header has 16 bits. */
const LIST_BYTES = 0xffff - 4

/** The smallest number of sets that are encoded ahead. The other sets of a transaction have smaller numbers. */
const FIRST_AHEAD_ID = 1 << 16

/** The encoded messages that add constant objects, by object. */
export type EncodedObjects = ReadonlyMap<Table | Chain | NamedSet | Rule, EncodedMessage>

/**
 * Encodes the messages that add these objects, which must never change. The result must be assigned to a constant of a
 * module: the build then evaluates it, and its bytes become part of the executable. Throws `RangeError` for a rule that
 * precedes its sets.
 */
export function encodeAhead(operations: readonly Operation[]): EncodedObjects {
  const encoded = new Map<Table | Chain | NamedSet | Rule, EncodedMessage>()
  const ids = new Map<NamedSet, number>()
  const idOf = (set: NamedSet) => {
    const id = ids.get(set)
    if (id === undefined) throw new RangeError(`the set "${set.name}" is used before it is added`)
    return id
  }
  for (const operation of operations) {
    const added = objectAdded(operation)
    if (!added) continue
    if (operation.object === "set") ids.set(operation.set, FIRST_AHEAD_ID + ids.size)
    const setId = operation.object === "set" ? idOf(operation.set) : undefined
    for (const { type, flags = 0, payload } of encodeOperation(operation, idOf))
      encoded.set(added, { type, flags, payload, setId })
  }
  return encoded
}

/** Returns the operations, each with the message in `encoded` for its object, if there is one. */
export function withEncoded(operations: readonly Operation[], encoded: EncodedObjects): Operation[] {
  return operations.map((operation) => {
    const added = objectAdded(operation)
    const message = added && encoded.get(added)
    return message ? { ...operation, encoded: message } : operation
  })
}

/** Returns the table, chain, set or rule that an operation adds; undefined for other operations. */
function objectAdded(operation: Operation): Table | Chain | NamedSet | Rule | undefined {
  if (operation.verb !== "add") return undefined
  if (operation.object === "table") return operation.table
  if (operation.object === "chain") return operation.chain
  if (operation.object === "set") return operation.set
  return operation.object === "rule" ? operation.rule : undefined
}

/** Encodes operations, without the transaction's first and last message. Throws `RangeError` for invalid ones. */
export function encodeOperations(operations: readonly Operation[]): Request[] {
  const ids = new Map<NamedSet, number>()
  const idOf = (set: NamedSet) => {
    const id = ids.get(set) ?? ids.size + 1
    ids.set(set, id)
    return id
  }
  return operations.flatMap((operation) => {
    const { encoded } = operation
    if (!encoded) return encodeOperation(operation, idOf)
    const { type, flags, payload, setId } = encoded
    if (operation.object === "set" && setId !== undefined) ids.set(operation.set, setId)
    return [requestOf(operation, { type, flags, payload })]
  })
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
      return [request(operation, table, type, flags & NLM_F_EXCL, attributes)] // a new table has no flag
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
      const names = { table: chain.table.name, chain: chain.name }
      if (operation.verb === "delete") {
        const attributes = ruleAttributes.encode({ ...names, handle: operation.rule.handle })
        return [request(operation, chain.table, NFT_MSG_DELRULE, 0, attributes)]
      }
      const attributes = ruleAttributes.encode({
        ...names,
        expressions: operation.rule.statements.flatMap((statement) => compile(statement, idOf)),
        userdata: commentUserdata(operation.rule.comment),
      })
      const place = operation.verb === "insert" ? 0 : NLM_F_APPEND
      return [request(operation, chain.table, NFT_MSG_NEWRULE, NLM_F_CREATE | place, attributes)]
    }
    case "set": {
      const { set } = operation
      const name = { table: set.table.name, name: set.name }
      const attributes = isNew ? encodeSet(set, idOf(set)) : setAttributes.encode(name)
      return [request(operation, set.table, isNew ? NFT_MSG_NEWSET : NFT_MSG_DELSET, flags, attributes)]
    }
    case "element": {
      const { set } = operation
      const type = isNew ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM
      return encodeElements(operation, isNew ? idOf : undefined).map(({ elements, attributes }) =>
        request({ ...operation, elements }, set.table, type, flags, attributes),
      )
    }
  }
}

function request(operation: Operation, table: Table, type: number, flags: number, attributes: Uint8Array): Request {
  return requestOf(operation, {
    type,
    flags,
    payload: concat([netfilterHeader(familyNumber[table.family]), attributes]),
  })
}

function requestOf(operation: Operation, message: Pick<Request, "type" | "flags" | "payload">): Request {
  return {
    ...message,
    get what() {
      return summary(operation) // computed only if the kernel refuses the operation
    },
  }
}

/** Formats the operation for an error message, with only the first elements. */
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
  const { key, value, verdicts } = set
  return setAttributes.encode({
    table: set.table.name,
    name: set.name,
    flags: value || verdicts ? NFT_SET_MAP : 0,
    keyType: typeId(key),
    keyLength: keyLength(key),
    ...(value && { dataType: typeId(value), dataLength: keyLength(value) }),
    ...(verdicts && { dataType: NFT_DATA_VERDICT, dataLength: 0 }),
    id,
    userdata: setUserdata(set),
  })
}

/**
 * Encodes the elements of an operation in as few messages as possible. A message has room for fewer elements with long
 * comments, which take ten times the bytes of elements without one. `idOf` is given only for new elements. Throws
 * `RangeError` for an element that cannot be encoded.
 */
function encodeElements(
  { set, elements }: { set: NamedSet; elements: readonly Element[] },
  idOf?: (set: NamedSet) => number,
): { elements: Element[]; attributes: Uint8Array }[] {
  const lists: { elements: Element[]; encoded: Uint8Array[]; size: number }[] = []
  for (const element of elements) {
    const bytes = attribute(LIST_ELEMENT, encodeElement(set, element, idOf !== undefined))
    let list = lists.at(-1)
    if (!list || list.size + bytes.length > LIST_BYTES) {
      list = { elements: [], encoded: [], size: 0 }
      lists.push(list)
    }
    list.elements.push(element)
    list.encoded.push(bytes)
    list.size += bytes.length
  }
  const names = { table: set.table.name, set: set.name, setId: idOf?.(set) }
  return lists.map(({ elements, encoded }) => ({
    elements,
    attributes: rawElementListAttributes.encode({ ...names, elements: concat(encoded) }),
  }))
}

function encodeElement(set: NamedSet, { key, value, verdict, ...element }: Element, isNew: boolean): Uint8Array {
  const hasNoPlace = (value && !set.value) || (verdict && !set.verdicts)
  if (isNew && hasNoPlace) throw new RangeError(`set "${set.name}" does not take this value`)
  const data = verdict ? verdictData(verdict) : value && { value: joinParts(set.value ?? [], value) }
  return elementAttributes.encode({
    key: { value: joinParts(set.key, key) },
    data: isNew ? data : undefined,
    userdata: isNew ? elementUserdata(element) : undefined,
  })
}
