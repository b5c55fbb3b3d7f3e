import { expect, test } from "bun:test"
import { BackOff } from "./back-off.ts"

const MINUTE = 60_000

test("a loss is answered after 20 ms of quiet, and after 200 ms at most", () => {
  const backOff = new BackOff()
  expect(backOff.next()).toBeUndefined()
  backOff.lose("rules", 100_000)
  expect(backOff.next()).toEqual({ reason: "rules", at: 100_020, since: 100_000 })
  for (let now = 100_010; now < 100_300; now += 10) backOff.lose("rules", now)
  expect(backOff.next()?.at).toBe(100_200)
})

test("the pause between checks for one reason doubles up to 30 s; another reason does not wait", () => {
  const backOff = new BackOff()
  let now = 100_000
  const pauses = Array.from({ length: 13 }, () => {
    backOff.lose("rules", now)
    const { at = 0 } = backOff.next() ?? {}
    const pause = at - now
    now = at
    backOff.checked(now)
    return pause
  })
  expect(pauses).toEqual([20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_480, 30_000, 30_000])
  backOff.lose("rules", now)
  backOff.lose("links", now)
  expect(backOff.next()).toEqual({ reason: "links", at: now + 20, since: now })
})

test("one check answers all losses, and after a quiet minute the next one does not wait", () => {
  const backOff = new BackOff()
  for (let now = 100_000; now < 110_000; now += 1000) {
    backOff.lose("rules", now)
    backOff.lose("links", now)
    backOff.checked(now + 20)
    expect(backOff.next()).toBeUndefined()
  }
  const late = 109_021 + MINUTE
  backOff.lose("rules", late)
  expect(backOff.next()?.at).toBe(late + 20)
  backOff.checked(late + 20)
  backOff.lose("rules", late + 20)
  expect(backOff.next()?.at).toBe(late + 60)
  backOff.dismiss("rules")
  expect(backOff.next()).toBeUndefined()
})
