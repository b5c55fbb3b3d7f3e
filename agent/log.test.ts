import { expect, test } from "bun:test"
import { formatEvent } from "./log.ts"

const at = new Date("2026-11-23T20:00:00.000Z")
const event = { level: "warning", message: "Cannot release:\nit is used", pool: "pods", block: "10.64.3.0/26" } as const

test("text: time, level, the sentence on one line, and what it is about", () => {
  expect(formatEvent({ format: "text", node: "node-1", isJournal: false }, event, at)).toBe(
    "2026-11-23T20:00:00.000Z warning Cannot release: it is used node=node-1 pool=pods block=10.64.3.0/26\n",
  )
})

test("text for the journal, which has the time: the priority", () => {
  expect(formatEvent({ format: "text", node: "node-1", isJournal: true }, { level: "error", message: "x" }, at)).toBe(
    "<3>x node=node-1\n",
  )
})

test("JSON: one object on a line", () => {
  const line = formatEvent({ format: "json", node: "node-1", isJournal: true }, event, at)
  expect(line.indexOf("\n")).toBe(line.length - 1)
  expect(JSON.parse(line)).toEqual({ time: "2026-11-23T20:00:00.000Z", node: "node-1", ...event })
})
