/** The maximum length of a line, far more than the length of a Node. */
const LINE_MAX = 16 << 20

/**
 * Yields the lines of a text that arrives in pieces. Omits empty lines and an incomplete last line. Throws if a line is
 * too long.
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
    if (length > LINE_MAX) throw new Error("Cannot follow changes: a line of the answer is too long")
  }
}

/** Yields the pieces of a response as they arrive. Ends if the connection breaks. */
export async function* piecesOf(response: Response): AsyncGenerator<Uint8Array, void> {
  const reader = response.body?.getReader()
  for (;;) {
    const piece = await reader?.read().catch(() => undefined)
    if (!piece || piece.done) return
    yield piece.value
  }
}
