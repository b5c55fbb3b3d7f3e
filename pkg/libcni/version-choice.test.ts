import { expect, test } from "bun:test"
import { chooseVersion } from "./version-choice.ts"

test("#181 the highest of cniVersions is chosen", () => {
  expect(chooseVersion({ cniVersions: ["1.1.0", "0.4.0", "1.0.0"] })).toBe("1.1.0")
})

test("#182 versions that this library does not know yet are passed over", () => {
  expect(chooseVersion({ cniVersions: ["99.0.0", "0.4.0"], cniVersion: "98.0.0" })).toBe("0.4.0")
  expect(chooseVersion({ cniVersions: ["99.0.0"], cniVersion: "98.0.0" })).toBe("98.0.0")
})

test("#183 an entry that is no version is an error", () => {
  for (const cniVersions of [["1.0.0", "x"], ["1.0.0", 1], null, "1.0.0", [null]]) {
    expect(() => chooseVersion({ cniVersions })).toThrow(expect.objectContaining({ code: 7 }))
  }
  expect(() => chooseVersion({ cniVersions: ["1.0.0"], cniVersion: "x" })).toThrow('"x" is not a version')
})

test("#184 cniVersion alone is kept as it is written", () => {
  expect(chooseVersion({ cniVersion: "1.2.3" })).toBe("1.2.3")
  expect(chooseVersion({})).toBe("")
})

test("#185 cniVersion counts among cniVersions", () => {
  expect(chooseVersion({ cniVersion: "1.0.0", cniVersions: ["0.1.0", "0.4.0"] })).toBe("1.0.0")
})

test("#186 no cniVersion and an empty cniVersions choose nothing", () => {
  expect(chooseVersion({ cniVersions: [] })).toBe("")
})
