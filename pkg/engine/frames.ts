import { locate } from "#engine"

/**
 * Returns the calls that led to an error, innermost first: "addVeth pkg/ip/veth.ts:32". Skips code outside the suite.
 */
export function sourceFrames(error: unknown, limit = 4): string[] {
  const frames: string[] = []
  const stack = error instanceof Error ? (error.stack ?? "") : ""
  for (const [, name, file = "", line, column] of stack.matchAll(/^ +at (?:(.+?) \()?([^()\n]*?):(\d+):(\d+)\)?$/gm)) {
    const source = locate(file, Number(line), Number(column))
    if (source !== undefined) frames.push(name === undefined ? source : `${name} ${source}`)
    if (frames.length === limit) break
  }
  return frames
}

/** Formats an error and the calls that led to it, one per line. */
export function withFrames(error: unknown): string {
  return [String(error), ...sourceFrames(error, 20)].join("\n    at ")
}
