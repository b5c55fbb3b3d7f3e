import fc from "fast-check"

/**
 * Any character, a plain one as often as not: a unit for `fc.string`. fast-check's own "binary" does as well, and takes
 * a second to set up.
 */
export const anyCharacter = fc
  .oneof(fc.integer({ min: 0, max: 0x7f }), fc.integer({ min: 0, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code))
