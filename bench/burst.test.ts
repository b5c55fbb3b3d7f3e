import { expect, test } from "bun:test"
import { containers, ofSuccesses } from "./rows/burst.ts"

const sample = { ms: 900, cpuMs: 50, peakKb: 4_000, faults: 10 }
const good = { ...sample, stdout: "{}" }
const bad = { ...sample, stdout: "", failure: '"portmap" failed (1): File exists' }

test("a burst's time is for all containers at the rate of those that did not fail", () => {
  const whole = Array.from({ length: containers }, () => [good, good])
  expect(ofSuccesses(sample, whole)).toEqual({ ...sample, failed: 0 })
  const third = whole.map((chain, at) => (at % 3 === 0 ? [good, bad] : chain))
  expect(ofSuccesses(sample, third)).toEqual({ ...sample, ms: 1_350, failed: 20 })
  // Only attached containers get DEL.
  expect(ofSuccesses(sample, whole.slice(0, 40))).toEqual({ ...sample, ms: 1_350, failed: 0 })
})

test("a burst of which everything failed is an error with the first one's words", () => {
  expect(() => ofSuccesses(sample, [[bad], [bad]])).toThrow('All of 2 containers failed: "portmap" failed (1)')
})
