import { expect, test } from "bun:test"
import { didYouMean } from "./did-you-mean.ts"

test("what was probably meant", () => {
  const known = ["isGateway", "isDefaultGateway", "ipMasq", "mtu"]
  expect(didYouMean("isDefaultGatway", known)).toBe("isDefaultGateway")
  expect(didYouMean("is_default_gateway", known)).toBe("isDefaultGateway")
  expect(didYouMean("ipmaqs", known)).toBe("ipMasq")
  expect(didYouMean("mut", known)).toBe("mtu")
  expect(didYouMean("hairpinMode", known)).toBeUndefined()
  // The most similar of several words; two swapped neighbors at either end; one wrong letter in a short word, but not
  // two.
  expect(didYouMean("abcdefgx", ["abcdefzz", "abcdefgh"])).toBe("abcdefgh")
  expect(didYouMean("abcdefgx", ["abcdefgh", "abcdefzz"])).toBe("abcdefgh")
  expect([didYouMean("ba", ["ab"]), didYouMean("acb", ["abc"]), didYouMean("cba", ["abc"])]).toEqual([
    "ab",
    "abc",
    undefined,
  ])
  expect([didYouMean("tm", ["mtu"]), didYouMean("mt", ["mtu"]), didYouMean("mtuu", ["mtu"])]).toEqual([
    undefined,
    "mtu",
    "mtu",
  ])
  expect([didYouMean("abcxyz", ["abcdef"]), didYouMean("abcdxy", ["abcdef"])]).toEqual([undefined, "abcdef"])
})
