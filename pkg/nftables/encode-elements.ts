import { attribute, concat } from "../netlink/mod.ts"
import { elementAttributes, encodedElementListAttributes } from "./attributes.ts"
import type { Element, NamedSet } from "./rule-set.ts"
import { elementUserdata } from "./userdata.ts"
import { joinParts, verdictData } from "./values.ts"

/** `NFTA_LIST_ELEM` with `NLA_F_NESTED` */
const LIST_ELEMENT = 1 | 0x8000
/** The list of elements is one attribute, whose length with its header is 16 bits. */
const LIST_BYTES = 0xffff - 4

/** What one message says. */
interface Part {
  elements: Element[]
  attributes: Uint8Array
}

/**
 * The elements of an operation in as few messages as they fit into: one with a long comment takes ten times the bytes of
 * one without. `idOf` for elements that are new. Throws `RangeError` for what cannot be expressed.
 */
export function encodeElements(
  { set, elements }: { set: NamedSet; elements: readonly Element[] },
  idOf?: (set: NamedSet) => number,
): Part[] {
  const parts: Part[] = []
  let taken: Element[] = []
  let encoded: Uint8Array[] = []
  let size = 0
  const close = () => {
    const names = { table: set.table.name, set: set.name, setId: idOf?.(set) }
    const attributes = encodedElementListAttributes.encode({ ...names, elements: concat(encoded) })
    parts.push({ elements: taken, attributes })
    taken = []
    encoded = []
    size = 0
  }
  for (const element of elements) {
    const bytes = attribute(LIST_ELEMENT, encodeElement(set, element, idOf !== undefined))
    if (size + bytes.length > LIST_BYTES) close()
    taken.push(element)
    encoded.push(bytes)
    size += bytes.length
  }
  if (taken.length > 0) close()
  return parts
}

function encodeElement(set: NamedSet, element: Element, isNew: boolean): Uint8Array {
  const { key, value } = element
  return elementAttributes.encode({
    key: { value: joinParts(set.key, key) },
    data: isNew ? encodeValue(set, value) : undefined,
    userdata: isNew ? elementUserdata(element) : undefined,
  })
}

function encodeValue(set: NamedSet, value: Element["value"]): Parameters<typeof elementAttributes.encode>[0]["data"] {
  if (value === undefined) return undefined
  if (Array.isArray(set.value) && Array.isArray(value)) return { value: joinParts(set.value, value) }
  if (set.value === "verdict" && !Array.isArray(value))
    return verdictData(value as Exclude<typeof value, readonly Uint8Array[]>)
  throw new RangeError(`a value that does not go into "${set.name}"`)
}
