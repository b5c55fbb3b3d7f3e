import type { Schema } from "../../../pkg/config/mod.ts"
import type { Chance } from "../../lab/chance.ts"

/** This file makes random values of unexpected types and at the limits of a key's range. */

const odd: readonly unknown[] = [
  null,
  true,
  "",
  0,
  -1,
  1e308,
  2 ** 53,
  4294967296,
  0.5,
  [],
  {},
  [[]],
  "\ud800",
  "é\u2028\uffff😀",
  "\u0000",
  "a".repeat(5000),
  "../../../../tmp",
  "10.0.0.0/33",
  "::ffff:1.2.3.4/128",
  "fe80::1%eth0/64",
  "255.255.255.255/0",
  "00:00:00:00:00:00",
  { __proto__: null, constructor: 1, toString: 2 },
  Array.from({ length: 300 }, (_, at) => at),
]

/** Returns a copy with one value replaced, removed or duplicated, or with one key misspelled. */
export function mutateValue(chance: Chance, value: unknown): unknown {
  if (typeof value !== "object" || value === null || chance.below(6) === 0) return chance.of(odd)
  if (Array.isArray(value)) {
    if (value.length === 0) return [chance.of(odd)]
    const at = chance.below(value.length)
    const copy = [...value]
    if (chance.below(4) === 0) copy.splice(at, chance.below(2), ...copy.slice(0, chance.below(3)))
    else copy[at] = mutateValue(chance, copy[at])
    return copy
  }
  const entries = Object.entries(value)
  const at = chance.below(entries.length + 1)
  const [key = "extra", inner] = entries[at] ?? []
  const kind = chance.below(8)
  if (kind === 0) entries.splice(at, 1)
  else if (kind === 1) entries[at] = [chance.of([key.toUpperCase(), `${key}\u0000`, "__proto__", ""]), inner]
  else entries[at] = [key, mutateValue(chance, inner)]
  return Object.fromEntries(entries)
}

/** Returns text with some bytes changed, removed or duplicated, or with the end cut off. */
export function mutateText(chance: Chance, text: string): string {
  const at = chance.below(text.length + 1)
  const to = at + chance.below(20)
  switch (chance.below(5)) {
    case 0:
      return text.slice(0, at)
    case 1:
      return text.slice(0, at) + text.slice(to)
    case 2:
      return text.slice(0, to) + text.slice(at)
    case 3:
      return (
        text.slice(0, at) +
        chance.of(["\xff", "\xed\xa0\x80", "\x00", '"', "[[[[", "\\u", "1e999", "\xf4\x90"]) +
        text.slice(at)
      )
    default:
      return text.slice(0, at) + String.fromCharCode(chance.below(256)) + text.slice(at + 1)
  }
}

/**
 * Returns a random value for a key: at or beyond a limit of the key's range, or of another type. The key's schema may
 * accept or refuse the value.
 */
export function edgeOf(chance: Chance, schema: Schema): unknown {
  if (chance.below(4) === 0) return chance.of(odd)
  switch (schema.kind) {
    case "boolean":
      return chance.of([true, false, "true", "yes", 0, 1, null, []])
    case "integer": {
      const { min = 0, max = 4294967295 } = schema
      return chance.of([
        min - 1,
        min,
        min + 1,
        max - 1,
        max,
        max + 1,
        0,
        -1,
        1,
        0.5,
        2 ** 31,
        2 ** 53,
        String(min),
        null,
      ])
    }
    case "quantity":
      return chance.of([
        0,
        -1,
        1,
        0.5,
        1e308,
        "0",
        "1",
        "8Mbit",
        "8Gbit",
        "1KiB",
        "9e99",
        "5 Mbit",
        "Mbit",
        "-1M",
        "",
        true,
      ])
    case "choice":
      return chance.of([...schema.of, ...schema.of.map((one) => one.toUpperCase()), `${schema.of[0]} `, "", "x", 0])
    case "text":
      return chance.of(texts)
    case "list":
      return chance.below(3) === 0
        ? chance.of([[], [null], [[]], {}, "x", Array.from({ length: 300 }, () => edgeOf(chance, schema.of))])
        : Array.from({ length: 1 + chance.below(3) }, () => edgeOf(chance, schema.of))
    case "record":
      return chance.of([{}, [], { "": "" }, { "a/b": null }, { "net.x": 5 }, { "../..": "1" }, { x: "1" }, "x"])
    case "object":
      return chance.below(3) === 0 ? chance.of([{}, [], "x", 5, null, { x: 1 }, [{}]]) : objectOf(chance, schema.fields)
  }
}

/** Returns an object with random values for some of the known keys. */
function objectOf(chance: Chance, fields: Readonly<Record<string, Schema>>): Record<string, unknown> {
  const keys = Object.keys(fields).filter(() => chance.below(2) === 0)
  return Object.fromEntries(keys.map((key) => [key, edgeOf(chance, fields[key] as Schema)]))
}

/** Texts that look like a name, an address, a path, or a number. */
const texts: readonly string[] = [
  ...[
    "",
    " ",
    "x",
    "eth0",
    "lo",
    ".",
    "..",
    "a/b",
    "/",
    "/proc/self",
    "/dev/null",
    "/run/cni/absent",
    "x".repeat(15),
    "x".repeat(16),
  ],
  ...[
    "10.1.2.3",
    "10.1.2.3/24",
    "10.1.0.0/16",
    "10.1.2.3/33",
    "010.1.1.1",
    "0.0.0.0/0",
    "255.255.255.255",
    "224.0.0.1",
    "10.1.2.3-10.1.2.9",
  ],
  ...["::", "::1", "::/0", "fd00::/64", "fd00::1/128", "fe80::1%eth0", "::ffff:1.2.3.4", "1::2::3", "ff02::1"],
  ...["0a:00:00:00:00:01", "01:00:5e:00:00:01", "00:00:00:00:00:00", "0a-00-00-00-00-01", "0a:00", "ff:ff:ff:ff:ff:ff"],
  ...[
    "0",
    "1",
    "-1",
    "4294967296",
    "1.1.0",
    "9.9.9",
    "true",
    "host-local",
    "static",
    "dhcp",
    "bridge",
    "absent",
    "../bridge",
  ],
  ...["é☃😀", "a\0b", "<&>\u2028", "__proto__", "constructor", "%s%n", "$(id)", "a\nb", "x".repeat(300)],
]
