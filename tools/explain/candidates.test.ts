import { describe, expect, test } from "bun:test"
import { Candidates } from "./candidates.ts"
import { explain, explainLog, readError } from "./explain.ts"
import { knownMessages } from "./known.ts"

const known = knownMessages()
const candidates = new Candidates(known)

/** Log lines in the formats of several runtimes, with a message inside. */
const lines: Readonly<Record<string, (message: string) => string>> = {
  "as it is": (message) => message,
  "with other words at once before and behind it": (message) => `2026-11-23T10:00:00Z_x${message}y`,
  "in quotes of klog": (message) =>
    `E1123 10:00:00.1 8 a.go:1] "Error" err=${JSON.stringify(`x: ${message}`)} pod="a/b"`,
  "in quotes twice": (message) => `level=error msg=${JSON.stringify(JSON.stringify(message))}`,
  "in JSON": (message) => JSON.stringify({ code: 999, msg: message }),
  "in JSON as other languages write it": (message) =>
    JSON.stringify({ msg: `first\n\t${message}` })
      .replaceAll("/", "\\/")
      .replaceAll("<", "\\u003c"),
  "in other letters": (message) => message.toUpperCase(),
}

describe.each(Object.entries(lines))("a message %s", (_, write) => {
  test("is among the candidates", () => {
    const missed = known.flatMap(({ pattern }) => {
      const line = write(pattern.replace(/…|KEY/g, "x1"))
      const { message } = readError(line)
      const matching = known.filter(({ matcher }) => matcher.test(message))
      const found = candidates.in(line)
      return matching.every((each) => found.includes(each)) ? [] : [pattern]
    })
    expect(missed).toEqual([])
  })
})

test("a log is explained as its lines are", () => {
  const log = known.map(({ pattern }) => pattern.replace(/…|KEY/g, "x1"))
  const alone = log.flatMap((line) =>
    explain(line, known)
      .known.slice(0, 1)
      .map(({ pattern }) => pattern),
  )
  expect(explainLog(log.join("\n")).flatMap(({ known: [best] }) => best?.pattern ?? [])).toEqual([...new Set(alone)])
})

test("lines of a busy node have few candidates", () => {
  const line =
    'I1123 10:00:00.1 812 kubelet.go:2448] "SyncLoop (PLEG): event for pod" pod="default/web-1" event={"ID":"1234","Type":"ContainerStarted"}'
  expect(candidates.in(line)).toEqual([])
})
