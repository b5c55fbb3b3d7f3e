import { expect, test } from "bun:test"
import { atLeast, Code, compareVersions, isCniError, newestVersion, parseVersion, supportedVersions } from "./mod.ts"

test('#120 "1.2.3" is 1, 2, 3; missing parts are 0; "" is 0.1.0', () => {
  expect(parseVersion("1.2.3")).toEqual([1, 2, 3])
  expect(parseVersion("1.2")).toEqual([1, 2, 0])
  expect(parseVersion("7")).toEqual([7, 0, 0])
  expect(parseVersion("")).toEqual([0, 1, 0])
})

test.each([
  "asdfasdf",
  "asdf.",
  ".asdfas",
  "0.",
  "..",
  "1.2.3.4.5",
  "1.2.3.4",
  "1.0.0-rc1",
  " 1.0.0",
  "1.0.0\n",
  "1e3",
])("#121 %j is not a version", (text) => {
  const error = thrownBy(() => parseVersion(text))
  expect(isCniError(error, Code.Decoding)).toBe(true)
  expect(String(error)).toContain(`"${text}"`)
})

test("signs and leading zeros pass, as upstream's test plugin announces 0.-42.0", () => {
  expect(parseVersion("0.-42.0")).toEqual([0, -42, 0])
  expect(parseVersion("+1.01.0")).toEqual([1, 1, 0])
})

test("#122 versions are ordered by number, not by letter", () => {
  expect(compareVersions("0.4.0", "0.3.1")).toBeGreaterThan(0)
  expect(compareVersions("2.5.4", "2.4.4")).toBeGreaterThan(0)
  expect(compareVersions("1.2.34", "1.2.14")).toBeGreaterThan(0)
  expect(compareVersions("1.2.9", "1.2.14")).toBeLessThan(0)
  expect(compareVersions("1.1", "1.1.0")).toBe(0)
  expect(compareVersions("0.4.0", "0.4.0")).toBe(0)
  expect(atLeast("0.4.0", "0.4.0")).toBe(true)
  expect(atLeast("0.3.1", "0.4.0")).toBe(false)
})

test("#123 all versions from 0.3.1 are four", () => {
  const from = supportedVersions.filter((version) => atLeast(version, "0.3.1"))
  expect(from).toEqual(["0.3.1", "0.4.0", "1.0.0", "1.1.0"])
})

test("the supported versions are in order, and the newest is the last", () => {
  expect([...supportedVersions].sort(compareVersions)).toEqual([...supportedVersions])
  expect(supportedVersions.at(-1)).toBe(newestVersion)
})

function thrownBy(run: () => unknown): unknown {
  try {
    run()
  } catch (error) {
    return error
  }
  return undefined
}
