// The content of an image: values of each kind, which the second script uses, changes and drops.

class Counter {
  #count = 0
  static made = []
  constructor(name) {
    this.name = name
  }
  add(by = 1) {
    this.#count += by
    return this.#count
  }
}
const closed = { value: null }
globalThis.image = {
  Counter,
  plain: { a: 1, b: "two", c: { d: [1, 2, 3] } },
  list: ["x", "y", { z: 1 }],
  numbers: new Uint8Array(300),
  dates: new Date(0),
  pattern: /([a-z]+)-(\d+)/gu,
  sticky: /b/y,
  symbol: Symbol("of the image"),
  map: new Map([
    ["k", { v: 1 }],
    [{ key: true }, 2],
  ]),
  set: new Set([1, "one"]),
  weak: new WeakMap(),
  key: { of: "weak" },
  long: "long ".repeat(200),
  rope: `${"left ".repeat(40)}${"right ".repeat(40)}`,
  wide: "ü→".repeat(30),
  big: 123456789012345678901234567890n,
  frozen: Object.freeze({ is: "frozen" }),
  remember(value) {
    const before = closed.value
    closed.value = value
    return before
  },
  *count(to) {
    for (let at = 0; at < to; at++) yield { at, image: globalThis.image }
  },
  counter: new Counter("of the image"),
  getter: {
    get now() {
      return this.held
    },
  },
  dictionary: {},
  // Objects with five properties whose common shape has room for a sixth.
  twins: [1, 2].map((at) => ({ one: at, two: at, three: at, four: at, five: at })),
  words: Array.from({ length: 16 }, (_, at) => "w".repeat(at + 1)), // some can grow by a letter
}
for (let at = 0; at < 40; at++) image.dictionary[`key${at}`] = at
for (let at = 0; at < 40; at += 2) delete image.dictionary[`key${at}`]
image.weak.set(image.key, { value: "of the image" })
// Only the image refers to these: their shape, string and bytecode are not shared.
image.alone = JSON.parse('{"only":{"one":["owner"]}}')
// Its shape is the last one in the image's list.
image.last = { first: 1, second: 2 }
delete image.last.first
