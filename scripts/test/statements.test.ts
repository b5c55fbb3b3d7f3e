import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import { parseStatements } from "./statements.ts"

const head = "| # | What must hold | Since | Source |\n|---|---|---|---|"

test("statements are read with their subject, and a reason why one does not apply or is done differently", () => {
  const markdown = `# Title

Some words.

## Plugin

${head}
| 1 | The exit code is 0. | 0.1.0 | S, U |

## Command line

${head}
| 2 | On Windows *all* is new. *Does not apply: for Linux only* | 1.1.0+ | U |
| 3 | DEL stops. *Differs: DEL goes on, since all of it is to go* | 0.3.0 | S |
`
  expect(parseStatements(markdown)).toEqual({
    statements: [
      { number: 1, subject: "Plugin", text: "The exit code is 0.", since: "0.1.0", source: "S, U" },
      {
        number: 2,
        subject: "Command line",
        text: "On Windows *all* is new.",
        since: "1.1.0+",
        source: "U",
        notHere: "for Linux only",
      },
      {
        number: 3,
        subject: "Command line",
        text: "DEL stops.",
        since: "0.3.0",
        source: "S",
        differs: "DEL goes on, since all of it is to go",
      },
    ],
    errors: [],
  })
})

describe("a document is wrong", () => {
  const errorsOf = (rows: string) => parseStatements(`## Plugin\n${head}\n${rows}`).errors

  test("when a number is missing, twice there or out of order", () => {
    const row = (number: number) => `| ${number} | It works. | 0.1.0 | S |`
    expect(errorsOf([1, 2, 4].map(row).join("\n"))).toEqual([
      "Statement 4 of scripts/test/statements.txt stands where 3 is expected",
    ])
    expect(errorsOf([1, 1].map(row).join("\n"))).toEqual([
      "Statement 1 of scripts/test/statements.txt stands where 2 is expected",
    ])
    expect(errorsOf(row(2))).toEqual(["Statement 2 of scripts/test/statements.txt stands where 1 is expected"])
  })

  test.each([
    "| 2 | It works. | 0.1.0 |",
    "| 2 | It works. | 0.1.0 | X |",
    "| 2 | It works. | soon | S |",
    "| 2 |  | 0.1.0 | S |",
    "| two | It works. | 0.1.0 | S |",
    "| 2 | It works or | not. | 0.1.0 | S |",
    "| 2 | It works. *Does not apply:* | 0.1.0 | S |",
    "| 2 | It works. Does not apply: no | 0.1.0 | S |",
    "| 2 | It works. *Differs:* | 0.1.0 | S |",
    "| 2 | It works. Differs: no | 0.1.0 | S |",
    "| 2 | It works. *differs: no* | 0.1.0 | S |",
    "| 2 | It works. *Differs: no* *Does not apply: no* | 0.1.0 | S |",
    " | 2 | It works. | 0.1.0 | S |",
  ])("when it has the row %j", (row) => {
    expect(errorsOf(`| 1 | It works. | 0.1.0 | S |\n${row}`)).toEqual([
      `Cannot read this row of scripts/test/statements.txt: ${row}`,
    ])
  })

  test("when a row stands under no subject", () => {
    expect(parseStatements("| 1 | It works. | 0.1.0 | S |").errors).not.toBeEmpty()
  })

  test("when it has no statement", () => {
    expect(errorsOf("")).toEqual(["Cannot find a statement in scripts/test/statements.txt"])
  })
})

test("scripts/test/statements.txt has 250 statements under seven subjects", async () => {
  const file = Bun.file(join(import.meta.dir, "statements.txt"))
  const { statements, errors } = parseStatements(await file.text())
  expect(errors).toEqual([])
  expect(statements.map(({ number }) => number)).toEqual(Array.from({ length: 250 }, (_, at) => at + 1))
  expect([...Map.groupBy(statements, ({ subject }) => subject)].map(([subject, all]) => [subject, all.length])).toEqual(
    [
      ["Plugin", 49],
      ["Skeleton", 49],
      ["Types and conversion", 27],
      ["Execution and delegation", 36],
      ["Configuration loading", 27],
      ["Runtime", 46],
      ["Command line tool and arguments", 16],
    ],
  )
})
