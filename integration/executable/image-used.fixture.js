// Uses, changes and drops the values of the image twice, and prints what it finds.
;(() => {
  const { image } = globalThis
  const seen = []
  const see = (name, value) => seen.push(`${name}=${typeof value === "bigint" ? value : JSON.stringify(value)}`)

  // Stores values of the heap in objects of the image, and the reverse.
  image.plain.a = { of: "the heap", and: image.plain.c }
  image.plain.c.back = image.plain.a
  image.list.push({ new: image.list.length })
  image.list.splice(3)
  image.list[0] = `x${image.list.length}`
  see("plain", image.plain.a.of)
  see("list", image.list)
  image.numbers[7] = 9
  see("numbers", [image.numbers.length, image.numbers[7], image.numbers.subarray(5, 9)])
  image.numbers.buffer.slice(0, 8)

  // Changes shapes: adds and deletes a property, sets a prototype, freezes, and compacts.
  for (const object of [
    image.plain,
    image.alone.only,
    image.dictionary,
    image.Counter,
    image.Counter.prototype,
    Array.prototype,
  ]) {
    object.added = "added"
    for (let at = 0; at < 12; at++) object[`more${at}`] = { at }
    for (let at = 0; at < 12; at++) delete object[`more${at}`]
    see("added", object.added)
    delete object.added
  }
  const [twin] = image.twins
  twin[`sixth${image.list.length}`] = 3
  see("twins", image.twins.map(Object.keys))
  delete twin[`sixth${image.list.length}`]
  for (let at = 0; at < 40; at++) image.last[`key${at}`] = at
  for (let at = 0; at < 40; at++) delete image.last[`key${at}`]
  see("last", image.last)
  for (let at = 1; at < 40; at += 2) {
    delete image.dictionary[`key${at}`]
    image.dictionary[`key${at}`] = at
  }
  see("dictionary", Object.keys(image.dictionary).length)
  const similar = { a: 1, b: "two" }
  similar.c = image.plain
  see("similar", Object.keys(similar))
  Object.setPrototypeOf(image.getter, { proto: "of the heap" })
  image.getter.held = "held"
  see("getter", [image.getter.now, image.getter.proto])
  try {
    image.frozen.is = "melted"
  } catch (error) {
    see("frozen", error.message)
  }
  Object.defineProperty(image.plain, "hidden", { value: 1, configurable: true, enumerable: false })
  Object.defineProperty(image.plain, "hidden", { get: () => image.list, configurable: true })
  delete image.plain.hidden

  // Creates reference cycles within the heap and through the image.
  for (let at = 0; at < 50; at++) {
    const one = { at }
    const other = { one, image, shape: { [`only${at}`]: one } }
    one.other = other
    image.cycle = one
  }
  collect()
  see("cycle", image.cycle.at)
  const held = { cycle: null }
  held.cycle = { held, map: new Map([[held, image.map]]) }
  image.held = held
  collect()
  see("held", image.held.cycle.map.size)
  delete image.held
  delete image.cycle

  // Uses maps, sets and other collections.
  image.map.set("new", held).set(held, "as a key").set("k", { v: 2 })
  image.map.delete("new")
  image.map.delete(held)
  for (const at of Array(40).keys()) image.set.add(`many ${at}`)
  for (const at of Array(40).keys()) image.set.delete(`many ${at}`)
  see("map", [image.map.size, image.map.get("k"), image.set.size])
  const iterator = image.map.entries()
  iterator.next()
  image.map.delete("k")
  image.map.set("k", { v: 1 })

  // Uses weak references in both directions.
  let dropped = { in: "the heap" }
  image.weak.set(dropped, { value: "weak" })
  image.weak.set(image.key, { value: dropped, key: image.key })
  const weakly = new WeakMap([
    [image.key, { map: image.map }],
    [image.plain, held],
  ])
  const [lasting, fleeting] = [new WeakRef(image.plain), new WeakRef(dropped)]
  const registry = new FinalizationRegistry(() => {})
  registry.register(dropped, "gone")
  registry.register(image.list, "the list", image.plain)
  registry.unregister(image.plain)
  see("weak", [image.weak.has(dropped), weakly.get(image.plain) === held, lasting.deref() === image.plain])
  dropped = undefined
  image.weak.set(image.key, { value: "again" })
  collect()
  see("weak later", [fleeting.deref() === undefined, image.weak.get(image.key)])

  // Uses strings: appended, sliced, as ropes, as property keys, numbers and symbols.
  let text = image.long
  for (let at = 0; at < 100; at++) text += "more"
  image.kept = text.slice(990, 1010) + image.wide.slice(3, 6)
  see("kept", image.kept)
  see("rope", [image.rope.length, image.rope.charAt(199), `${image.rope}${image.rope}`.length])
  const longer = image.words.map((word) => {
    let more = word
    more += "!"
    return more.length
  })
  see("words", [longer, image.words.map((word) => word.length), image.words[3]])
  see("untouched", [image.long.length, image.wide.length])
  const keyed = { [image.long]: 1, [image.symbol]: 2, [`computed ${image.list.length}`]: 3 }
  see("keyed", [keyed[image.long], keyed[image.symbol], Object.keys(keyed).length])
  see("pattern", [..."ab-1 cd-22".matchAll(image.pattern)].map(String))
  image.sticky.lastIndex = 1
  see("sticky", [image.sticky.test("abc"), image.sticky.lastIndex])
  see("big", image.big * 2n + image.big - BigInt(image.list.length))
  see("date", new Date(image.dates.getTime() + 1).getTime())

  // Uses functions, closures, classes, generators and exceptions.
  image.remember({ round: 1, image })
  see("remembered", Object.keys(image.remember(null)))
  image.counter.add(2)
  image.counter.add(-2)
  see("counter", image.counter.add(0))
  class Derived extends image.Counter {
    add() {
      return super.add(5)
    }
  }
  image.Counter.made.push(new Derived("heap"))
  see("derived", image.Counter.made.pop().add())
  see(
    "generator",
    [...image.count(3)].map(({ at }) => at),
  )
  image.count(3).next()
  try {
    image.list.nothing.here
  } catch (error) {
    see("error", error.constructor === TypeError)
  }
  image.plain.a = 1
  delete image.plain.c.back
  delete image.kept
  image.list[0] = "x"
  see("json", JSON.stringify(image.plain))
  const sorted = [...image.list.map(String), ...image.set].map(String).sort()
  see("sorted", sorted)
  return seen.join("\n")
})()
