import fc from "fast-check"

/** Any character, every second one plain: a unit for `fc.string`, whose own "binary" takes a second to set up. */
export const anyCharacter = fc
  .oneof(fc.integer({ min: 0, max: 0x7f }), fc.integer({ min: 0, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code))
