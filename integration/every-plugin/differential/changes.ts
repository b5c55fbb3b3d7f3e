import fc from "fast-check"
import { type Json, odd } from "./values.ts"

/** Returns every value inside a value that can be changed, as container and key. */
function placesIn(value: Json): [{ [key: string]: Json }, string][] {
  if (typeof value !== "object" || value === null) return []
  const object = value as { [key: string]: Json }
  return Object.keys(object).flatMap(
    (key) => [[object, key], ...placesIn(object[key] ?? null)] as [typeof object, string][],
  )
}

interface Mutation {
  readonly at: number
  readonly kind: "replace" | "delete" | "case" | "wrap" | "add"
  readonly value: Json
}

/** Returns a configuration with these changes. */
export function mutate(config: { [key: string]: Json }, mutations: readonly Mutation[]): { [key: string]: Json } {
  const changed = structuredClone(config)
  for (const { at, kind, value } of mutations) {
    const places = placesIn(changed)
    const [object, key] = places[at % places.length] ?? [changed, "name"]
    const old = object[key] ?? null
    if (kind === "replace") object[key] = value
    else if (kind === "wrap") object[key] = [old, value]
    else if (kind === "add" && !Array.isArray(object)) object[String(value).slice(0, 20)] = old
    else if (Array.isArray(object)) object.splice(Number(key), 1)
    else delete object[key]
    if (kind === "case") object[key.toUpperCase()] = old
  }
  return changed
}

/** A generator of random changes to a configuration. */
export const mutation: fc.Arbitrary<Mutation> = fc.record({
  at: fc.nat(200),
  kind: fc.constantFrom("replace", "replace", "replace", "delete", "case", "wrap", "add"),
  value: odd,
})

/** A generator of functions that damage the text of a configuration. */
export const spoil: fc.Arbitrary<(text: string) => Uint8Array> = fc
  .tuple(fc.nat(), fc.nat(11), fc.string({ unit: "binary", maxLength: 3 }), fc.uint8Array({ maxLength: 40 }))
  .map(([at, kind, piece, bytes]) => (text: string) => {
    const cut = at % (text.length + 1)
    const all = Buffer.from(text)
    const numbered = (literal: string) => Buffer.from(text.replace(/(?<=[:[])-?\d+(\.\d+)?(?=[,\]}])/, literal))
    const literals = [
      "12345678901234567890",
      "1e400",
      "-0",
      "01",
      "1.",
      ".5",
      "1E+2",
      "9007199254740993",
      "0.1e-400",
      "-",
      "+1",
      "NaN",
    ]
    switch (kind) {
      case 0:
        return Buffer.from(text.slice(0, cut))
      case 1:
        return Buffer.from(text.slice(0, cut) + piece + text.slice(cut))
      case 2:
        return Buffer.from(text.slice(0, cut) + piece + text.slice(cut + piece.length))
      case 3:
        return Buffer.concat([all.subarray(0, cut), bytes, all.subarray(cut)])
      case 4:
        return Buffer.from(`\ufeff${text}`)
      case 5:
        return Buffer.from(text + piece)
      case 6:
        return numbered(literals[at % literals.length] ?? "")
      case 7:
        return Buffer.from(text.replace("{", `{"name":"twice","NAME":"${at}",`))
      case 8:
        return Buffer.from(text.replaceAll(",", " ,\n\t\r "))
      case 9:
        return bytes
      case 10:
        return Buffer.from(text.replace("{", `{"deep":${"[".repeat(at % 1200)}${"]".repeat(at % 1200)},`))
      default:
        return Buffer.from(JSON.stringify([JSON.parse(text)]).slice(at % 2))
    }
  })
