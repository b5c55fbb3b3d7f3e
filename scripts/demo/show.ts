import { styleText } from "node:util"

export function title(text: string): void {
  console.log(`\n${styleText("bold", text)}`)
}

/** Prints a proven fact, and the duration of a call in milliseconds. */
export function done(text: string, ms?: number): void {
  const time = ms === undefined ? "" : styleText("cyan", `${ms.toFixed(1)} ms`.padStart(10))
  console.log(`${styleText("green", "  ✓")} ${text.padEnd(time === "" ? 0 : 58)}${time}`)
}

/** Prints an explanation or a program's output, indented. */
export function note(text: string): void {
  console.log(styleText("dim", text.replace(/^/gm, "    ")))
}

/** Prints `text` if `holds`, otherwise throws an error with it. */
export function prove(holds: boolean, text: string): void {
  if (!holds) throw new Error(`This should hold and does not: ${text}`)
  done(text)
}

/** Formats JSON with one line per member. */
export function brief(object: object): string {
  const lines = Object.entries(object).map(([key, value]) => {
    if (!Array.isArray(value)) return `  "${key}": ${JSON.stringify(value)}`
    return [`  "${key}": [`, value.map((item) => `    ${JSON.stringify(item)}`).join(",\n"), "  ]"].join("\n")
  })
  return `{\n${lines.join(",\n")}\n}`
}
