/**
 * Returns the source of a position in a bundle: "pkg/ip/veth.ts:32". Line and column are counted from 1. Returns
 * undefined for code without a source. `encodePositions` of `scripts/bundle.ts` writes the table at build time. It has
 * three lines for each bundle: the bundle's name, the source files, and the source of each script line.
 */
export function findPosition(table: string, bundle: string, line: number, column: number): string | undefined {
  const rows = table.split("\n")
  const at = rows.indexOf(bundle)
  if (at === -1) return undefined
  const files = rows[at + 1]?.split(",") ?? []
  const steps = rows[at + 2]?.split(",").slice(0, line) ?? []
  let file = ""
  let source = 0
  for (const step of steps) {
    if (step === "x") file = ""
    const [, number, change = "1"] = /^(?:(\d+):)?(-?\d+)?(?:@|$)/.exec(step) ?? []
    if (number !== undefined) {
      file = files[Number(number)] ?? ""
      source = 0
    }
    source += Number(change)
  }
  for (const [, from, change] of steps.at(-1)?.matchAll(/@(\d+):(-?\d+)/g) ?? []) {
    if (Number(from) < column) source += Number(change)
  }
  return file === "" ? undefined : `${file}:${source}`
}
