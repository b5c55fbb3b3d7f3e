/** The state of a namespace: for each section, lines without counters, handles, indexes and times. */
export type Snapshot = { readonly [section: string]: readonly string[] }

export interface Change {
  readonly section: string
  readonly sign: "+" | "-"
  readonly line: string
}

/** Returns the lines that were added and removed between two snapshots, in order. */
export function diffSnapshots(before: Snapshot, after: Snapshot): Change[] {
  const sections = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...sections].flatMap((section) =>
    diffLines(before[section] ?? [], after[section] ?? []).map((change) => ({ section, ...change })),
  )
}

/** Formats changes for a message, under a heading for each section. Returns "" if there are none. */
export function formatChanges(changes: readonly Change[]): string {
  const bySection = Map.groupBy(changes, ({ section }) => section)
  return [...bySection]
    .map(([section, list]) => [section, ...list.map(({ sign, line }) => `  ${sign} ${line}`)].join("\n"))
    .join("\n")
}

/** Returns the shortest list of changes from `a` to `b`, by their longest common subsequence. */
function diffLines(a: readonly string[], b: readonly string[]): Omit<Change, "section">[] {
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++
  const left = a.slice(start, a.length - end)
  const right = b.slice(start, b.length - end)
  const common = commonLengths(left, right)
  const changes: Omit<Change, "section">[] = []
  for (let i = 0, j = 0; i < left.length || j < right.length; ) {
    const [old, fresh] = [left[i], right[j]]
    if (old !== undefined && old === fresh) {
      i++
      j++
    } else if (fresh === undefined || (old !== undefined && at(common, i + 1, j) >= at(common, i, j + 1))) {
      changes.push({ sign: "-", line: old ?? "" })
      i++
    } else {
      changes.push({ sign: "+", line: fresh })
      j++
    }
  }
  return changes
}

/** Returns a table whose `lengths[i][j]` is the length of the longest common subsequence of `a[i…]` and `b[j…]`. */
function commonLengths(a: readonly string[], b: readonly string[]): number[][] {
  const lengths = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0))
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const row = lengths[i]
      if (row === undefined) continue
      row[j] = a[i] === b[j] ? at(lengths, i + 1, j + 1) + 1 : Math.max(at(lengths, i + 1, j), at(lengths, i, j + 1))
    }
  }
  return lengths
}

function at(lengths: readonly number[][], i: number, j: number): number {
  return lengths[i]?.[j] ?? 0
}
