import { expect, test } from "bun:test"

const bytes = Uint8Array.of(1, 2, 3)

const inPart: Readonly<Record<string, [received: object, expected: object]>> = {
  "no bytes of some": [{ bytes }, { bytes: new Uint8Array() }],
  "the first bytes": [{ bytes }, { bytes: Uint8Array.of(1, 2) }],
  "all bytes": [{ bytes }, { bytes }], // otherwise the next change to either one would not be noticed
  "bytes in a list": [{ routes: [{ to: { bytes } }] }, { routes: [{ to: { bytes: new Uint8Array() } }] }],
  "bytes by themselves": [bytes, new Uint8Array()],
  "bytes with an object": [{ bytes }, { bytes: {} }],
  "a buffer": [{ buffer: bytes.buffer }, { buffer: new ArrayBuffer(0) }],
  "a map": [{ map: new Map([[1, 2]]) }, { map: new Map() }],
  "a map with an object": [{ map: new Map([[1, 2]]) }, { map: {} }],
  "a set": [{ set: new Set([1]) }, { set: new Set() }],
  "a date": [{ at: new Date(1) }, { at: new Date(2) }],
  "a regular expression": [{ pattern: /a/ }, { pattern: /b/ }],
  "an error": [{ error: new Error("a") }, { error: new Error("b") }],
}

for (const [what, [received, expected]] of Object.entries(inPart)) {
  test(`toMatchObject refuses to compare ${what}`, () => {
    expect(() => expect(received).toMatchObject(expected)).toThrow(/^Cannot match the \w+.* with toMatchObject/)
    expect(() => expect(received).not.toMatchObject(expected)).toThrow(/^Cannot match the \w+.* with toMatchObject/)
  })
}

test("toMatchObject names the place of what it refuses", () => {
  expect(() => expect({ routes: [{ to: bytes }] }).toMatchObject({ routes: [{ to: bytes }] })).toThrow(
    'Cannot match the Uint8Array at "routes.0.to" with toMatchObject: it would be compared in part; use toEqual',
  )
})

test("toMatchObject refuses what a promise ends with", async () => {
  const ended = Promise.resolve({ bytes })
  expect(await failureOf(() => expect(ended).resolves.toMatchObject({ bytes: {} }))).toContain('Uint8Array at "bytes"')
  const failed = Promise.reject(Object.assign(new Error("no"), { bytes }))
  expect(await failureOf(() => expect(failed).rejects.toMatchObject({ bytes: {} }))).toContain('Uint8Array at "bytes"')
})

test("toMatchObject compares everything else as ever", async () => {
  expect({ a: 1, list: [{ b: "x", bytes }], error: new Error("no") }).toMatchObject({
    a: expect.any(Number),
    list: [{ b: expect.stringMatching("x") }],
    error: { message: "no" },
  })
  expect({ bytes, a: 1 }).toMatchObject({ a: 1 })
  expect({ bytes }).toMatchObject({ bytes: expect.any(Uint8Array) })
  expect({ a: 1 }).not.toMatchObject({ a: 2 })
  expect(() => expect({ a: 1 }).toMatchObject({ a: 2 })).toThrow()
  expect(() => expect({ a: 1 }).not.toMatchObject({ a: 1 })).toThrow()
  await expect(Promise.resolve({ a: 1 })).resolves.toMatchObject({ a: 1 })
  expect(await failureOf(() => expect(Promise.resolve({ a: 1 })).resolves.toMatchObject({ a: 2 }))).not.toBe("")
  expect(
    await failureOf(() => expect(Promise.reject(new Error("a"))).rejects.toMatchObject({ message: "b" })),
  ).not.toBe("")
})

/** Other matchers compare bytes, maps and sets correctly. */
test("toContainEqual, objectContaining and toHaveProperty compare bytes, maps and sets whole", () => {
  for (const [received, expected] of [
    [{ value: bytes }, { value: Uint8Array.of(1, 2) }],
    [{ value: new Map([[1, 2]]) }, { value: new Map() }],
    [{ value: new Set([1]) }, { value: new Set() }],
  ] as const) {
    expect([received]).not.toContainEqual(expected)
    expect(received).not.toEqual(expect.objectContaining(expected))
    expect([received.value]).not.toEqual(expect.arrayContaining([expected.value]))
    expect(received).not.toHaveProperty("value", expected.value)
  }
})

async function failureOf(run: () => unknown): Promise<string> {
  try {
    await run()
  } catch (error) {
    return String(error)
  }
  return ""
}
