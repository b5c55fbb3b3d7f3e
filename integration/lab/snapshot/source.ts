/** One kind of state of a namespace: the command that prints it, and a function that makes lines to compare. */
export interface Source {
  readonly command: readonly string[]
  /** Whether the snapshot omits this section if the program is missing on this machine. */
  readonly optional?: boolean
  lines(stdout: string): string[]
}

/** A JSON object of unknown shape. */
export type Json = { readonly [key: string]: unknown }

/** Parses the JSON list that `ip -j` and similar commands print. Empty output is an empty list. */
export function parseList(stdout: string): Json[] {
  return JSON.parse(stdout.trim() || "[]") as Json[]
}

/** Formats an object as `key value key value`, without the keys in `without` and without false and empty values. */
export function words(object: Json, without: readonly string[] = []): string {
  return Object.entries(object)
    .filter(([key, value]) => !without.includes(key) && value !== false && !isEmpty(value))
    .map(([key, value]) => `${key} ${text(value)}`)
    .join(" ")
}

/** Returns a line `path value` for each leaf of a nested object. */
export function leaves(value: unknown, path = ""): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [`${path} ${text(value)}`]
  return Object.entries(value).flatMap(([key, child]) => leaves(child, path === "" ? key : `${path}.${key}`))
}

function text(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value)
}

function isEmpty(value: unknown): boolean {
  return value === "" || (Array.isArray(value) && value.length === 0)
}
