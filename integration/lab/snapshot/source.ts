/** One kind of state of a namespace: the program that prints it, and how its output becomes comparable lines. */
export interface Source {
  readonly command: readonly string[]
  /** A program that may be missing on this machine; then there are no lines. */
  readonly optional?: boolean
  lines(stdout: string): string[]
}

/** A JSON object of unknown shape. */
export type Json = { readonly [key: string]: unknown }

/** The JSON list that `ip -j` and similar commands print; they print nothing for an empty one. */
export function parseList(stdout: string): Json[] {
  return JSON.parse(stdout.trim() || "[]") as Json[]
}

/** An object as `key value key value`, without the given keys; false and empty values are omitted. */
export function words(object: Json, without: readonly string[] = []): string {
  return Object.entries(object)
    .filter(([key, value]) => !without.includes(key) && value !== false && !isEmpty(value))
    .map(([key, value]) => `${key} ${text(value)}`)
    .join(" ")
}

/** An object of objects as one `path value` pair per leaf. */
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
