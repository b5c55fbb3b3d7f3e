/** Returns the most similar known word; `undefined` if each differs in more than a third of its letters. */
export function didYouMean(word: string, known: readonly string[]): string | undefined {
  const near = known
    .map((candidate) => ({ candidate, distance: distanceOf(simple(word), simple(candidate)) }))
    .filter(({ candidate, distance }) => distance <= Math.max(1, Math.floor(candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance)
  return near[0]?.candidate
}

/** Returns a word in lower case without separators: "is-default_gateway" becomes "isdefaultgateway". */
function simple(word: string): string {
  return word.toLowerCase().replace(/[-_.\s]/g, "")
}

/** Returns the number of letters to change, add, remove or swap with a neighbor to turn `a` into `b`. */
function distanceOf(a: string, b: string): number {
  const rows: number[][] = [[...Array(b.length + 1).keys()]]
  const at = (row: number, column: number) => rows[row]?.[column] ?? 0
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1
      let least = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + change)
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (isSwapped) least = Math.min(least, at(i - 2, j - 2) + 1)
      row.push(least)
    }
  }
  return at(a.length, b.length)
}
