import type { Engine } from "./engine.ts"

/** The native host's functions (`host/door.c`), which it leaves in `globalThis` before any of our code runs. */
declare const host: Engine & { positions(): string }

export const engine: Engine = host

/**
 * The source of a line of a bundle: "pkg/ip/veth.ts:32". Undefined for lines that no source has. The build has left a table,
 * made by `encodePositions`: three lines for each bundle, its name, its source files, and for each of its lines the source.
 */
export function locate(bundle: string, line: number): string | undefined {
  const table = host.positions().split("\n")
  const at = table.indexOf(bundle)
  const files = table[at + 1]?.split(",") ?? []
  const lines = table[at + 2]?.split(",") ?? []
  let file = ""
  let source = 0
  for (const step of lines.slice(0, line)) {
    const [, number, change = "1"] = /^(?:(\d+):)?(-?\d+)?$/.exec(step) ?? []
    if (number !== undefined) {
      file = files[Number(number)] ?? ""
      source = 0
    }
    source += Number(change)
  }
  return at === -1 || file === "" ? undefined : `${file}:${source}`
}
