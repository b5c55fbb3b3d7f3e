import { StoreError } from "../store.ts"

/** The longest line that is read: far more than a store makes of a thousand changes of records like ours. */
const longestLine = 16 << 20

/**
 * The lines of a text as its pieces come; empty lines, and one that the end has cut, are left out. A line of many pieces is put together once: a watch
 * of thousands of changes would otherwise be copied for each of its pieces. Throws `StoreError` for a line that does not end.
 */
export async function* linesOf(pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  let [parts, length] = [[] as string[], 0]
  for await (const piece of pieces) {
    const text = decoder.decode(piece, { stream: true })
    let from = 0
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", from)) {
      const line = parts.join("") + text.slice(from, at)
      ;[parts, length, from] = [[], 0, at + 1]
      if (line !== "") yield line
    }
    parts.push(text.slice(from))
    length += text.length - from
    if (length > longestLine) throw new StoreError("Cannot follow changes: a line of the answer has no end", "refused")
  }
}
