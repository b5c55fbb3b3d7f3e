import { styleText } from "node:util"

/** Prints a headline. */
export function title(text: string): void {
  console.log(`\n${styleText("bold", text)}`)
}

/** Prints something that has been shown to hold, and how long it took if that was a call. */
export function done(text: string, ms?: number): void {
  const time = ms === undefined ? "" : styleText("cyan", `${ms.toFixed(1)} ms`.padStart(10))
  console.log(`${styleText("green", "  ✓")} ${text.padEnd(time === "" ? 0 : 58)}${time}`)
}

/** Prints an explanation, or output of a program, indented. */
export function note(text: string): void {
  console.log(styleText("dim", text.replace(/^/gm, "    ")))
}

/** Throws `text` unless it holds, else prints it. */
export function prove(holds: boolean, text: string): void {
  if (!holds) throw new Error(`This should hold and does not: ${text}`)
  done(text)
}

/** JSON with one line for each thing in it: short enough to be read. */
export function brief(object: object): string {
  const lines = Object.entries(object).map(([key, value]) => {
    if (!Array.isArray(value)) return `  "${key}": ${JSON.stringify(value)}`
    return [`  "${key}": [`, value.map((item) => `    ${JSON.stringify(item)}`).join(",\n"), "  ]"].join("\n")
  })
  return `{\n${lines.join(",\n")}\n}`
}
