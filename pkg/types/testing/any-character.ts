import fc from "fast-check"

/**
 * Any character, in half of the cases a plain one: a unit for `fc.string`. fast-check's own "binary" would work, but
 * takes a second to set up.
 */
export const anyCharacter = fc
  .oneof(fc.integer({ min: 0, max: 0x7f }), fc.integer({ min: 0, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code))
