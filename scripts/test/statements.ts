/** A row of scripts/test/statements.txt. */
export interface Statement {
  readonly number: number
  /** The heading above the row. */
  readonly subject: string
  readonly text: string
  /**
   * The specification's first version with the statement; with `+` if the text was added after that version's release.
   */
  readonly since: string
  /** The source: `S` the specification, `U` upstream, `C` the conventions, `F` runtimes in use. */
  readonly source: string
  /** The reason why the statement cannot apply to these plugins, if it cannot. */
  readonly notHere?: string
  /** The different behavior and its reason, if the suite differs on purpose. */
  readonly differs?: string
}

/** The statements of a document. `errors` are sentences about malformed rows. */
export interface StatementList {
  readonly statements: readonly Statement[]
  readonly errors: readonly string[]
}

/** Parses the tables of scripts/test/statements.txt. The numbers must be 1, 2, 3, … in this order. */
export function parseStatements(markdown: string): StatementList {
  const statements: Statement[] = []
  const errors: string[] = []
  let subject = ""
  for (const line of markdown.split("\n")) {
    subject = /^## (.+)/.exec(line)?.[1] ?? subject
    if (!/^\s*\|/.test(line) || /^\| # \||^\|[-|]+$/.test(line)) continue
    const statement = parseRow(line, subject)
    if (statement === undefined) {
      errors.push(`Cannot read this row of scripts/test/statements.txt: ${line}`)
      continue
    }
    const expected = (statements.at(-1)?.number ?? 0) + 1
    if (statement.number !== expected)
      errors.push(`Statement ${statement.number} of scripts/test/statements.txt stands where ${expected} is expected`)
    statements.push(statement)
  }
  if (statements.length === 0) errors.push("Cannot find a statement in scripts/test/statements.txt")
  return { statements, errors }
}

const marks = { "Does not apply": "notHere", Differs: "differs" } as const

const rowPattern =
  /^\| (\d+) \| ([^|]+?)(?: \*(Does not apply|Differs): ([^|*]+)\*)? \| (\d+\.\d+\.\d+\+?) \| (S|U|S, U|C|F) \|$/

function parseRow(line: string, subject: string): Statement | undefined {
  const [, number, text = "", mark, reason, since = "", source = ""] = rowPattern.exec(line) ?? []
  if (number === undefined || subject === "" || /(does not apply|differs):/i.test(text)) return undefined
  const key = Object.entries(marks).find(([words]) => words === mark)?.[1]
  return { number: Number(number), subject, text, since, source, ...(key && { [key]: reason }) }
}
