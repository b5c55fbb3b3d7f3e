import { expect, test } from "bun:test"
import { Fights } from "./fights.ts"

const MINUTE = 60_000

test("what was made again twice in a minute is left when it is gone once more, for a minute, then for two", () => {
  const fights = new Fights()
  let now = 1000
  for (const pause of [MINUTE, 2 * MINUTE]) {
    for (const _ of [1, 2]) {
      expect(fights.isOver("table", now)).toBe(false)
      fights.note("table", now)
      now += 100
    }
    expect(fights.isOver("table", now)).toBe(true)
    expect(fights.nextTry(now)).toBeUndefined()
    fights.leave("table", now)
    fights.leave("table", now + 1)
    expect(fights.nextTry(now + 1)).toBe(now + pause)
    expect(fights.over(now + pause - 1)).toEqual(["table"])
    now += pause
    expect(fights.over(now)).toEqual([])
    expect(fights.nextTry(now)).toBeUndefined()
  }
})

test("what is gone once in a while is made again each time, and things do not count for one another", () => {
  const fights = new Fights()
  for (let now = 0; now < 100 * MINUTE; now += MINUTE / 2 + 1) {
    expect(fights.isOver("table", now)).toBe(false)
    fights.note(`thing ${now % 3}`, now)
    fights.note("table", now)
    now += MINUTE / 2
  }
})

test("what has held for an hour is forgiven", () => {
  const fights = new Fights()
  const fight = (now: number) => {
    fights.note("table", now)
    fights.note("table", now)
    fights.leave("table", now)
    return (fights.nextTry(now) ?? 0) - now
  }
  expect(fight(0)).toBe(MINUTE)
  expect(fight(70_000)).toBe(2 * MINUTE)
  fights.note("other", 70_000 + 63 * MINUTE)
  expect(fight(70_000 + 63 * MINUTE)).toBe(MINUTE)
})

test("what two looks beside each other have made again is one loss", () => {
  const fights = new Fights()
  fights.note("a", 300, 0)
  fights.note("a", 400, 100)
  expect(fights.isOver("a", 500)).toBe(false)
  fights.note("a", 10_300, 10_000)
  expect(fights.isOver("a", 10_500)).toBe(true)
})
