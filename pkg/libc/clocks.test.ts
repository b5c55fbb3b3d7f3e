import { expect, test } from "bun:test"
import { processorShare, shareOf } from "./clocks.ts"

// proc(5): the nanoseconds on a processor, the nanoseconds of waiting for a processor, the number of turns.
test.each([
  ["3000000 1000000 12\n", 0.75],
  ["3000000 0 12\n", 1],
  ["0 0 0\n", 1],
  ["", 1],
])("of %j a thread has had %d of the processor", (schedstat, share) => {
  expect(shareOf(schedstat)).toBe(share)
})

test("the thread's own share is above 0 and up to 1", () => {
  const share = processorShare()
  expect(share > 0 && share <= 1).toBe(true)
})
