/** What is kept beside the comment on the element of a mapping, for DEL and for whoever wants the same port. */
export interface Note {
  /** How many mappings the attachment has in both families: who has found so many has found all. */
  of: number
  /** Whether it has conditions, and with them a chain of its own. */
  conditional: boolean
  /** The path of the container's namespace; "" when it is too long to be kept. */
  netns: string
}

/** Bytes that there is room for. */
const LONGEST = 120

export function encodeNote(note: Note): string {
  const text = JSON.stringify(note)
  return new TextEncoder().encode(text).length <= LONGEST ? text : JSON.stringify({ ...note, netns: "" })
}

/** Undefined for what `encodeNote` has not written: somebody may have loaded the rule set from a file, which has no notes. */
export function decodeNote(text: string | undefined): Note | undefined {
  try {
    const { of, conditional, netns } = JSON.parse(text ?? "") as Partial<Note>
    if (typeof of !== "number" || typeof conditional !== "boolean" || typeof netns !== "string") return undefined
    return { of, conditional, netns }
  } catch {
    return undefined
  }
}
