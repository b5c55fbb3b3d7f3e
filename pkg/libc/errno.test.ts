import { dlopen } from "bun:ffi"
import { expect, test } from "bun:test"
import { constants } from "node:os"
import { type ErrnoName, errnoName, errnoNumber, errnoText } from "./errno.ts"

const known = Array.from({ length: 1000 }, (_, number) => number).filter((number) => /^E/.test(errnoName(number)))

test("numbers are those of this machine's C library", () => {
  const theirs = new Map<string, number>(Object.entries(constants.errno))
  const shared = known.filter((number) => theirs.has(errnoName(number)))
  expect(shared.length).toBeGreaterThan(70)
  for (const number of shared)
    expect(`${errnoName(number)} ${number}`).toBe(`${errnoName(number)} ${theirs.get(errnoName(number))}`)
})

test("1 to 133 have a name each but for the two that Linux left out, and so has what should stay in the kernel", () => {
  const named = Array.from({ length: 133 }, (_, at) => at + 1).filter((number) => number !== 41 && number !== 58)
  expect(known).toEqual([...named, 524]) // <asm-generic/errno.h>: EWOULDBLOCK is EAGAIN, EDEADLOCK is EDEADLK
})

test("a number is named as in <errno.h>, and one that no header knows is still shown", () => {
  expect(errnoName(2)).toBe("ENOENT")
  expect(errnoName(95)).toBe("EOPNOTSUPP")
  expect(errnoName(0)).toBe("errno 0")
  expect(errnoName(1234)).toBe("errno 1234")
})

test("a name has one number", () => {
  for (const number of known) expect(errnoNumber(errnoName(number) as ErrnoName)).toBe(number)
})

test("its words are those of glibc's strerror(3), for every number", () => {
  const { strerror } = dlopen("libc.so.6", { strerror: { args: ["i32"], returns: "cstring" } }).symbols
  for (let number = 1; number < 600; number++)
    expect(`${number}: ${errnoText(number)}`).toBe(`${number}: ${strerror(number)}`)
})
