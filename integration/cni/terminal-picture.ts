/** The width of a character and the height of a line, in pixels. */
const CHARACTER = 7.3
const LINE = 17
const MARGIN = 14

/** The colors for the SGR parameters that the tool uses, on a dark background. */
const colours: Readonly<Record<string, string>> = {
  "1": 'font-weight="700"',
  "2": 'opacity="0.7"',
  "32": 'fill="#7ee2a8"',
  "33": 'fill="#f5c86a"',
  "31;1": 'fill="#ff8a80" font-weight="700"',
}

/** Returns a picture of a terminal with a command and its output, as SVG. */
export function terminalPicture(command: string, output: string): string {
  const lines = [`$ ${command}`, ...output.trimEnd().split("\n")]
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are what is looked for
  const plain = lines.map((line) => line.replace(/\x1b\[[\d;]*m/g, ""))
  const width = Math.ceil(Math.max(...plain.map((line) => line.length)) * CHARACTER + 2 * MARGIN)
  const height = lines.length * LINE + 2 * MARGIN
  const rows = lines.map((line, at) => `<text x="${MARGIN}" y="${MARGIN + 12 + at * LINE}">${spans(line)}</text>`)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${command}">
<rect width="100%" height="100%" rx="8" fill="#12171e"/>
<g xml:space="preserve" fill="#e6ebf2" font-family="ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace" font-size="12">
${rows.join("\n")}
</g>
</svg>
`
}

/** Returns a line as SVG spans, one for each part between escape sequences, in its column. */
function spans(line: string): string {
  let column = 0
  let style = ""
  const found: string[] = []
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are what is looked for
  for (const piece of line.split(/(\x1b\[[\d;]*m)/)) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are what is looked for
    const [, parameters] = /^\x1b\[([\d;]*)m$/.exec(piece) ?? []
    if (parameters !== undefined) style = colours[parameters] ?? ""
    else if (piece !== "") {
      const text = piece
        .replace(/[&<>]/g, (each) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[each] ?? "")
        .replaceAll(" ", "\u00a0")
      const width = piece.length * CHARACTER
      found.push(
        `<tspan x="${(MARGIN + column * CHARACTER).toFixed(1)}" textLength="${width.toFixed(1)}"${style && ` ${style}`}>${text}</tspan>`,
      )
      column += piece.length
    }
  }
  return found.join("")
}
