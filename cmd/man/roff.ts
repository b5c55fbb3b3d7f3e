/** Text for man(7), which groff and mandoc read. Each line ends with a newline. */

/** Returns the first line of a manual page: `.TH CNI 1 "" "cni-plugins 0.1.0" …`. */
export function header(name: string, section: number, source: string, manual: string): string {
  return `.TH ${quoted(name.toUpperCase())} ${section} "" ${quoted(source)} ${quoted(manual)}\n`
}

export function heading(text: string): string {
  return `.SH ${quoted(text.toUpperCase())}\n`
}

export function subheading(text: string): string {
  return `.SS ${quoted(text)}\n`
}

/** Returns a term with an indented description. `words` and `meaning` are one line of Markdown each. */
export function term(words: string, meaning: string): string {
  return `.TP\n${inline(words)}\n${inline(meaning)}\n`
}

export function paragraph(text: string): string {
  return `.PP\n${inline(text.replace(/\s*\n\s*/g, " "))}\n`
}

/** Returns text whose line breaks stay unchanged. */
export function literal(text: string): string {
  const lines = text.split("\n").map((line) => guarded(escaped(line)))
  return `.PP\n.RS 4\n.nf\n${lines.join("\n")}\n.fi\n.RE\n`
}

export function bullet(text: string): string {
  return `.IP \\(bu 2\n${inline(text)}\n`
}

/** Converts inline Markdown: code and strong text become bold, and links become their text. */
export function inline(markdown: string): string {
  const parts = markdown
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .split(/(`[^`]*`|\*\*[^*]+\*\*)/)
    .filter((part) => part !== "")
  const text = parts.map((part) => {
    const strong = /^`([^`]*)`$|^\*\*([^*]+)\*\*$/.exec(part)
    if (strong === null) return escaped(part)
    return `\\fB${escaped(strong[1] ?? strong[2] ?? "").replaceAll("-", "\\-")}\\fR`
  })
  return guarded(text.join(""))
}

/** Escapes a line that begins with a control character, because man(7) would read it as a request. */
function guarded(line: string): string {
  return /^[.']/.test(line) ? `\\&${line}` : line
}

function escaped(text: string): string {
  return text
    .replaceAll("\\", "\\e")
    .replace(/[^\0-\x7f]/gu, (char) => `\\[u${char.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}]`)
}

function quoted(text: string): string {
  return `"${escaped(text).replaceAll('"', "\\(dq")}"`
}
