import { expect, test } from "bun:test"
import { constants } from "node:os"
import { Errno, errnoName } from "./errno.ts"

test("numbers are those of this machine's C library", () => {
  const theirs = new Map<string, number>(Object.entries(constants.errno))
  const shared = Object.entries(Errno).filter(([name]) => theirs.has(name))
  expect(shared.length).toBeGreaterThan(70)
  for (const [name, number] of shared) expect(`${name} ${number}`).toBe(`${name} ${theirs.get(name)}`)
})

test("each number has one name, and 1 to 133 have one but for the two that Linux left out", () => {
  const numbers = Object.values(Errno)
  expect(new Set(numbers).size).toBe(numbers.length)
  const missing = Array.from({ length: 133 }, (_, at) => at + 1).filter((number) => !numbers.some((n) => n === number))
  expect(missing).toEqual([41, 58]) // <asm-generic/errno.h>: EWOULDBLOCK is EAGAIN, EDEADLOCK is EDEADLK
})

test("a number is named as in <errno.h>, and one that no header knows is still shown", () => {
  expect(errnoName(2)).toBe("ENOENT")
  expect(errnoName(95)).toBe("EOPNOTSUPP")
  expect(errnoName(1234)).toBe("errno 1234")
})
