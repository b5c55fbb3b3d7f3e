import type { Chance } from "../lab/mod.ts"

/** Calls that are nearly right: what a caller gets wrong, and what one does who wants to do harm. */

/** A call of a plugin; of the configuration each byte is a character. */
export interface FuzzedCall {
  readonly plugin: string
  readonly env: Record<string, string>
  readonly stdin: string
}

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

/** A copy with one value somewhere in it replaced, removed or doubled, or its key spelled otherwise. */
function mutateValue(chance: Chance, value: unknown): unknown {
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

/** Text with some of its bytes changed, taken out, doubled, or cut off. */
function mutateText(chance: Chance, text: string): string {
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

const latin1 = (value: unknown) => Buffer.from(JSON.stringify(value) ?? "").toString("latin1")

/** One call made of a valid one. */
export function mutate(
  chance: Chance,
  valid: { plugin: string; env: Record<string, string>; config: object },
): FuzzedCall {
  const env = {
    ...valid.env,
    CNI_COMMAND: chance.of(["ADD", "ADD", "ADD", "CHECK", "DEL", "DEL", "GC", "STATUS", "VERSION"]),
  }
  let config: unknown = valid.config
  for (let times = chance.below(4); times > 0; times--) config = mutateValue(chance, config)
  let stdin = latin1(config)
  if (chance.below(4) === 0) for (let times = chance.below(3); times >= 0; times--) stdin = mutateText(chance, stdin)
  if (chance.below(4) === 0) {
    const name = chance.of(Object.keys(env).filter((key) => key !== "CNI_PATH")) as keyof typeof env
    const text = chance.of([
      "",
      "a".repeat(300),
      "/proc/self/ns/net",
      "é😀",
      "IP=1.2.3.4;K",
      "MAC=zz",
      "lo",
      "..",
      "a/b",
      "%s%n",
    ])
    env[name] = chance.below(2) === 0 ? text : mutateText(chance, env[name] ?? "").replaceAll("\0", "")
  }
  return { plugin: valid.plugin, env, stdin }
}
