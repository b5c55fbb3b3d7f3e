import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
/** What is kept beside the comment on each element, for DEL and for whoever wants the same port. */
export interface Note {
  /** How many elements the attachment has in both families: who has found so many has found all. */
  of: number
  /** Whether it has conditions, and with them a chain of its own. */
  isConditional: boolean
  /** The prefix length of the container's network. */
  prefix: number
  /** The path of the container's namespace; "" when it is too long to be kept. */
  netns: string
}

/** Bytes that there is room for. */
const LONGEST = 120
const CONDITIONAL = "conditional"

export function encodeNote({ of, isConditional, prefix, netns }: Note): string {
  const fields = [String(of), isConditional ? CONDITIONAL : "", String(prefix)]
  const text = [...fields, netns].join("\t")
  return encodeUtf8(text).length <= LONGEST ? text : [...fields, ""].join("\t")
}

/** Undefined for what `encodeNote` has not written: somebody may have loaded the rule set from a file, which has no notes. */
export function decodeNote(text = ""): Note | undefined {
  const [of = "", condition, prefix = "", ...path] = text.split("\t")
  if (!/^\d+$/.test(of) || !/^\d+$/.test(prefix) || path.length === 0) return undefined
  return { of: Number(of), isConditional: condition === CONDITIONAL, prefix: Number(prefix), netns: path.join("\t") }
}
